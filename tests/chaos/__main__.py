"""Run it: `make chaos ARGS="--minutes 5"`, or a schedule again: `make chaos ARGS="--seed 17 --minutes 5"`."""

from __future__ import annotations

import sys

from chaos.cli import main

sys.exit(main(sys.argv[1:]))
