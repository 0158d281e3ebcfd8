import pytest
from hypothesis import given
from hypothesis import strategies as st

from farshore.errors import MalformedRecord
from farshore.model import Checkpoint, Heartbeat, OffsetSync, TopicPartition
from farshore.wire.internal import (
    MAX_STRING,
    decode_checkpoint,
    decode_heartbeat,
    decode_offset_sync,
    encode_checkpoint,
    encode_heartbeat,
    encode_offset_sync,
)

HEARTBEAT = Heartbeat("A", "B", 1_700_000_000_000)
HEARTBEAT_BYTES = (bytes.fromhex("000141 000142"), bytes.fromhex("0000 0000018bcfe56800"))
CHECKPOINT = Checkpoint("g1", TopicPartition("A.orders", 3), 100, 250)
CHECKPOINT_BYTES = (
    bytes.fromhex("00026731 0008412e6f7264657273 00000003"),
    bytes.fromhex("0000 0000000000000064 00000000000000fa 0000"),
)
SYNC = OffsetSync(TopicPartition("orders", 3), 100, 250)
SYNC_BYTES = (
    bytes.fromhex("00066f7264657273 00000003"),
    bytes.fromhex("0000000000000064 00000000000000fa"),
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
partitions = st.builds(TopicPartition, texts, int32s)


def test_the_bytes_are_mirrormakers() -> None:
    assert encode_heartbeat(HEARTBEAT) == HEARTBEAT_BYTES
    assert encode_checkpoint(CHECKPOINT) == CHECKPOINT_BYTES
    assert encode_offset_sync(SYNC) == SYNC_BYTES
    assert decode_heartbeat(*HEARTBEAT_BYTES) == HEARTBEAT
    assert decode_checkpoint(*CHECKPOINT_BYTES) == CHECKPOINT
    assert decode_offset_sync(*SYNC_BYTES) == SYNC


@given(st.builds(Heartbeat, texts, texts, int64s))
def test_heartbeats_survive_the_round_trip(heartbeat: Heartbeat) -> None:
    assert decode_heartbeat(*encode_heartbeat(heartbeat)) == heartbeat


@given(st.builds(Checkpoint, texts, partitions, int64s, int64s, texts))
def test_checkpoints_survive_the_round_trip(checkpoint: Checkpoint) -> None:
    assert decode_checkpoint(*encode_checkpoint(checkpoint)) == checkpoint


@given(st.builds(OffsetSync, partitions, int64s, int64s))
def test_offset_syncs_survive_the_round_trip(sync: OffsetSync) -> None:
    assert decode_offset_sync(*encode_offset_sync(sync)) == sync


@given(st.binary(max_size=8))
def test_bytes_behind_the_last_field_are_ignored(extra: bytes) -> None:
    key, value = CHECKPOINT_BYTES
    assert decode_checkpoint(key + extra, value + extra) == CHECKPOINT


def test_the_version_is_not_looked_at() -> None:
    key, value = HEARTBEAT_BYTES
    assert decode_heartbeat(key, b"\x00\x07" + value[2:]) == HEARTBEAT


@given(st.integers(0, len(CHECKPOINT_BYTES[0]) - 1), st.integers(0, len(CHECKPOINT_BYTES[1]) - 1))
def test_a_record_cut_off_anywhere_is_malformed(key_end: int, value_end: int) -> None:
    key, value = CHECKPOINT_BYTES
    for cut in ((key[:key_end], value), (key, value[:value_end])):
        with pytest.raises(MalformedRecord, match=r"needs \d+ bytes at \d+, \d+ are left"):
            decode_checkpoint(*cut)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_but_never_break_the_reader(key: bytes, value: bytes) -> None:
    for decode in (decode_heartbeat, decode_checkpoint, decode_offset_sync):
        try:
            decode(key, value)
        except MalformedRecord:
            continue


def test_a_complaint_names_the_field_and_the_bytes() -> None:
    key, value = SYNC_BYTES
    message = "offset sync value, 12 bytes: downstream offset needs 8 bytes at 8, 4 are left"
    with pytest.raises(MalformedRecord, match=message):
        decode_offset_sync(key, value[:12])
    with pytest.raises(MalformedRecord, match="heartbeat key: source has the negative length -1"):
        decode_heartbeat(b"\xff\xff", HEARTBEAT_BYTES[1])
    with pytest.raises(MalformedRecord, match="offset sync key: topic, 1 bytes, is not UTF-8"):
        decode_offset_sync(b"\x00\x01\xff\x00\x00\x00\x00", value)


def test_a_tombstone_is_malformed() -> None:
    with pytest.raises(MalformedRecord, match="checkpoint value is null: this topic holds no tombstones"):
        decode_checkpoint(CHECKPOINT_BYTES[0], None)
    with pytest.raises(MalformedRecord, match="heartbeat key is null"):
        decode_heartbeat(None, HEARTBEAT_BYTES[1])


def test_a_string_is_limited_in_bytes_not_in_characters() -> None:
    longest = Heartbeat("é" * (MAX_STRING // 2) + "e", "B", 0)
    assert decode_heartbeat(*encode_heartbeat(longest)) == longest
    with pytest.raises(MalformedRecord, match="source takes 32768 bytes, a string may take 32767"):
        encode_heartbeat(Heartbeat("é" * (MAX_STRING // 2 + 1), "B", 0))


def test_half_a_character_is_refused() -> None:
    with pytest.raises(MalformedRecord, match="group is not text that UTF-8 can hold"):
        encode_checkpoint(Checkpoint("\ud83d", TopicPartition("t", 0), 0, 0))
