"""What a running Farshore tells Prometheus while things go wrong, and which of the documented alerts that sets off.

One Farshore goes through all of it. Its pages are given to Prometheus' own evaluation of the rules, as if each had been
scraped for an hour.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from ops_support import farshore, status
from prometheus_client.parser import text_string_to_metric_families
from records import alter_topic, create_topic, produce
from test_run_support import Mirror, wait_until

from farshore.local import Cluster, prepare, started
from farshore.local.java import Java
from farshore.local.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RULES = Path(__file__).parent.parent.parent / "deploy" / "prometheus" / "alerts.yml"
LONG_AGO_SECONDS = 900
ALERTS = [rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]

FIRES = {
    "well": set[str](),
    "target away": {"NobodyCopies", "FarBehind", "UpkeepDegraded"},
    "back again": set[str](),
    "source away": {"NobodyCopies", "LagNotKnown", "DoesNotPass", "UpkeepDegraded"},
    "refused": {"SomebodyHasToAct", "DoesNotPass", "FarBehind"},
    "skipped": {"RecordsLeftOut"},
    "dead": {"NobodyCopies"},
}
"""In which situation which alerts are set off, and no others."""


@dataclass
class Story:
    """The pages of each situation, with when they were read, and what `farshore status` said beside."""

    mirror: Mirror
    port: int
    pages: dict[str, tuple[str, float]] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    last_line: str = ""
    code: int = -1

    def page(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            text: str = answer.read().decode()
        return text

    def figure(self, name: str, **labels: str) -> float | None:
        """The sum over all that have these labels; None if there is none."""
        found = [value for each, has, value in samples(self.page()) if each == name and labels.items() <= has.items()]
        return sum(found) if found else None

    def note(self, situation: str) -> None:
        self.pages[situation] = self.page(), time.time()
        began = time.monotonic()
        answer = status(self.mirror) if situation != "target away" else self.unreadable()
        self.answers[situation] = {**answer, "took": time.monotonic() - began}

    def unreadable(self) -> Any:
        answer = farshore("status", self.mirror, "--json")
        assert answer.code == 1, answer.said
        return json.loads(answer.out)["flows"][0]


def samples(page: str) -> Iterator[tuple[str, dict[str, str], float]]:
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value


@pytest.fixture(scope="module")
def story(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Story:  # noqa: ARG001
    prepare()
    source, target = Cluster("source"), Cluster("target")
    with started(source, target):
        topic, port = "orders", free_port()
        create_topic(source.bootstrap_servers, topic, 2)
        mirror = Mirror(tmp_path_factory.mktemp("alerts"), source, target, topic)
        told = Story(mirror, port)
        with mirror.running("--metrics", str(port)) as program:
            _tell(told)
            target.kill()
            produce(source.bootstrap_servers, topic, [{"value": b"left"}] * 250)
            wait_until(lambda: told.figure("farshore_slot_lag_offsets") == 250, "what is left at the end", within=60)
            told.code = program.stop(within=20)
            told.last_line = program.said.splitlines()[-1]
            target.start()
        told.answers["stopped"] = status(mirror)
        told.pages["dead"] = "", time.time()
    return told


def _tell(told: Story) -> None:
    """Let each situation come, and note what is said in it."""
    mirror, topic = told.mirror, told.mirror.topics
    source, target = mirror.source, mirror.target
    some = [{"value": b"%d" % n, "partition": n % 2} for n in range(100)]
    old = [{**each, "timestamp": round((time.time() - LONG_AGO_SECONDS) * 1000)} for each in some] * 20

    def is_well() -> bool:
        return told.figure("farshore_flow_state", state="running") == 1 and lag() == 0

    def lag() -> float | None:
        return told.figure("farshore_slot_lag_offsets")

    produce(source.bootstrap_servers, topic, some)
    wait_until(lambda: mirror.has_copied(topic, 100) and is_well(), "all copied, and its saying so")
    told.note("well")
    target.stop()
    produce(source.bootstrap_servers, topic, old)
    wait_until(lambda: lag() == 2000, "the lag with the target away", within=60)
    wait_until(lambda: told.figure("farshore_flow_state", state="running") == 0, "no word of running", within=60)
    wait_until(lambda: told.figure("farshore_slot_up") == 0, "slots that are not heard", within=30)
    told.note("target away")
    target.start()
    wait_until(lambda: mirror.has_copied(topic, 2100) and is_well(), "all copied again")
    told.note("back again")
    source.stop()
    wait_until(lambda: told.figure("farshore_partitions_in_trouble", kind="passing") == 2, "both in trouble", within=60)
    wait_until(lambda: lag() is None, "its not knowing where logs end", within=60)
    wait_until(lambda: told.figure("farshore_flow_state", state="running") == 0, "no word of running", within=60)
    told.note("source away")
    source.start()
    produce(source.bootstrap_servers, topic, [{"value": b"back", "partition": 0}])
    wait_until(lambda: mirror.has_copied(topic, 2101) and is_well(), "the source read again")
    alter_topic(target.bootstrap_servers, mirror.remote(topic), "max.message.bytes", "2000")
    large = {"value": b"x" * 5000, "partition": 0, "timestamp": old[0]["timestamp"]}
    produce(source.bootstrap_servers, topic, [large])
    wait_until(lambda: told.figure("farshore_partitions_in_trouble", kind="refused") == 1, "one refused")
    wait_until(lambda: (told.figure("farshore_slot_lag_seconds") or 0) > 600, "its age", within=30)
    told.note("refused")
    at = sum(record.partition == 0 for record in mirror.written(topic))
    answer = farshore("skip", mirror, f"{topic}-0", "--to", str(at))
    assert answer.code == 0, answer.said
    wait_until(lambda: told.figure("farshore_last_gap_timestamp_seconds") is not None and is_well(), "a gap told of")
    told.note("skipped")


def firing(page: str, read_at: float, home: Path, at: str = "20m") -> set[str]:
    """Which alerts Prometheus sets off when it has read this page every minute for an hour."""
    series = [
        {
            "series": f"{name}{{{','.join(f'{label}={json.dumps(value)}' for label, value in labels.items())}}}",
            # Prometheus' own tests begin at 1970.
            "values": f"{value - read_at if name == 'farshore_last_gap_timestamp_seconds' else value:f}x90",
        }
        for name, labels, value in samples(page)
    ]
    tests = home / "tests.yml"
    found = set()
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on the PATH: the rules are not evaluated; `apt-get install prometheus` has it")
    for alert in ALERTS:
        none = [{"eval_time": at, "alertname": alert, "exp_alerts": []}]
        content = {
            "rule_files": [str(RULES)],
            "evaluation_interval": "1m",
            "tests": [{"interval": "1m", "input_series": series, "alert_rule_test": none}],
        }
        tests.write_text(yaml.safe_dump(content))
        done = subprocess.run([promtool, "test", "rules", str(tests)], capture_output=True, text=True, timeout=60)
        said = done.stdout + done.stderr
        assert done.returncode == 0 or f"alertname: {alert}" in said, said
        if done.returncode:
            found.add(alert)
    return found


@pytest.mark.parametrize("situation", FIRES)
def test_each_alert_is_set_off_in_the_situation_it_is_for_and_in_no_other(
    story: Story, situation: str, tmp_path: Path
) -> None:
    page, read_at = story.pages[situation]
    assert firing(page, read_at, tmp_path) == FIRES[situation]


def test_that_records_were_left_out_is_said_for_an_hour(story: Story, tmp_path: Path) -> None:
    page, read_at = story.pages["skipped"]
    assert firing(page, read_at, tmp_path, "70m") == set()


def test_no_alert_goes_off_for_what_soon_passes(story: Story, tmp_path: Path) -> None:
    for situation in ("target away", "source away", "refused"):
        page, read_at = story.pages[situation]
        assert firing(page, read_at, tmp_path, "1m") == set()


def test_lag_is_told_with_the_target_away_and_absent_with_the_source_away(story: Story) -> None:
    away = list(samples(story.pages["target away"][0]))
    assert sum(value for name, _, value in away if name == "farshore_slot_lag_offsets") == 2000
    assert max(value for name, _, value in away if name == "farshore_slot_lag_seconds") > 5, "since it was last even"
    unknown = {name for name, _, _ in samples(story.pages["source away"][0])}
    assert not unknown & {"farshore_slot_lag_offsets", "farshore_slot_lag_seconds"}


def test_status_says_how_it_stands_and_answers_soon_with_a_cluster_dead(story: Story) -> None:
    told = story.answers
    assert (told["well"]["state"], told["well"]["lag"], told["well"]["problem"]) == ("running", 0, None)
    assert "no answer" in told["target away"]["unreadable"] or "B" in told["target away"]["unreadable"]
    assert (told["source away"]["state"], told["source away"]["lag"]) == ("waiting", None)
    assert told["source away"]["problem"]
    assert told["refused"]["problem"] == "partitions in trouble: 1"
    assert told["refused"]["lag"] == 1
    for situation in ("target away", "source away"):
        assert told[situation]["took"] < 7, situation


def test_what_is_left_is_said_at_the_end_and_by_status_of_a_stopped_flow(story: Story) -> None:
    assert story.last_line.endswith(" records, 250 left"), story.last_line
    assert story.code == 1
    assert story.answers["stopped"]["lag"] == 250
