"""Translation by offset syncs alone, as MirrorMaker 2 does it: class OffsetSyncStore of Kafka 4.3.1.

Of all syncs of a partition 64 are kept, the newest close together and older ones ever further apart. From the nearest
sync at or before a group's offset the group goes on one record behind the synced one: how many of the records between
were copied, nobody knows.
"""

from __future__ import annotations

SLOTS = 64
_OVERFLOW = 2**63

_Sync = tuple[int, int]
"""Upstream and downstream. Two syncs are the same if they are one object, as in Java."""


class SyncStore:
    """The syncs of one partition, in the order they were written.

    For i < j and different syncs in the slots i and j, at most 2^j - 2^i upstream offsets lie between them (B), and at
    least 2^(i-2) (C). The newest is in slot 0, the oldest in the last.
    """

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        self._slots: list[_Sync] = []

    @property
    def newest(self) -> _Sync | None:
        """Its upstream and downstream offset."""
        return self._slots[0] if self._slots else None

    def add(self, upstream: int, downstream: int) -> None:
        new = (upstream, downstream)
        if not self._slots or upstream < self._slots[0][0]:
            self._slots = [new] * SLOTS  # what was known holds no longer after a rewind
            return
        before = self._slots
        slots = [new, *before[1:]]
        carried, candidate = new, 0
        for slot in range(1, SLOTS):
            carried, candidate = _carry(slots, before, slot, carried, candidate)
            if _near_enough(slots[slot - 1], slots[slot], slot - 1, slot):
                break
            slots[slot] = carried
        self._slots = slots

    def clear(self) -> None:
        self._slots = []

    def nearest(self, upstream_offset: int) -> _Sync | None:
        """The newest sync at or before the offset; None if all are behind it, or there is none."""
        return next((sync for sync in self._slots if sync[0] <= upstream_offset), None)

    def translate(self, upstream_offset: int) -> int | None:
        """Where a group goes on that stands at `upstream_offset`; None if that is too old, or there is no sync."""
        sync = self.nearest(upstream_offset)
        if sync is None:
            return None
        return sync[1] if sync[0] == upstream_offset else sync[1] + 1


def _carry(slots: list[_Sync], before: list[_Sync], slot: int, carried: _Sync, at: int) -> tuple[_Sync, int]:
    """Which sync to put into `slot` if its own has become too far: one of those `before`, from `at` on."""
    while True:
        candidate = before[at]
        far_enough = _far_enough(slots[slot - 1], candidate, slot - 1)
        fits = (
            far_enough
            and _near_enough(slots[slot - 1], candidate, slot - 1, slot)
            and (slot + 1 >= SLOTS or _far_enough(candidate, slots[slot + 1], slot))
        )
        if fits:
            carried = candidate
        repeated = at + 1 < SLOTS and candidate is before[at + 1]
        skipped = repeated or not far_enough
        if fits or skipped:
            at += 1
        if at >= slot or not skipped:
            return carried, at


def _near_enough(newer: _Sync, older: _Sync, i: int, j: int) -> bool:
    """Invariant B. What does not fit into 64 bits is near enough."""
    bound = older[0] + 2**j - 2**i
    return newer is older or bound >= _OVERFLOW or newer[0] <= bound


def _far_enough(newer: _Sync, older: _Sync, i: int) -> bool:
    """Invariant C. What does not fit into 64 bits is not far enough."""
    bound = older[0] + 2 ** max(i - 2, 0)
    return newer is older or (bound < _OVERFLOW and newer[0] >= bound)
