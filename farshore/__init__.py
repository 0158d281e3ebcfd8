"""Farshore mirrors Apache Kafka clusters: MirrorMaker 2's whole job, with its own configuration files."""

__version__ = "0.1.0"
