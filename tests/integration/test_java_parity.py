"""Our names and bytes against the classes of Kafka 4.3.1 themselves.

Each probe in tests/java reads one case a line and answers one line a case, so that one start of Java settles
hundreds of them. Words are x<hex>, null is "-". Cases are random with a fixed seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from farshore.errors import MalformedRecord
from farshore.local.javatools import run_java
from farshore.model import Checkpoint, Flow, Heartbeat, OffsetSync, TopicPartition
from farshore.naming import DEFAULT_POLICY, IDENTITY_POLICY, policy
from farshore.wire import internal, positions

PROBES = Path(__file__).parent.parent / "java"
Words = tuple[str, ...]

pytestmark = pytest.mark.usefixtures("jars")


def ask(probe: str, questions: Sequence[Words]) -> list[Words]:
    """What the probe answers to each question."""
    lines = "".join(" ".join(words) + "\n" for words in questions)
    done = run_java(PROBES / f"{probe}.java", input=lines)
    assert done.returncode == 0, done.stderr
    answers = [tuple(line.split(" ")) for line in done.stdout.splitlines()]
    assert len(answers) == len(questions), done.stderr
    return answers


def word(value: str | bytes | None) -> str:
    if value is None:
        return "-"
    return "x" + (value if isinstance(value, bytes) else value.encode()).hex()


def some_text(rng: random.Random, pieces: Sequence[str]) -> str:
    return "".join(rng.choice(pieces) for _ in range(rng.randrange(7)))


NAME_PIECES = [
    "A",
    "B",
    "C",
    "orders",
    "heartbeats",
    "checkpoints",
    "internal",
    "mm2",
    "mm2-offset-syncs",
    "__",
]
TEXT_PIECES = [
    "A",
    "orders",
    "x" * 30,
    '"',
    "\\",
    "/",
    "\x00",
    "\x1f",
    "\x7f",
    "\n",
    "\b",
    "é",
    "€",
    "\u2028",
    "😀",
    " ",
]


def test_names_are_those_of_kafkas_replication_policies() -> None:
    rng = random.Random(1)
    questions, expected = [], []
    for _ in range(3000):
        class_name = rng.choice([DEFAULT_POLICY, IDENTITY_POLICY])
        separator = rng.choice([None, ".", "_", "-", "::", "$", "|", "\\E", ""])
        enabled = rng.choice([None, "true", "false"])
        source = rng.choice(["A", "B", "", None])
        joint = "." if separator is None else separator
        topic = some_text(rng, [*NAME_PIECES, *[joint] * 10, *".-_:$"])
        alias = rng.choice(["A", "B", "C", "orders", "", "mm2"])
        questions.append(tuple(map(word, (class_name, separator, enabled, source, topic, alias))))
        ours = policy(class_name, joint, enabled != "false", source)
        hops = ours.hops(topic, alias)
        answers = (
            ours.format_remote_topic(alias, topic),
            ours.topic_source(topic),
            ours.upstream_topic(topic),
            ours.original_topic(topic),
            ours.heartbeats_topic,
            ours.offset_syncs_topic(alias),
            ours.checkpoints_topic(alias),
            *(
                str(answer).lower()
                for answer in (
                    ours.is_heartbeats_topic(topic),
                    ours.is_checkpoints_topic(topic),
                    ours.is_mm2_internal_topic(topic),
                    ours.is_internal_topic(topic),
                )
            ),
            str(-1 if hops is None else hops),
            str(ours.is_cycle(topic, alias)).lower(),
        )
        expected.append(tuple(map(word, answers)))
    for question, theirs, our in zip(questions, ask("NamingProbe", questions), expected, strict=True):
        assert our == theirs, [bytes.fromhex(each[1:]) for each in question]


def int64(rng: random.Random) -> int:
    return rng.choice([0, 1, -1, 2**63 - 1, -(2**63), rng.randrange(2**40)])


def int32(rng: random.Random) -> int:
    return rng.choice([0, 1, 2**31 - 1, rng.randrange(1000)])


Case = tuple[Words, Words]
"""A question, and the answer that we would give."""


def written(rng: random.Random) -> list[Case]:
    """Records and positions that both sides write."""

    def text() -> str:
        return some_text(rng, TEXT_PIECES)

    heartbeat = Heartbeat(text(), text(), int64(rng))
    checkpoint = Checkpoint(text(), TopicPartition(text(), int32(rng)), int64(rng), int64(rng), text())
    sync = OffsetSync(TopicPartition(text(), int32(rng)), int64(rng), int64(rng))
    connector, cluster, partition, offset = text(), text(), TopicPartition(text(), int32(rng)), int64(rng)
    heartbeat_key = positions.heartbeat_key("c", Flow(heartbeat.source, heartbeat.target))
    checkpoint_key = positions.checkpoint_key("c", checkpoint.partition, checkpoint.group)
    return [
        (
            ("heartbeat", word(heartbeat.source), word(heartbeat.target), str(heartbeat.timestamp_ms)),
            tuple(map(word, (*internal.encode_heartbeat(heartbeat), heartbeat_key))),
        ),
        (
            (
                *("checkpoint", word(checkpoint.group), *place(checkpoint.partition)),
                *(
                    str(checkpoint.upstream_offset),
                    str(checkpoint.downstream_offset),
                    word(checkpoint.metadata),
                ),
            ),
            tuple(map(word, (*internal.encode_checkpoint(checkpoint), checkpoint_key))),
        ),
        (
            ("sync", *place(sync.partition), str(sync.upstream_offset), str(sync.downstream_offset)),
            tuple(map(word, internal.encode_offset_sync(sync))),
        ),
        (
            ("position", word(connector), word(cluster), *place(partition), str(offset)),
            (
                word(positions.source_key(connector, cluster, partition)),
                word(positions.position_value(offset)),
            ),
        ),
    ]


def place(partition: TopicPartition) -> Words:
    return word(partition.topic), str(partition.partition)


def printed_heartbeat(heartbeat: Heartbeat) -> str:
    return (
        f"Heartbeat{{sourceClusterAlias={heartbeat.source}, targetClusterAlias={heartbeat.target}, "
        f"timestamp={heartbeat.timestamp_ms}}}\n"
    )


def printed_checkpoint(checkpoint: Checkpoint) -> str:
    return (
        f"Checkpoint{{consumerGroupId={checkpoint.group}, topicPartition={checkpoint.partition}, "
        f"upstreamOffset={checkpoint.upstream_offset}, downstreamOffset={checkpoint.downstream_offset}, "
        f"metadata={checkpoint.metadata}}}\n"
    )


def printed_sync(sync: OffsetSync) -> str:
    return (
        f"OffsetSync{{topicPartition={sync.partition}, upstreamOffset={sync.upstream_offset}, "
        f"downstreamOffset={sync.downstream_offset}}}\n"
    )


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Whole, cut off, longer, or with a few bytes changed within ASCII."""
    match rng.randrange(4):
        case 0:
            return data
        case 1:
            return data[: rng.randrange(len(data) + 1)]
        case 2:
            return data + rng.randbytes(3)
        case _:
            changed = bytearray(data)
            changed[rng.randrange(len(data))] = rng.choice([0, 1, 5, 0x41, 0x7F])
            return bytes(changed)


def read(rng: random.Random) -> list[Case]:
    """Good and damaged records that both sides read."""

    def text() -> str:
        return some_text(rng, ["A", "orders", "-", " "])

    partition = TopicPartition(text(), int32(rng))
    checkpoint = Checkpoint(text(), partition, int64(rng), int64(rng), text())
    kinds: list[tuple[str, tuple[bytes, bytes], Callable[[bytes, bytes], str]]] = [
        (
            "heartbeat",
            internal.encode_heartbeat(Heartbeat(text(), text(), int64(rng))),
            lambda key, value: printed_heartbeat(internal.decode_heartbeat(key, value)),
        ),
        (
            "checkpoint",
            internal.encode_checkpoint(checkpoint),
            lambda key, value: printed_checkpoint(internal.decode_checkpoint(key, value)),
        ),
        (
            "sync",
            internal.encode_offset_sync(OffsetSync(partition, int64(rng), int64(rng))),
            lambda key, value: printed_sync(internal.decode_offset_sync(key, value)),
        ),
    ]
    cases: list[Case] = []
    for kind, record, printed in kinds:
        key, value = (damaged(rng, part) for part in record)
        try:
            answer = word(printed(key, value))
        except MalformedRecord:
            answer = "refused"
        cases.append((("read", kind, word(key), word(value)), (answer,)))
    return cases


def placed(rng: random.Random) -> list[Case]:
    """Keys whose hash and partition both sides compute."""
    key, partitions = rng.randbytes(rng.randrange(40)), rng.randrange(1, 60)
    hashed = positions.murmur2(key)
    signed = hashed - 2**32 if hashed >= 2**31 else hashed
    return [
        (
            ("partition", word(key), str(partitions)),
            (str(signed), str(positions.partition_for_key(key, partitions))),
        )
    ]


def test_internal_records_and_positions_are_those_of_kafka_and_connect() -> None:
    rng = random.Random(2)
    cases = [case for _ in range(250) for kind in (written, read, placed) for case in kind(rng)]
    questions = [question for question, _ in cases]
    for (question, ours), theirs in zip(cases, ask("RecordsProbe", questions), strict=True):
        assert ours == theirs, question
