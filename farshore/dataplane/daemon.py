"""Spark's Python daemon, with all that slots need loaded before it forks them: loading it once instead of in every
slot, a dozen of which may start together on two cores, is the difference between a minute and seconds. What is loaded
stays for good, so that no slot's garbage collector need look at it, and slots share its memory."""

from __future__ import annotations

import gc

from pyspark.daemon import manager

import farshore.dataplane.task  # noqa: F401

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    manager()
