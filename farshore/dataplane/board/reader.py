"""From the records of a board to its entries."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from farshore.dataplane.board.codec import decode
from farshore.dataplane.board.entries import CountedGap, Entry, Plan, PlanPart
from farshore.errors import MalformedRecord


class Reader:
    """Takes the records of one board in their order.

    A plan in parts is an entry as soon as all its parts have been read. Compaction may have left some parts of older
    plans, which had more of them: these never count as parts of another plan.
    """

    def __init__(self) -> None:
        self._begun: dict[int, dict[int, PlanPart]] = {}

    def read(self, key: bytes | None, value: bytes | None) -> Entry | CountedGap | None:
        """None for a record that completes no entry, or is not known here. Raises MalformedRecord."""
        entry = decode(key, value)
        return self._completed(entry) if isinstance(entry, PlanPart) else entry

    def _completed(self, new: PlanPart) -> Plan | None:
        if not 0 <= new.part < new.parts:
            raise MalformedRecord(f"part {new.part} of a plan in {new.parts} parts")
        slot = new.plan.slot
        parts = self._begun.setdefault(slot, {})
        before = next(iter(parts.values()), new)
        if _age(new) < _age(before):
            return None  # late words of an earlier driver must not undo what has been gathered
        if (_age(new), new.parts) != (_age(before), before.parts):
            parts.clear()
        parts[new.part] = new
        if len(parts) < new.parts:
            return None
        del self._begun[slot]
        return replace(new.plan, copied=tuple(chain.from_iterable(parts[n].plan.copied for n in range(new.parts))))


def _age(part: PlanPart) -> tuple[int, int]:
    return part.plan.generation, part.plan.version
