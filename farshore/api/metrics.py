"""Prometheus metrics of a running Farshore: every slot of every flow, wherever in the Spark cluster it runs.

Slots report to the driver through the board, so the driver's page has them all. Figures are gathered when somebody asks
for the page; nothing is kept in between. Labels hold the names of clusters and topics, numbers, and words from closed
sets, never free text: reasons are for the log and `farshore status`.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Self

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from farshore import __version__
from farshore.control.group_offsets import Skip
from farshore.dataplane.backlog import Backlog
from farshore.dataplane.board import NoticeKind, PassReport, Report
from farshore.dataplane.trouble import Kind
from farshore.driver.figures import FlowFigures, FlowState
from farshore.errors import BadArgument
from farshore.ops.sight import LAPSED_AFTER_SECONDS

_log = logging.getLogger(__name__)

Rows = Iterable[tuple[Sequence[object], float | None]]
"""Values of the labels, and the figure; none is shown where that is None."""


class Series(NamedTuple):
    """`rows` gives those of one flow; all are labelled with its source and target too. The library adds `_total`."""

    kind: type[GaugeMetricFamily] | type[CounterMetricFamily]
    name: str
    labels: tuple[str, ...]
    rows: Callable[[FlowFigures], Rows]
    help: str


def _word(text: str) -> str:
    return text.lower().replace(" ", "_")


def _once(figure: Callable[[FlowFigures], float | None]) -> Callable[[FlowFigures], Rows]:
    return lambda flow: [((), figure(flow))] if flow.held else []


def _each_slot(figure: Callable[[Report], float]) -> Callable[[FlowFigures], Rows]:
    return lambda flow: (((report.slot,), figure(report)) for report, _ in flow.reports)


def _each_backlog(figure: Callable[[Backlog], float | None]) -> Callable[[FlowFigures], Rows]:
    return lambda flow: (((slot,), figure(backlog)) for slot, backlog in enumerate(flow.backlogs))


def _each_pass(figure: Callable[[PassReport], float | None]) -> Callable[[FlowFigures], Rows]:
    return lambda flow: (((_word(each.name),), figure(each)) for each in (flow.upkeep.passes if flow.upkeep else ()))


def _states(flow: FlowFigures) -> Rows:
    return (((_word(state),), flow.state is state) for state in FlowState)


def _up(flow: FlowFigures) -> Rows:
    ages = {report.slot: age for report, age in flow.reports}
    return (((slot,), ages.get(slot, float("inf")) <= LAPSED_AFTER_SECONDS) for slot in range(flow.slots))


def _batches(flow: FlowFigures) -> Rows:
    for report, _ in flow.reports:
        for path, count in zip(("as_is", "merged", "anew"), report.batches, strict=True):
            yield (report.slot, path), count


def _troubles(flow: FlowFigures) -> Rows:
    found = Counter(trouble.kind for report, _ in flow.reports for trouble in report.troubles)
    return (((_word(kind),), found[kind]) for kind in Kind if flow.held)


def _restored(flow: FlowFigures) -> Rows:
    found: Counter[str] = Counter()
    for notice in flow.notices:
        found[notice.kind] += notice.times
    return (((_word(kind),), found[kind]) for kind in NoticeKind if flow.held)


def _last_gap(flow: FlowFigures) -> float | None:
    return max((gap.at for gaps in flow.gaps for gap in gaps.newest), default=None)


def _skipped(flow: FlowFigures) -> Rows:
    found = dict(flow.upkeep.skipped) if flow.upkeep else {}
    return (((reason.name.lower(),), found.get(reason, 0)) for reason in Skip if flow.upkeep)


_GAUGE, _COUNTER = GaugeMetricFamily, CounterMetricFamily

SERIES = (
    Series(_GAUGE, "farshore_flow_state", ("state",), _states,
           "1 for the state that the flow is in, 0 for the others. Well are running, idle (held, nothing to copy) and, "
           "where another process has the flow, standby; of all others the log says why."),
    Series(_GAUGE, "farshore_slots", (), _once(lambda flow: flow.slots),
           "Slots that should be copying now."),
    Series(_GAUGE, "farshore_slots_not_started", (), _once(lambda flow: flow.not_started),
           "Of these, slots of which nothing was heard for 15 s after Spark was given them: has it a core for them? "
           "Their partitions are not copied."),
    Series(_GAUGE, "farshore_slot_up", ("slot",), _up,
           f"1 if the slot has reported in the last {LAPSED_AFTER_SECONDS:.0f} s. 0 if it was not started yet (has "
           "Spark a core for it?), has died and is started again, or cannot reach the target."),
    Series(_GAUGE, "farshore_slot_report_age_seconds", ("slot",),
           lambda flow: (((report.slot,), age) for report, age in flow.reports),
           "Time since the slot's last report, which all its other figures are from; one comes about every second."),
    Series(_GAUGE, "farshore_slot_partitions", ("slot",), _each_slot(lambda report: report.partitions),
           "Partitions that the slot copies."),
    Series(_COUNTER, "farshore_slot_records", ("slot",), _each_slot(lambda report: report.records),
           "Records copied since the slot was started."),
    Series(_COUNTER, "farshore_slot_bytes", ("slot",), _each_slot(lambda report: report.bytes),
           "Bytes of record batches copied since the slot was started."),
    Series(_GAUGE, "farshore_slot_lag_offsets", ("slot",), _each_backlog(lambda backlog: backlog.offsets),
           "Offsets that are on the source and not yet copied, as of ten seconds ago or less, also while the slot is "
           "not there to tell; not there where that is not known."),
    Series(_GAUGE, "farshore_slot_lag_seconds", ("slot",), _each_backlog(lambda backlog: backlog.seconds),
           "Age of the oldest record that is not yet copied, be it read or not, of the 20 partitions with most; 0 if "
           "there is none; not there where that is not known."),
    Series(_GAUGE, "farshore_slot_held_bytes", ("slot",), _each_slot(lambda report: report.held_bytes),
           "Bytes that are read and not yet acknowledged by the target. If they stay high the target is slow."),
    Series(_COUNTER, "farshore_slot_batches", ("slot", "path"), _batches,
           "Batches copied as they are, merged from small ones, or encoded anew, which costs most."),
    Series(_GAUGE, "farshore_partitions_in_trouble", ("kind",), _troubles,
           "Partitions that are not copied now, at most 100 a slot: refused and stopped wait for somebody to act, the "
           "others mostly pass. farshore status says which and why."),
    Series(_GAUGE, "farshore_topics_refused", (), _once(lambda flow: flow.refused),
           "Topics that are not copied because of their remote topics; the log says why."),
    Series(_COUNTER, "farshore_gaps", (), _once(lambda flow: sum(gaps.times for gaps in flow.gaps)),
           "How many times offsets were left out: retention was faster, the log lost them or is another one, or "
           "somebody skipped them. Kept on the board, so restarts do not set it back."),
    Series(_GAUGE, "farshore_last_gap_timestamp_seconds", (), _once(_last_gap),
           "When offsets were last found to be left out; not there if that never happened."),
    Series(_COUNTER, "farshore_gap_offsets", ("topic", "partition"),
           lambda flow: ((gaps.partition, gaps.offsets) for gaps in flow.gaps),
           "Offsets that were never copied, of partitions with any; 0 where nobody can count them. Kept on the board."),
    Series(_COUNTER, "farshore_restored", ("kind",), _restored,
           "How many times something had vanished and was dealt with: the target was wiped, an internal topic was "
           "deleted, or positions (each counts) were lost and found again. farshore status says what and when."),
    Series(_GAUGE, "farshore_pass_degraded", ("pass",), _each_pass(lambda each: each.degraded_since is not None),
           "1 if this part of the upkeep did not do all that it should; the log and farshore status say why."),
    Series(_GAUGE, "farshore_pass_last_run_timestamp_seconds", ("pass",), _each_pass(lambda each: each.last_run),
           "When the last run that has ended began."),
    Series(_GAUGE, "farshore_pass_last_run_duration_seconds", ("pass",), _each_pass(lambda each: each.took),
           "How long that run took."),
    Series(_GAUGE, "farshore_pass_interval_seconds", ("pass",), _each_pass(lambda each: each.every),
           "How often the pass is to run."),
    Series(_GAUGE, "farshore_heartbeat_age_seconds", (),
           _once(lambda flow: flow.upkeep.heartbeat_age if flow.upkeep else None),
           "Age of the newest heartbeat that came over from the source. If it grows, records do not come over, or "
           "nobody writes heartbeats on the source."),
    Series(_GAUGE, "farshore_groups", (), _once(lambda flow: flow.upkeep.groups if flow.upkeep else None),
           "Consumer groups that are followed."),
    Series(_GAUGE, "farshore_group_offsets_skipped", ("reason",), _skipped,
           "Group offsets that the last pass did not write: groups that are live or have moved on the target are left "
           "alone, as they should be; of the other reasons the log tells."),
)  # fmt: skip


_LOOP_DELAY = (
    "By how much the driver's event loop was late in the last minute, at the worst. Normal is below 0.1; above a "
    "second the driver gets too little processor time, or something in it computes for too long: the log says which."
)


def families(flows: Sequence[FlowFigures], loop_delay: float | None = None) -> Iterator[Metric]:
    """All that is on the page. Pure."""
    yield InfoMetricFamily("farshore_build", "The Farshore that serves this page.", {"version": __version__})
    if loop_delay is not None:
        yield GaugeMetricFamily("farshore_driver_loop_delay_seconds", _LOOP_DELAY, loop_delay)
    for series in SERIES:
        family = series.kind(series.name, series.help, labels=("source", "target", *series.labels))
        for flow in flows:
            for values, figure in series.rows(flow):
                if figure is not None:
                    family.add_metric((flow.flow.source, flow.flow.target, *map(str, values)), float(figure))
        yield family


class MetricsServer(Collector):
    """Serves the page at `/metrics` of `address` until its block ends. `figures` and `loop_delay` are called
    for each, in any thread."""

    def __init__(
        self,
        address: str,
        figures: Callable[[], Sequence[FlowFigures]],
        loop_delay: Callable[[], float | None] = lambda: None,
    ) -> None:
        """Raises BadArgument if nobody can listen there; listens from now on otherwise."""
        self._figures = figures
        self._loop_delay = loop_delay
        host, port = parsed(address)
        (registry := CollectorRegistry()).register(self)
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise BadArgument(f"--metrics {address}: cannot listen there: {reason}; name another address") from error
        _log.info("metrics are at http://%s:%d/metrics", f"[{host}]" if ":" in host else host, port)

    def collect(self) -> Iterator[Metric]:
        return families(self._figures(), self._loop_delay())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def parsed(address: str) -> tuple[str, int]:
    """Host and port of `PORT`, which is on the loopback, `:PORT`, on all interfaces, or `HOST:PORT`."""
    host, colon, port = address.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    numbered = re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) < 65536
    if not numbered or (":" in bare and bare == host):
        how = "write PORT, :PORT for all interfaces, or HOST:PORT, as in 9404, 10.0.0.5:9404 or [::1]:9404"
        raise BadArgument(f"--metrics {address!r} is no address: {how}")
    return bare or ("0.0.0.0" if colon else "127.0.0.1"), int(port)
