"""Explore worlds: `make simulate ARGS="--seeds 1000"`, or replay one: `make simulate ARGS="--seed 17 --trace"`."""

from __future__ import annotations

import sys

from simulation.cli import main

sys.exit(main(sys.argv[1:]))
