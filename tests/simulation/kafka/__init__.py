"""A model of Kafka for the simulation: requests of farshore.kafka as objects in, the values a broker's answers give out.

    log              one partition: batches, leader epochs, last stable offset, aborted list, truncation, compaction
    producer_state   what a log knows of each producer: epoch, the last five batches, the open transaction
    checks           what a leader checks before it appends, in the order of a real one
    transactions     the coordinator of transactions: every state, fences, timeouts, markers
    groups           the coordinator of groups: members, generations, rebalances, sessions
    fetch_sessions   incremental fetches
    reading          a fetch: which partitions, how many bytes, when to answer
    cluster          brokers, leaders, topics, and what a test does to them
    host             what the model needs from outside: a clock, chance, and where faults come in

tests/integration/test_conformance.py gives the same random requests to this model and to a real broker of the newest
release. Where the two differ, the broker is right.
"""
