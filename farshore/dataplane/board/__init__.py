"""The board: a compacted topic on the target through which driver, slots and commands of a flow speak to each other.

    key               value
    "lease"           {"generation": 3, "stop": false, …}              the driver, every second
    "plan-2"          {"generation": 3, "version": 5, "topics": …}     the driver: what slot 2 copies
    "part-2-0"        {"part": 0, "parts": 7, "version": 5, …}         the same, where it is too large for one record
    "slot-2"          {"generation": 3, "plan": 5, "lag": 17, …}       slot 2, about once a second
    "upkeep"          {"passes": [{"name": "checkpoints", …}], …}     the driver, every few seconds
    "gap orders-3 17" {"begin": 17, "end": 40, …}                      a slot: what was never copied, before the
                                                                       position that passes it
    "gaps orders-3"   {"offsets": 120, "newest": […]}                  the driver: the same, where it happens often
    "skip orders-3"   {"to": 4711}                                     `farshore skip`, for the slot that has it
    "end"             {"generation": 3}                                `farshore handback`, for drivers
    "notice … …"      {"kind": "target wiped", "text": …}              driver or slot: what had vanished, for people

A slot writes only under a lease of its own generation and attempt. It pauses when it has heard none for eight seconds,
and ends when it sees a newer one, or one that says stop. So a partition never has two holders: the next driver writes a
lease of its own generation and then waits that long, unless the last lease says that all slots are over. Within a
generation partitions move by plans: the slot that has a partition reports that it has followed the plan that takes it
away, before another slot's plan gives it.

No record is above 512 KB: brokers refuse more than 1 MB. A reader acts on a plan only when it has all of its parts.
"""

from farshore.dataplane.assignment import Gap
from farshore.dataplane.board.codec import END_KEY, REPORT_KEY, decode, encode, gap_key
from farshore.dataplane.board.entries import (
    GAPS_KEPT,
    LEASE_EVERY_SECONDS,
    LEASE_LASTS_SECONDS,
    UPKEEP_EVERY_SECONDS,
    CountedGap,
    End,
    Entry,
    Gaps,
    Lease,
    Notice,
    NoticeKind,
    PassReport,
    Plan,
    PlanPart,
    Report,
    Skip,
    TroubleReport,
    Upkeep,
)
from farshore.dataplane.board.reader import Reader

__all__ = [
    "END_KEY",
    "REPORT_KEY",
    "GAPS_KEPT",
    "LEASE_EVERY_SECONDS",
    "LEASE_LASTS_SECONDS",
    "UPKEEP_EVERY_SECONDS",
    "CountedGap",
    "End",
    "Entry",
    "Gap",
    "Gaps",
    "Lease",
    "Notice",
    "NoticeKind",
    "PassReport",
    "Plan",
    "PlanPart",
    "Reader",
    "Report",
    "Skip",
    "TroubleReport",
    "Upkeep",
    "decode",
    "encode",
    "gap_key",
]
