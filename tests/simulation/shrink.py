"""What a failure needs: kinds of faults are left out one at a time, as long as it still happens."""

from __future__ import annotations

from dataclasses import replace

from simulation.faults import KINDS
from simulation.setting import Flavour, Options
from simulation.world import simulate


def shortest(seed: int, kind: str, options: Options) -> tuple[list[str], Options]:
    """The kinds that are needed for a violation of this kind, and the options that leave all others out."""
    options = replace(options, trace=False)
    kinds = [each for each in (*KINDS, *Flavour) if each not in options.left_out]
    happened = {*simulate(seed, options).tally.faults}
    for each in sorted(kinds, key=lambda each: each in happened):
        fewer = replace(options, left_out=options.left_out | {each})
        if any(violation.kind == kind for violation in simulate(seed, fewer).trace.violations):
            options = fewer
    return [each for each in kinds if each not in options.left_out], options
