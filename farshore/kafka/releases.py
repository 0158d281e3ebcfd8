"""From what a broker supports to the release it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# The highest feature level `metadata.version` of each release: org.apache.kafka.server.common.MetadataVersion.
_BY_METADATA_VERSION = {
    7: (3, 3), 8: (3, 4), 11: (3, 5), 14: (3, 6), 19: (3, 7), 20: (3, 8), 21: (3, 9), 25: (4, 0), 27: (4, 1),
    29: (4, 2), 30: (4, 3),
}  # fmt: skip
# Brokers with ZooKeeper, and what only speaks Kafka's protocol: by the highest version of Fetch.
_BY_FETCH = {11: (2, 3), 12: (2, 7), 13: (3, 1), 15: (3, 5), 16: (3, 7), 17: (3, 9)}
_FETCH = 1


@dataclass(frozen=True, slots=True, order=True)
class Release:
    """A release of Kafka. `exact` False: that one or one soon after."""

    major: int
    minor: int
    exact: bool = True

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}" if self.exact else f"{self.major}.{self.minor} or newer"


def release_of(metadata_version: int | None, highest: Mapping[int, int]) -> Release | None:
    """By the highest `metadata.version` the broker supports, else by the highest version of each request."""
    if metadata_version is not None:
        newest = max(_BY_METADATA_VERSION)
        if metadata_version > newest:
            return Release(*_BY_METADATA_VERSION[newest], exact=False)
        level = min((level for level in _BY_METADATA_VERSION if level >= metadata_version), default=newest)
        return Release(*_BY_METADATA_VERSION[level])
    known = [version for version in _BY_FETCH if version <= highest.get(_FETCH, -1)]
    return Release(*_BY_FETCH[max(known)], exact=False) if known else None
