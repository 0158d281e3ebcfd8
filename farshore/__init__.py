"""Farshore mirrors Apache Kafka clusters: MirrorMaker 2's whole job, with its own configuration files."""

__version__ = "0.1.0"

TYPE_CHECKING = False  # type checkers know the name; the module that has it takes longer to load than all of this
if TYPE_CHECKING:
    from farshore.client import (
        checkpoint_topics,
        heartbeat_topics,
        remote_topics,
        replication_hops,
        translate_offsets,
        upstream_clusters,
    )

__all__ = [
    "__version__",
    "checkpoint_topics",
    "heartbeat_topics",
    "remote_topics",
    "replication_hops",
    "translate_offsets",
    "upstream_clusters",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """The functions of `farshore.client`, loaded when first used: most who import farshore want no Kafka."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from farshore import client

        return getattr(client, name)
