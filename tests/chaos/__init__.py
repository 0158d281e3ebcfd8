"""The whole product on real brokers, real Spark and real processes, under faults that follow from one seed."""
