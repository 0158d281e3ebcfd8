"""The pre-flight's judging: facts made up here, verdicts as an operator would read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from farshore.config import FlowSettings, load
from farshore.config.security import Connection
from farshore.errors import PermissionDenied, RequestRefused, Unreachable
from farshore.kafka.facts import (
    Broker,
    ClusterDescription,
    Configs,
    ConfigSource,
    ConfigValue,
    GroupMembership,
    Member,
    NewTopic,
    Operation,
    Operations,
    TopicDescription,
)
from farshore.kafka.handshake import Greeting
from farshore.kafka.releases import release_of
from farshore.model import TopicPartition
from farshore.ops.preflight import judge
from farshore.ops.preflight.facts import ClusterFacts, Creation, FlowFacts, PositionsFound, Span, Trouble
from farshore.ops.preflight.judge_clusters import judge_cluster, judge_identities
from farshore.ops.preflight.judge_limits import judge_internal, judge_limits, judge_sync
from farshore.ops.preflight.judge_permissions import judge_permissions
from farshore.ops.preflight.judge_positions import judge_positions, judge_worker_group
from farshore.ops.preflight.judge_topics import judge_creation, judge_names, judge_selection, judge_shared_names
from farshore.ops.preflight.verdict import Level, Verdict, listed
from farshore.words import counted

EVERYTHING = frozenset(Operation)
FlowMaker = Callable[..., FlowSettings]


@pytest.fixture
def flow(tmp_path: Path) -> FlowMaker:
    """Settings of the flow A->B, made of a file with these further lines."""

    def make(*lines: str) -> FlowSettings:
        path = tmp_path / "mm2.properties"
        path.write_text(
            "\n".join((
                "clusters = A, B", "A.bootstrap.servers = a:9092", "B.bootstrap.servers = b:9092",
                "A->B.enabled = true", *lines,
            ))
        )  # fmt: skip
        return next(each for each in load([path]).flows if str(each.flow) == "A->B")

    return make


def cluster(
    alias: str, topics: Mapping[str, int] | None = None, *, brokers: int = 3, operations: Operations = EVERYTHING
) -> ClusterFacts:
    known = tuple(Broker(number, f"{alias}{number}", 9092) for number in range(brokers))
    return ClusterFacts(
        alias=alias,
        connection=Connection((f"{alias.lower()}:9092",)),
        greetings=(Greeting(f"{alias.lower()}:9092"),),
        description=ClusterDescription(f"id-of-{alias}", known, operations),
        topics=topics or {},
        groups=frozenset({"some"}),
    )


def facts(settings: FlowSettings, source: ClusterFacts | None = None, target: ClusterFacts | None = None) -> FlowFacts:
    """Topic `orders` with one partition and ten records, copied to a target that does not have it."""
    orders = TopicPartition("orders", 0)
    return FlowFacts(
        settings=settings,
        source=source or cluster("A", {"orders": 1}),
        target=target or cluster("B"),
        selected={"orders": 1},
        remote={"orders": "A.orders"},
        source_spans={orders: Span(0, 10)},
        remote_spans={},
        positions=PositionsFound({}),
    )


def said(verdicts: Iterator[Verdict]) -> list[tuple[str, str]]:
    return [(str(each.level), each.message) for each in verdicts]


def configs(**values: str) -> Configs:
    return {name.replace("_", "."): ConfigValue(value) for name, value in values.items()}


def test_long_lists_are_shortened() -> None:
    assert listed(["a"]) == "a"
    assert listed(["a", "b"]) == "a and b"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(list("abcde")) == "a, b, c and 2 more"
    assert counted(1, "topic") == "1 topic"
    assert counted(1000, "topic") == "1,000 topics"


def test_a_release_is_told_by_the_metadata_version_else_by_the_requests() -> None:
    assert str(release_of(30, {})) == "4.3"
    assert str(release_of(17, {})) == "3.7"
    assert str(release_of(99, {})) == "4.3 or newer"
    assert str(release_of(None, {1: 12})) == "2.7 or newer"
    assert release_of(None, {}) is None


def test_two_aliases_of_one_cluster_are_a_problem() -> None:
    a, b = cluster("A"), cluster("B")
    assert not list(judge_identities([a, b]))
    assert a.description is not None
    [verdict] = judge_identities([a, replace(b, description=a.description)])
    assert verdict.level is Level.PROBLEM
    assert "one and the same cluster, id-of-A" in verdict.message


def test_an_advertised_broker_that_does_not_answer_is_a_problem_and_a_bootstrap_server_a_warning() -> None:
    a = replace(
        cluster("A"),
        connection=Connection(("a:9092", "old:9092")),
        greetings=(Greeting("a:9092"), Greeting("old:9092", failure="gone"), Greeting("A1:9092", failure="gone")),
    )
    assert [each.level for each in judge_cluster(a)] == [Level.WARNING, Level.PROBLEM]


def test_a_question_without_an_answer_is_told_and_keeps_its_reason(flow: FlowMaker) -> None:
    trouble = Trouble("list groups", Unreachable("B: list groups: no answer in time", cluster="B"))
    report = judge((cluster("A"), cluster("B")), (replace(facts(flow()), troubles=(trouble,)),))
    assert not report.passed
    assert [each.message for each in report.verdicts] == ["no answer: B: list groups: no answer in time"]


def test_with_nothing_to_complain_about_every_check_is_listed_as_fine(flow: FlowMaker) -> None:
    known = replace(facts(flow()), configured={"A": {"orders": {}}, "B": {}}, target=cluster("B"))
    report = judge((known.source, known.target), (known,))
    assert report.passed
    text = "\n".join(line.label + line.text for line in report.lines())
    assert "to copy   10 records: orders 10" in text
    assert "permissions" in next(line.text for line in report.lines() if line.label.strip() == "fine")
    assert report.data()["flows"][0]["topics"][0]["remote"] == "A.orders"


def test_a_topic_named_in_full_that_does_not_exist_is_a_warning(flow: FlowMaker) -> None:
    known = replace(facts(flow()), unseen={"ordres": None})
    assert said(judge_selection(known)) == [("warning", "ordres, named in topics, does not exist on A")]


def test_selecting_nothing_is_a_warning(flow: FlowMaker) -> None:
    known = replace(facts(flow(), source=cluster("A", {"hidden": 1})), selected={}, remote={})
    assert said(judge_selection(known)) == [
        ("warning", "no topic of A is selected, of 1 topic that we may see")
    ]  # fmt: skip


def test_two_topics_with_one_remote_name_are_a_problem(flow: FlowMaker) -> None:
    known = replace(
        facts(flow()), selected={"heartbeats": 1, "A.heartbeats": 1},
        remote={"heartbeats": "A.heartbeats", "A.heartbeats": "A.heartbeats"},
    )  # fmt: skip
    assert said(judge_names(known)) == [
        ("problem", "heartbeats and A.heartbeats would all be copied into A.heartbeats")
    ]  # fmt: skip


def test_remote_topics_with_other_numbers_of_partitions_are_told(flow: FlowMaker) -> None:
    settings = flow()
    fewer = facts(settings, target=cluster("B", {"A.orders": 1}))
    assert said(judge_names(replace(fewer, selected={"orders": 3}))) == [
        ("note", "1 remote topic with fewer partitions than the source will get more: A.orders (1 of 3)")
    ]
    more = facts(settings, target=cluster("B", {"A.orders": 4}))
    assert said(judge_names(replace(more, selected={"orders": 3}))) == [
        ("warning", "1 remote topic with more partitions than the source: A.orders (4, not 3)")
    ]


def test_two_flows_into_the_same_topics_are_a_warning(flow: FlowMaker) -> None:
    one = facts(flow())
    assert not list(judge_shared_names([one]))
    [verdict] = judge_shared_names([one, one])
    assert verdict.level is Level.WARNING
    assert verdict.names == ("A.orders",)


def new_topic(name: str, factor: int, refusal: Exception | None = None) -> Creation:
    error = refusal if isinstance(refusal, PermissionDenied | RequestRefused) else None
    return Creation("B", NewTopic(name, 1, factor), "replication.factor", "copying", error)


def test_internal_topics_with_more_copies_than_brokers_are_a_warning(flow: FlowMaker) -> None:
    refused = RequestRefused("no", cluster="B", code="INVALID_REPLICATION_FACTOR", retriable=False)
    key = "offset.storage.replication.factor"
    positions = replace(new_topic("mm2-offsets.A.internal", 3, refused), factor_key=key)
    known = replace(facts(flow(), target=cluster("B", brokers=2)), creations=(positions,))
    assert said(judge_creation(known)) == [
        ("warning", f"{key} is 3, but B has 2 brokers: mm2-offsets.A.internal will have a factor of 2")
    ]


def test_more_copies_than_brokers_are_a_problem_said_once_for_all_topics(flow: FlowMaker) -> None:
    denied = PermissionDenied("no", cluster="B")
    known = replace(
        facts(flow(), target=cluster("B", brokers=1)),
        creations=(new_topic("A.x", 3, denied), new_topic("A.y", 3, denied)),
    )
    assert said(judge_creation(known)) == [
        ("problem", "replication.factor is 3, but B has 1 broker: A.x and A.y cannot be created")
    ]


def test_copies_that_the_controller_accepts_are_fine_though_a_broker_is_down(flow: FlowMaker) -> None:
    known = replace(facts(flow(), target=cluster("B", brokers=2)), creations=(new_topic("A.x", 3),))
    assert not list(judge_creation(known))


def test_what_the_brokers_would_refuse_to_create_is_a_problem_in_their_words(flow: FlowMaker) -> None:
    refusal = RequestRefused("B: validate: too few racks (POLICY_VIOLATION)", cluster="B", code="P", retriable=False)
    known = replace(facts(flow()), creations=(new_topic("A.x", 1, refusal),))
    assert said(judge_creation(known)) == [
        ("problem", "B would refuse to create A.x: too few racks (POLICY_VIOLATION)")
    ]  # fmt: skip


def test_missing_permissions_name_operation_resource_feature_and_the_command_that_grants_them(flow: FlowMaker) -> None:
    source = cluster("A", {"orders": 1}, operations=frozenset())
    known = replace(
        facts(flow(), source=source),
        described={"A": {"orders": TopicDescription("orders", 1, frozenset({Operation.DESCRIBE}))}},
        creations=(new_topic("A.orders", 1, PermissionDenied("no", cluster="B")),),
    )
    found = list(judge_permissions(known))
    assert said(iter(found)) == [
        ("problem", "READ on topic orders of A is not allowed: needed for copying records"),
        ("warning", "DESCRIBE_CONFIGS on topic orders of A is not allowed: needed for config sync"),
        ("warning", "DESCRIBE on the cluster A is not allowed: needed for ACL sync"),
        ("problem", "CREATE on topic A.orders of B is not allowed: needed for creating topics"),
    ]
    grant = "kafka-acls.sh --bootstrap-server a:9092 --add --allow-principal User:PRINCIPAL --operation"
    assert found[0].advice == f"{grant} Read --topic orders"
    assert found[2].advice == f"{grant} Describe --cluster; or set sync.topic.acls.enabled=false"


def test_what_a_missing_permission_brings_along_is_not_asked_for(flow: FlowMaker) -> None:
    nothing = PermissionDenied("no", cluster="B")
    known = replace(facts(flow("sync.topic.configs.enabled = false")), described={"B": {"A.orders": nothing}})
    assert [message.split()[0] for _, message in said(judge_permissions(known))] == ["WRITE", "ALTER"]


def test_group_offset_sync_needs_to_read_groups_and_remote_topics_on_the_target(flow: FlowMaker) -> None:
    settings = flow("sync.group.offsets.enabled = true")
    known = replace(
        facts(settings),
        described={"B": {"A.orders": TopicDescription("A.orders", 1, EVERYTHING - {Operation.READ})}},
        target_groups={"A-mm2": EVERYTHING, "billing": frozenset({Operation.DESCRIBE})},
    )
    assert said(judge_permissions(known)) == [
        ("problem", "READ on topic A.orders of B is not allowed: needed for group offset sync"),
        ("problem", "READ on group billing of B is not allowed: needed for group offset sync"),
    ]


def test_a_target_before_3_0_wants_idempotent_writes_to_be_allowed(flow: FlowMaker) -> None:
    target = cluster("B", operations=EVERYTHING - {Operation.IDEMPOTENT_WRITE})
    old = replace(target, greetings=(Greeting("b:9092", release_of(None, {1: 12})),))
    known = replace(facts(flow(), target=old), target_groups={"A-mm2": EVERYTHING})
    assert said(judge_permissions(known)) == [
        ("problem", "IDEMPOTENT_WRITE on the cluster B is not allowed: needed for copying records")
    ]


def test_transactional_ids_of_a_guarded_target_are_said_to_be_unchecked(flow: FlowMaker) -> None:
    settings = flow("B.exactly.once.source.support = enabled", "A.consumer.isolation.level = read_committed")
    known = facts(settings, target=cluster("B", operations=EVERYTHING - {Operation.CLUSTER_ACTION}))
    [note] = judge_permissions(replace(known, target_groups={"A-mm2": EVERYTHING}))
    assert note.level is Level.NOTE
    assert note.advice.endswith("--resource-pattern-type prefixed --transactional-id A-mm2-MirrorSourceConnector-")


def existing(settings: FlowSettings, source: Configs, remote: Configs) -> FlowFacts:
    known = facts(settings, target=cluster("B", {"A.orders": 1}))
    return replace(known, configured={"A": {"orders": source}, "B": {"A.orders": remote}})


def test_limits_of_remote_topics_that_config_sync_leaves_alone_are_compared(flow: FlowMaker) -> None:
    ours = configs(max_message_bytes="1000", message_timestamp_type="CreateTime", compression_type="producer")
    theirs = configs(max_message_bytes="10", message_timestamp_type="LogAppendTime", compression_type="gzip")
    known = existing(flow("sync.topic.configs.enabled = false"), ours, theirs)
    assert [(each.level, each.check) for each in judge_limits(known)] == [
        (Level.WARNING, "record sizes"),
        (Level.WARNING, "timestamps"),
        (Level.WARNING, "compression"),
    ]


def test_config_sync_mends_what_it_covers_and_that_is_told(flow: FlowMaker) -> None:
    ours = {"max.message.bytes": ConfigValue("1000", ConfigSource.DYNAMIC_TOPIC)}
    theirs = {"max.message.bytes": ConfigValue("10", ConfigSource.DYNAMIC_TOPIC)}
    known = existing(flow(), ours, theirs)
    assert not list(judge_limits(known))
    assert said(judge_sync(known)) == [
        ("note", "1 setting of existing remote topics will be changed: A.orders max.message.bytes from 10 to 1000")
    ]


def test_an_override_that_the_source_does_not_have_goes_back_to_the_brokers_default(flow: FlowMaker) -> None:
    theirs = {"max.message.bytes": ConfigValue("2000", ConfigSource.DYNAMIC_TOPIC)}
    known = existing(flow(), configs(max_message_bytes="1000"), theirs)
    small = replace(known, target=replace(known.target, defaults=configs(message_max_bytes="500")))
    assert [verdict.check for verdict in judge_limits(small)] == ["record sizes"]
    assert "from 2000 to 500" in next(judge_sync(small)).message


def test_a_new_topic_is_compared_with_the_brokers_defaults(flow: FlowMaker) -> None:
    target = replace(cluster("B"), defaults=configs(message_max_bytes="500", auto_create_topics_enable="true"))
    known = replace(facts(flow(), target=target), configured={"A": {"orders": configs(max_message_bytes="1000")}})
    assert said(judge_limits(known)) == [
        ("warning", "A.orders accepts less on B than on A (max.message.bytes 500, not 1000): a larger record would "
         "stop its partition")
    ]  # fmt: skip
    made = replace(known, creations=(new_topic("A.orders", 1),))
    assert [each.level for each in judge_internal(made)] == [Level.NOTE]


def test_a_target_that_refuses_old_or_future_records_is_a_warning(flow: FlowMaker) -> None:
    ours = configs(max_message_bytes="1", message_timestamp_type="CreateTime")
    theirs = {
        "max.message.bytes": ConfigValue("1"),
        "message.timestamp.type": ConfigValue("CreateTime"),
        "message.timestamp.after.max.ms": ConfigValue("3600000"),
        "message.timestamp.before.max.ms": ConfigValue("86400000"),
    }
    messages = [message for _, message in said(judge_limits(existing(flow(), ours, theirs)))]
    assert ["dated in the future" in messages[0], "refuses old records" in messages[1]] == [True, True]
    theirs["message.timestamp.type"] = ConfigValue("LogAppendTime")
    assert [each.check for each in judge_limits(existing(flow(), ours, theirs))] == ["timestamps"]


@pytest.mark.parametrize(
    ("topic", "level"),
    [
        ("mm2-offsets.A.internal", Level.PROBLEM),
        ("mm2-farshore.A.internal", Level.PROBLEM),
        ("A.checkpoints.internal", Level.WARNING),
    ],
)
def test_positions_and_a_board_that_are_not_compacted_are_a_problem_and_checkpoints_a_warning(
    flow: FlowMaker, topic: str, level: Level
) -> None:
    known = replace(facts(flow()), configured={"B": {topic: configs(cleanup_policy="delete")}})
    assert [each.level for each in judge_internal(known)] == [level]


def positioned(known: FlowFacts, offset: int, span: Span) -> FlowFacts:
    at = TopicPartition("orders", 0)
    return replace(known, positions=PositionsFound({at: offset}), source_spans={at: span})


def test_a_position_at_the_end_is_fine_and_beyond_it_a_problem(flow: FlowMaker) -> None:
    known = facts(flow())
    assert not list(judge_positions(positioned(known, 9, Span(0, 10))))
    [verdict] = judge_positions(positioned(known, 10, Span(0, 10)))
    assert verdict.level is Level.PROBLEM
    assert verdict.names == ("orders-0",)


def test_records_lost_to_retention_are_counted(flow: FlowMaker) -> None:
    known = positioned(facts(flow()), 1, Span(5, 10))
    assert said(judge_positions(known)) == [
        ("warning", "3 records of 1 partition deleted by retention before they were copied: orders-0 (3)")
    ]
    report = judge((known.source, known.target), (known,))
    assert report.data()["flows"][0]["to_copy"] == 5
    assert report.data()["flows"][0]["lost"] == 3


def test_partitions_without_a_leader_are_told(flow: FlowMaker) -> None:
    known = replace(facts(flow()), selected={"orders": 2})
    assert said(judge_positions(known)) == [("warning", "1 partition of A cannot be read at the moment: orders-1")]


def test_reset_to_latest_copies_nothing_of_what_is_there(flow: FlowMaker) -> None:
    known = facts(flow("A.consumer.auto.offset.reset = latest"))
    assert judge((known.source, known.target), (known,)).data()["flows"][0]["to_copy"] == 0


def test_positions_of_another_connector_only_are_a_warning(flow: FlowMaker) -> None:
    known = replace(facts(flow()), positions=PositionsFound({}, {"A->B.MirrorSourceConnector (A)": 4}))
    [verdict] = judge_positions(known)
    assert verdict.level is Level.WARNING
    assert "none of MirrorSourceConnector (A): everything would be copied from the start" in verdict.message


def test_a_copy_without_positions_would_be_copied_again(flow: FlowMaker) -> None:
    known = replace(facts(flow()), remote_spans={TopicPartition("A.orders", 0): Span(0, 10)})
    [verdict] = judge_positions(known)
    assert verdict.level is Level.WARNING
    assert verdict.message.startswith("A.orders on B has records but no position")


def test_a_live_mirror_maker_is_a_warning_with_its_members(flow: FlowMaker) -> None:
    group = GroupMembership("A-mm2", "Stable", "connect", (Member("A->B", "10.0.0.1"),))
    [verdict] = judge_worker_group(replace(facts(flow()), worker_group=group))
    assert verdict.message == "MirrorMaker 2 is running (group A-mm2, members A->B at 10.0.0.1)"
    assert verdict.advice == "stop it before `farshore run`"
    assert not list(judge_worker_group(replace(facts(flow()), worker_group=replace(group, members=()))))
