"""Where a consumer group that stands at an upstream offset goes on downstream. Pure.

    OffsetMap   one partition: runs and MirrorMaker 2's syncs in, translations out
    SyncStore   the rule of MirrorMaker 2, for partitions of which only its syncs are known
    KnownLog    what one topic says of the remote log
    Newest      for every upstream offset its newest copy, by what is known of the log

A translation is safe: whatever the group has not read, as far as it is on the target, has a copy at the translated
offset or behind it. It is exact where runs cover the offset: then nothing is read twice either.
"""

from farshore.translate.offset_map import RUNS_AT_MOST, Basis, OffsetMap, Translation, within_batch
from farshore.translate.syncs import SyncStore

__all__ = ["Basis", "OffsetMap", "RUNS_AT_MOST", "SyncStore", "Translation", "within_batch"]
