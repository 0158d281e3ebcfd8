import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farshore.errors import MalformedRecord
from farshore.model import Flow, Lineage, Position, Run, TopicPartition
from farshore.wire.positions import (
    checkpoint_key,
    decode_lineage,
    decode_position,
    encode_lineage,
    heartbeat_key,
    murmur2,
    partition_for_key,
    position_value,
    source_key,
)

KEY = b'["MirrorSourceConnector",{"cluster":"A","partition":3,"topic":"orders"}]'
ORDERS = TopicPartition("orders", 3)


def test_keys_are_connects_to_the_byte() -> None:
    assert source_key("MirrorSourceConnector", "A", ORDERS) == KEY
    assert checkpoint_key("MirrorCheckpointConnector", TopicPartition("A.orders", 3), "g") == (
        b'["MirrorCheckpointConnector",{"partition":3,"topic":"A.orders","group":"g"}]'
    )
    assert heartbeat_key("MirrorHeartbeatConnector", Flow("A", "B")) == (
        b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]'
    )


def test_values_hold_the_offset_or_are_tombstones() -> None:
    assert position_value(41) == b'{"offset":41}'
    assert position_value(None) is None


def test_strings_are_escaped_as_jackson_does() -> None:
    key = checkpoint_key("c", TopicPartition("t", 0), 'q"b\\s/\x00\x1f\b\t\n\f\r\x7fé€\u2028😀')
    group = r"q\"b\\s/\u0000\u001F\b\t\n\f\r" + "\x7fé€\u2028" + r"\uD83D\uDE00"
    assert key == f'["c",{{"partition":0,"topic":"t","group":"{group}"}}]'.encode()


@given(st.text(), st.text(), st.text(), st.integers(0, 2**31 - 1), st.none() | st.integers(0, 2**63 - 1))
def test_positions_survive_the_round_trip(
    connector: str, cluster: str, topic: str, partition: int, offset: int | None
) -> None:
    position = Position(connector, cluster, TopicPartition(topic, partition), offset)
    assert decode_position(source_key(connector, cluster, position.partition), position_value(offset)) == position


def test_fields_in_another_order_and_blanks_are_read_too() -> None:
    key = b' [ "c" , { "topic" : "orders", "partition" : 3, "cluster" : "A" } ] '
    assert decode_position(key, b'{ "offset" : 7 }') == Position("c", "A", ORDERS, 7)


@pytest.mark.parametrize("value", [None, b"null", b"{}", b'{"offset":null}', b'{"offset":-2}'])
def test_no_offset_means_no_position(value: bytes | None) -> None:
    position = decode_position(KEY, value)
    assert position is not None
    assert position.offset is None


@pytest.mark.parametrize(
    "key",
    [
        checkpoint_key("MirrorCheckpointConnector", TopicPartition("A.orders", 3), "g"),
        heartbeat_key("MirrorHeartbeatConnector", Flow("A", "B")),
        b'["jdbc",{"table":"orders"}]',
        b'["file",null]',
        b'["other",{"cluster":"A","partition":3,"topic":"orders","shard":1}]',
    ],
)
def test_records_of_other_connectors_are_none_of_ours(key: bytes) -> None:
    assert decode_position(key, b"whatever") is None


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        b"\xff",
        b"orders",
        b"{}",
        b"[]",
        b'["c"]',
        b'[1,{"cluster":"A","partition":3,"topic":"orders"}]',
        b'["c",{"cluster":"A","partition":"3","topic":"orders"}]',
        b'["c",{"cluster":"A","partition":3.0,"topic":"orders"}]',
        b'["c",{"cluster":"A","partition":true,"topic":"orders"}]',
        b'["c",{"cluster":"A","partition":-1,"topic":"orders"}]',
        b'["c",{"cluster":"A","partition":2147483648,"topic":"orders"}]',
        b'["c",{"cluster":null,"partition":3,"topic":"orders"}]',
        b'["c",{"cluster":"A","partition":3,"topic":7}]',
        b"[" * 100_000,
    ],
)
def test_a_key_that_is_no_connect_offset_is_malformed(key: bytes | None) -> None:
    with pytest.raises(MalformedRecord, match="position key"):
        decode_position(key, b'{"offset":1}')


@pytest.mark.parametrize(
    "value", [b"", b"7", b"[]", b'{"offset":"7"}', b'{"offset":7.0}', b'{"offset":9223372036854775808}']
)
def test_a_value_without_a_proper_offset_is_malformed(value: bytes) -> None:
    with pytest.raises(MalformedRecord, match="position value"):
        decode_position(KEY, value)


@given(
    st.binary(max_size=40)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ).map(lambda parsed: json.dumps(parsed).encode())
)
def test_any_bytes_are_read_or_refused_but_never_break_the_reader(data: bytes) -> None:
    for key, value in ((data, b'{"offset":1}'), (KEY, data)):
        try:
            decode_position(key, value)
        except MalformedRecord:
            continue


@pytest.mark.parametrize(
    ("data", "hashed"),
    [  # from Kafka's own UtilsTest
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(data: bytes, hashed: int) -> None:
    assert murmur2(data) == hashed & 0xFFFFFFFF


def test_a_key_has_the_partition_that_kafkas_producers_choose() -> None:
    assert partition_for_key(KEY, 25) == 4
    assert partition_for_key(KEY, 1) == 0


@given(st.binary(), st.integers(1, 100))
def test_a_partition_is_always_one_of_the_topics(key: bytes, partitions: int) -> None:
    assert 0 <= partition_for_key(key, partitions) < partitions


@pytest.mark.parametrize(
    "lineage",
    [Lineage(3), Lineage(4, "Xa-_", "Yb", (7, 100), Run(90, 99, 5, 10)), Lineage(1, None, "Y", None, None)],
)
def test_a_lineage_comes_back_from_its_header(lineage: Lineage) -> None:
    assert decode_lineage(encode_lineage(lineage)) == lineage


@pytest.mark.parametrize("header", [b"", b"null", b"[]", b"{}", b'{"generation":"x"}', b'{"generation":1,"run":[1]}'])
def test_a_malformed_lineage_is_called_so(header: bytes) -> None:
    with pytest.raises(MalformedRecord):
        decode_lineage(header)


def test_an_offset_of_minus_one_means_from_the_beginning() -> None:
    position = decode_position(source_key("c", "A", TopicPartition("t", 0)), b'{"offset":-1}')
    assert position is not None
    assert position.offset == -1
