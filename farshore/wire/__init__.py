"""Bytes of Kafka and MirrorMaker 2, both ways. Pure: no I/O, no client library."""
