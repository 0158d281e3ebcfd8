"""Real Kafka clusters on this machine, for the demo, the tests and the benchmarks."""

from farshore.local.class_archive import prepare
from farshore.local.cluster import Cluster, start_together, started
from farshore.local.javatools import FAST_START
from farshore.local.security import Security

__all__ = ["Cluster", "FAST_START", "Security", "prepare", "start_together", "started"]
