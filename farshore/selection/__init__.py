"""Which names a flow is about: filters with the meaning they have in Java, and whether filters overlap."""

from .filters import Filter, selects_topic
from .hints import hints
from .javaregex import JavaPattern
from .overlap import Unknown, common_name, is_topic_name

__all__ = ["Filter", "JavaPattern", "Unknown", "common_name", "hints", "is_topic_name", "selects_topic"]
