"""Which topics, groups and configuration properties are mirrored: MirrorMaker 2's rule.

The elements of a list are joined with `|` and read as *one* Java pattern, which must match the whole name.
So an inline flag in one element, `(?i)`, holds for those after it, and a group may open in one and close in
another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from farshore.errors import PatternError
from farshore.naming import ReplicationPolicy

from .javaregex import JavaPattern

_JAVA_WHITE_SPACE = " \t\n\x0b\f\r"


@dataclass(frozen=True)
class Filter:
    """Selects the names that `include` matches and `exclude` does not.

    An empty `include` selects nothing, an empty `exclude` excludes nothing. Raises PatternError for a list
    that Java would refuse, or whose meaning cannot be kept; it names the element.
    """

    include: Sequence[str]
    exclude: Sequence[str] = ()
    included: JavaPattern | None = field(init=False, repr=False, compare=False)
    excluded: JavaPattern | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, elements in (("include", self.include), ("exclude", self.exclude)):
            trimmed = tuple(element.strip(_JAVA_WHITE_SPACE) for element in elements)
            object.__setattr__(self, name, trimmed)
            object.__setattr__(self, f"{name}d", _join(trimmed))

    @classmethod
    def all_except(cls, exclude: Sequence[str]) -> Filter:
        """The rule for configuration properties, of which there is no list to include."""
        return cls(("(?s).*",), exclude)

    def selects(self, name: str) -> bool:
        if self.included is None or not self.included.matches(name):
            return False
        return self.excluded is None or not self.excluded.matches(name)


def selects_topic(
    topic: str, topics: Filter, policy: ReplicationPolicy, *, target: str, heartbeats_replicated: bool = True
) -> bool:
    """Whether `topic` is mirrored to the cluster `target`: the whole rule of MirrorSourceConnector.

    `heartbeats_replicated`: heartbeats topics are mirrored whatever the filter says
    (`heartbeats.replication.enabled`).
    """
    wanted = topics.selects(topic) or (heartbeats_replicated and policy.is_heartbeats_topic(topic))
    return wanted and not policy.is_internal_topic(topic) and not policy.is_cycle(topic, target)


def _join(elements: tuple[str, ...]) -> JavaPattern | None:
    if not elements:
        return None  # the pattern joined of no elements would match the empty name
    if "" in elements:
        raise PatternError("an empty element in a list of patterns: a comma too many")
    try:
        return JavaPattern("|".join(elements))
    except PatternError:
        # Where it is one element's fault, speak of that one rather than of the joined pattern.
        for element in elements:
            JavaPattern(element)
        raise
