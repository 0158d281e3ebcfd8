"""A topic that slot tasks copy, and the comparison of what a consumer of its remote topic sees."""

from __future__ import annotations

from collections import Counter

from records import Record, create_topic, produce, read_all
from slot_tasks import SlotDriver
from test_run_support import wait_until

from farshore.local import Cluster


class MirroredTopic:
    """One topic on the source, and its remote topic."""

    def __init__(self, source: Cluster, target: Cluster, topic: str, driver: SlotDriver, partitions: int = 1) -> None:
        self.topic = topic
        self.remote = driver.remote(topic)
        self.target = target.direct_bootstrap_servers
        self._source = source.direct_bootstrap_servers
        self._written = 0
        create_topic(self._source, topic, partitions)
        create_topic(self.target, self.remote, partitions)

    def write(self, count: int, partition: int = 0, size: int = 10) -> None:
        """One batch. No two records have the same value."""
        records = [
            {"value": (b"%d " % n).ljust(size, b"."), "partition": partition}
            for n in range(self._written, self._written + count)
        ]
        self._written += count
        settings = {"linger_ms": 200, "batch_num_messages": 10_000, "batch_size": 16 << 20, "compression_type": "none"}
        produce(self._source, self.topic, records, **settings)

    def wait_until_complete(self) -> None:
        """What is written is copied, and committed."""
        wanted = {record.value for record in read_all(self._source, self.topic)}
        wait_until(lambda: wanted <= {each.value for each in self._copied()}, "all copied", 60)

    def count(self) -> int:
        return len(self._copied())

    def _copied(self) -> list[Record]:
        """What a consumer with `read_committed` sees."""
        return read_all(self.target, self.remote)

    def check(self) -> None:
        """Every record is there once, in order."""
        written, copied = read_all(self._source, self.topic), self._copied()
        counted = Counter((record.value or b"").split()[0].decode() for record in copied)
        twice = [number for number, times in counted.items() if times > 1]
        assert not twice, f"{len(twice)} of {len(written)} records are there more than once: {', '.join(twice[:10])} …"
        assert copied == written
