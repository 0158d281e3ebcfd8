"""The page that Prometheus reads: what is on it, what is never on it, and who listens where."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from farshore import __version__
from farshore.api.metrics import MetricsServer, families, parsed
from farshore.control.group_offsets import Skip
from farshore.dataplane import board
from farshore.dataplane.assignment import Gap
from farshore.dataplane.backlog import Backlog
from farshore.dataplane.trouble import Kind
from farshore.driver.figures import FlowFigures, FlowState
from farshore.errors import BadArgument
from farshore.local.ports import free_port
from farshore.model import Flow, TopicPartition

ROOT = Path(__file__).parent.parent.parent
OPERATIONS = ROOT / "docs" / "operations.md"
REASON = "B: write to A.orders: not allowed, says the broker"
TROUBLES = (
    board.TroubleReport("orders-4", Kind.REFUSED.value, REASON, 1.0),
    board.TroubleReport("orders-5", Kind.REFUSED.value, REASON, 1.0),
    board.TroubleReport("orders-6", Kind.SOURCE_GONE.value, REASON, 1.0),
)
UPKEEP = board.Upkeep(
    3,
    (
        board.PassReport("topic configs", 600.0, 1_700_000_000.0, REASON, 1_700_000_001.0, 0.5),
        board.PassReport("ACLs", 300.0, None, None, None, None),
    ),
    1.5,
    14,
    ((Skip.LIVE.value, 2),),
)
BUSY = FlowFigures(
    Flow("A", "B"),
    FlowState.RUNNING,
    True,
    3,
    (
        (board.Report(0, 3, "running", 1, 4, 1000, 50_000, 12, 0.25, (8, 4, 2), 777, troubles=TROUBLES), 0.5),
        (board.Report(1, 3, "running", 1, 3, 2000, 90_000), 60.0),
    ),
    (Backlog(12, 0.25), Backlog(700, None), Backlog()),
    1,
    (
        board.Gaps(
            TopicPartition("orders", 1), 2, 12, (Gap(TopicPartition("orders", 1), 880, 892, REASON, 1_700_000_002.0),)
        ),
        board.Gaps(TopicPartition("pay", 0), 1, 3, ()),
    ),
    UPKEEP,
)
STANDBY = FlowFigures(Flow("B", "A"), FlowState.STANDBY)


class Page(Collector):
    def __init__(self, flows: Sequence[FlowFigures]) -> None:
        self._flows = flows

    def collect(self) -> Iterator[Metric]:
        return families(self._flows, loop_delay=0.25)


def text_of(*flows: FlowFigures) -> str:
    registry = CollectorRegistry()
    registry.register(Page(flows))
    return generate_latest(registry).decode()


def shown(text: str) -> dict[tuple[str, ...], float]:
    """Every figure, under its name and `label=value` of each label but those of the flow A->B."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = [f"{name}={value}" for name, value in sample.labels.items() if (name, value) not in FLOW]
            found[(sample.name, *sorted(labels))] = sample.value
    return found


FLOW = {("source", "A"), ("target", "B")}


def test_a_flow_is_in_one_of_its_states() -> None:
    page = shown(text_of(BUSY))
    states = {key[1]: value for key, value in page.items() if key[0] == "farshore_flow_state"}
    assert states.pop("state=running") == 1
    assert set(states.values()) == {0}
    assert len(states) == len(FlowState) - 1
    assert page["farshore_build_info", f"version={__version__}"] == 1


def test_each_slot_has_the_figures_of_its_newest_report() -> None:
    page = shown(text_of(BUSY))
    assert page["farshore_slots",] == 3
    figures = {
        "report_age_seconds": 0.5, "partitions": 4, "records_total": 1000, "bytes_total": 50_000, "lag_offsets": 12,
        "lag_seconds": 0.25, "held_bytes": 777,
    }  # fmt: skip
    assert {name: page[f"farshore_slot_{name}", "slot=0"] for name in figures} == figures
    batches = [page["farshore_slot_batches_total", f"path={path}", "slot=0"] for path in ("as_is", "merged", "anew")]
    assert batches == [8, 4, 2]
    assert page["farshore_slot_records_total", "slot=1"] == 2000


def test_a_slot_that_is_silent_or_was_never_heard_is_down() -> None:
    page = shown(text_of(BUSY))
    assert [page["farshore_slot_up", f"slot={slot}"] for slot in range(3)] == [1, 0, 0]
    assert page["farshore_slot_report_age_seconds", "slot=1"] == 60
    assert [key for key in page if "slot=2" in key] == [("farshore_slot_up", "slot=2")]


def test_lag_that_is_not_known_is_not_on_the_page() -> None:
    page = shown(text_of(BUSY))
    assert page["farshore_slot_lag_offsets", "slot=1"] == 700, "also of a slot that does not tell it itself"
    assert ("farshore_slot_lag_seconds", "slot=1") not in page
    assert ("farshore_slot_lag_offsets", "slot=2") not in page


def test_troubles_are_counted_by_kind_and_kinds_without_any_are_0() -> None:
    page = shown(text_of(BUSY))
    kinds = {key[1]: value for key, value in page.items() if key[0] == "farshore_partitions_in_trouble"}
    assert kinds == {
        "kind=passing": 0, "kind=source_gone": 1, "kind=remote_gone": 0, "kind=refused": 2, "kind=stopped": 0,
        "kind=positions": 0, "kind=plan": 0, "kind=open_transaction": 0,
    }  # fmt: skip
    assert page["farshore_topics_refused",] == 1


def test_gaps_are_told_of_the_flow_from_0_on_and_of_partitions_with_any() -> None:
    page = shown(text_of(BUSY))
    assert page["farshore_gaps_total",] == 3
    assert page["farshore_gap_offsets_total", "partition=1", "topic=orders"] == 12
    assert page["farshore_gap_offsets_total", "partition=0", "topic=pay"] == 3
    assert page["farshore_last_gap_timestamp_seconds",] == 1_700_000_002
    without = shown(text_of(FlowFigures(Flow("A", "B"), FlowState.IDLE, True)))
    assert without["farshore_gaps_total",] == 0
    assert ("farshore_last_gap_timestamp_seconds",) not in without


def test_what_vanished_and_was_restored_is_counted_by_kind() -> None:
    notices = (
        board.Notice("internal topic deleted", "board", 2, "", 1.0),
        board.Notice("internal topic deleted", "positions", 1, "", 1.0),
    )
    page = shown(text_of(FlowFigures(Flow("A", "B"), FlowState.RUNNING, held=True, notices=notices)))
    assert page["farshore_restored_total", "kind=internal_topic_deleted"] == 3
    assert page["farshore_restored_total", "kind=target_wiped"] == 0
    assert page["farshore_restored_total", "kind=positions_rebuilt"] == 0


def test_passes_heartbeats_and_groups_are_told_as_far_as_they_are_known() -> None:
    page = shown(text_of(BUSY))
    configs, acls = "pass=topic_configs", "pass=acls"
    assert (page["farshore_pass_degraded", configs], page["farshore_pass_degraded", acls]) == (1, 0)
    assert page["farshore_pass_last_run_timestamp_seconds", configs] == 1_700_000_001
    assert page["farshore_pass_last_run_duration_seconds", configs] == 0.5
    assert page["farshore_pass_interval_seconds", acls] == 300
    assert ("farshore_pass_last_run_timestamp_seconds", acls) not in page
    assert page["farshore_heartbeat_age_seconds",] == 1.5
    assert page["farshore_groups",] == 14
    skipped = {key[1]: value for key, value in page.items() if key[0] == "farshore_group_offsets_skipped"}
    assert skipped == {
        "reason=live": 2, "reason=moved": 0, "reason=beyond_end": 0, "reason=unknown": 0, "reason=refused": 0
    }  # fmt: skip
    without = shown(text_of(FlowFigures(Flow("A", "B"), FlowState.IDLE, True, upkeep=board.Upkeep(1))))
    assert ("farshore_heartbeat_age_seconds",) not in without


def test_of_a_flow_that_another_has_only_the_state_is_told() -> None:
    of_the_process = {"farshore_build_info", "farshore_driver_loop_delay_seconds"}
    assert {key[0] for key in shown(text_of(STANDBY))} == of_the_process | {"farshore_flow_state"}


def test_no_free_text_is_on_the_page() -> None:
    text = text_of(BUSY, STANDBY)
    assert REASON not in text
    values = [
        (name, value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        for name, value in sample.labels.items()
        if name not in ("source", "target", "topic", "version")
    ]
    assert [each for each in values if not re.fullmatch("[a-z_]+|[0-9]+", each[1])] == []


def test_the_documents_list_every_series_with_its_type_and_labels_and_no_other() -> None:
    wanted = {
        (sample.name, family.type, frozenset(sample.labels) - {"source", "target"})
        for family in text_string_to_metric_families(text_of(BUSY))
        for sample in family.samples
    }
    rows = re.findall(r"^\| `(farshore_\w+)` \| (\w+) \|([^|]*)\|", OPERATIONS.read_text(), re.M)
    assert {(name, kind, frozenset(re.findall(r"\w+", labels))) for name, kind, labels in rows} == wanted
    assert set(re.findall(r"\bfarshore_\w+", OPERATIONS.read_text())) == {name for name, *_ in wanted}


def promtool(*arguments: str, read: str = "") -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip(
            "promtool is not on PATH, so Prometheus itself has no say here (Debian: apt-get install prometheus)"
        )
    answer = subprocess.run([found, *arguments], input=read, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout + answer.stderr


def test_promtool_has_nothing_to_say_against_the_page() -> None:
    assert promtool("check", "metrics", read=text_of(BUSY, STANDBY)) == ""


def test_promtool_takes_the_alerts_of_the_documents(tmp_path: Path) -> None:
    (rules,) = re.findall(r"^```yaml\n(groups:.*?)^```", OPERATIONS.read_text(), re.M | re.S)
    (tmp_path / "rules.yml").write_text(rules)
    assert "SUCCESS" in promtool("check", "rules", str(tmp_path / "rules.yml"))


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        ("9404", "127.0.0.1", 9404),
        (":9404", "0.0.0.0", 9404),
        ("0.0.0.0:9404", "0.0.0.0", 9404),
        ("metrics.example:1", "metrics.example", 1),
        ("[::1]:65535", "::1", 65535),
    ],
)
def test_an_address_is_a_port_or_a_host_with_a_port(address: str, host: str, port: int) -> None:
    assert parsed(address) == (host, port)


@pytest.mark.parametrize(
    "address", ["", ":", "here", "here:", "0", "65536", "-1", "http://here", "::1:9404", "9" * 5000]
)
def test_an_address_that_is_none_is_refused_with_how_to_write_it(address: str) -> None:
    with pytest.raises(BadArgument, match=r"is no address: write PORT, :PORT for all interfaces, or HOST:PORT"):
        parsed(address)


def test_the_delay_of_the_loop_is_shown_once_it_was_measured() -> None:
    assert shown(text_of())["farshore_driver_loop_delay_seconds",] == 0.25
    assert not any("loop_delay" in family.name for family in families([], None))


def test_the_page_is_served_and_computed_anew_until_the_block_ends() -> None:
    port = free_port()
    flows: list[FlowFigures] = []
    with MetricsServer(str(port), lambda: flows):
        assert not any("A->B" in str(key) or "slot=0" in key for key in shown(fetched(port)))
        flows.append(BUSY)
        assert shown(fetched(port))["farshore_slot_records_total", "slot=0"] == 1000
    with pytest.raises(urllib.error.URLError, match="refused"):
        fetched(port)
    with MetricsServer(str(port), lambda: flows):  # and the port is free again
        assert "farshore_build_info" in fetched(port)


def fetched(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("host", ["a..b", "not-a-host.invalid"])
def test_a_host_that_is_none_is_one_clear_error(host: str) -> None:
    with pytest.raises(BadArgument, match=rf"--metrics {host}:9404: cannot listen there: .*; name another address"):
        MetricsServer(f"{host}:9404", list)


def test_a_port_that_is_taken_or_an_address_that_is_none_ends_the_program_before_anything_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = str(other.getsockname()[1])
        assert ended_with("--metrics", taken) == (
            2, f"farshore: --metrics {taken}: cannot listen there: Address already in use; name another address\n"
        )  # fmt: skip
    code, said = ended_with("--metrics", "everywhere")
    assert code == 2
    assert said.startswith("farshore: --metrics 'everywhere' is no address: ")
    assert said.count("\n") == 1


def ended_with(*options: str) -> tuple[int, str]:
    """Of `farshore run`: the exit code, and all that it said."""
    command = [sys.executable, "-c", "from farshore.cli import main; main()", "run", *options]
    example = ROOT / "examples" / "active-active.properties"
    answer = subprocess.run(
        [*command, str(example)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60
    )
    return answer.returncode, answer.stdout
