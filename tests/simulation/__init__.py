"""The real code in a simulated world: processes, clocks, network and Kafka are modelled, and every chance comes from one seed."""
