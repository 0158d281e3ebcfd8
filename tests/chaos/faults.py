"""What goes wrong with processes, connections and requests. Each fault is a function: what it did, in words.

It raises Missed where there was nothing for it to be done to, which happens: the worker has just been killed.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from kafka_requests import Api
from request_proxy import Fate, Trap, send_once_more

from chaos.deaths import DRIVER, JVM
from chaos.plan import LAST, Fault
from chaos.processes import Process
from chaos.scene import Scene
from farshore.local.javatools import start_mirror_maker

_TRAP_SECONDS = 20.0
_PROCESS_SECONDS = 30.0
_STANDBY_SECONDS = 90.0
_MM2_SECONDS = 180.0
_BUSY = (Api.FETCH, Api.PRODUCE, Api.METADATA, Api.HEARTBEAT)
_IN_TRANSACTIONS = (Api.ADD_PARTITIONS_TO_TXN, Api.END_TXN, Api.ADD_PARTITIONS_TO_TXN, Api.END_TXN)
_FREQUENT = (Api.FETCH, Api.PRODUCE, Api.ADD_PARTITIONS_TO_TXN)
_NOW_AND_THEN = (
    Api.LIST_OFFSETS, Api.FIND_COORDINATOR, Api.JOIN_GROUP, Api.SYNC_GROUP, Api.INIT_PRODUCER_ID,
    Api.OFFSET_FOR_LEADER_EPOCH,
)  # fmt: skip

T = TypeVar("T")


class Missed(Exception):
    """There was nothing to be done."""


def drawn(fault: Fault, some: Sequence[T], what: str) -> T:
    if not some:
        raise Missed(f"there is no {what}")
    return some[fault.draw % len(some)]


def wait_for(true: Callable[[], bool], within: float, every: float = 0.5) -> bool:
    give_up_at = time.monotonic() + within
    while not true():
        if time.monotonic() > give_up_at:
            return False
        time.sleep(every)
    return True


# -- connections


def cut(scene: Scene, fault: Fault) -> str:
    scene.proxy(fault.track.side).cut()
    time.sleep(fault.lasts)
    scene.proxy(fault.track.side).heal()
    return ""


def half_open(scene: Scene, fault: Fault) -> str:
    scene.proxy(fault.track.side).cut(silently=True)
    time.sleep(fault.lasts)
    scene.proxy(fault.track.side).heal()
    return ""


def slow(scene: Scene, fault: Fault) -> str:
    seconds = (0.02, 0.08, 0.25)[fault.draw % 3]
    scene.proxy(fault.track.side).delay(seconds)
    time.sleep(fault.lasts)
    scene.proxy(fault.track.side).delay(0)
    return f"{seconds * 1000:.0f} ms each way"


def throttle(scene: Scene, fault: Fault) -> str:
    limit = (50_000, 200_000, 1_000_000)[fault.draw % 3]
    scene.proxy(fault.track.side).throttle(limit)
    time.sleep(fault.lasts)
    scene.proxy(fault.track.side).throttle(None)
    return f"{limit // 1000} KB/s a connection"


def break_connections(scene: Scene, fault: Fault) -> str:
    count = scene.proxy(fault.track.side).connection_count
    scene.proxy(fault.track.side).cut()
    scene.proxy(fault.track.side).heal()
    return f"{count} of them"


# -- requests


def _caught(scene: Scene, fault: Fault, fate: Fate) -> tuple[Trap, str]:
    side = fault.track.side
    often = _BUSY + (_IN_TRANSACTIONS if scene.plan.exactly_once_into == side else ())
    choices = often * 4 + _NOW_AND_THEN
    api = choices[fault.draw % len(choices)]
    trap = scene.proxy(side).catch(api, fate, nth=1 + fault.draw // 100 % 5 if api in _FREQUENT else 1)
    if not wait_for(lambda: bool(trap.caught), _TRAP_SECONDS, 0.05):
        trap.release()
        raise Missed(f"no {api.name} came")
    return trap, api.name


def lose_answer(scene: Scene, fault: Fault) -> str:
    return _caught(scene, fault, Fate.ANSWER_LOST)[1]


def lose_answer_silently(scene: Scene, fault: Fault) -> str:
    return _caught(scene, fault, Fate.ANSWER_LOST_SILENTLY)[1]


def repeat_request(scene: Scene, fault: Fault) -> str:
    """Its answer is lost, and it arrives once more, on the brokers' own listener: which asks for no password."""
    trap, name = _caught(scene, fault, Fate.ANSWER_LOST)
    request = trap.caught[-1]
    time.sleep(fault.lasts)
    nodes = [broker.node for broker in scene.clusters[fault.track.side].brokers]
    port = next(node.internal_port for node in nodes if node.client_port == request.broker_port)
    try:
        send_once_more(replace(request, broker_port=port))
    except (OSError, AssertionError):
        return f"{name}, whose broker has gone meanwhile"
    return name


def delay_request(scene: Scene, fault: Fault) -> str:
    trap, name = _caught(scene, fault, Fate.HELD_BACK)
    time.sleep(fault.lasts)
    trap.release()
    return name


# -- processes


def _process(scene: Scene, fault: Fault, part: str) -> Process:
    """Waited for: after a driver was killed it takes a while until there are workers again."""
    wait_for(lambda: bool(scene.processes(part)), _PROCESS_SECONDS)
    return drawn(fault, scene.processes(part), part)


def _kill(scene: Scene, fault: Fault, part: str) -> str:
    process = _process(scene, fault, part)
    of_a_place = part in (DRIVER, JVM)
    if not (any(place.kill(process) for place in scene.places) if of_a_place else process.kill()):
        raise Missed("it has ended just now")
    return f"{part} {process.pid}"


def _freeze(scene: Scene, fault: Fault, part: str) -> str:
    process = _process(scene, fault, part)
    if not process.signal(signal.SIGSTOP):
        raise Missed("it has ended just now")
    time.sleep(fault.lasts)
    process.signal(signal.SIGCONT)
    return f"{part} {process.pid}"


def _of(do: Callable[[Scene, Fault, str], str], part: str) -> Callable[[Scene, Fault], str]:
    return lambda scene, fault: do(scene, fault, part)


# -- whole mirrors


def restart(scene: Scene, fault: Fault) -> str:
    if not scene.first.part("driver"):
        raise Missed("it is not running")
    stopped = scene.first.stop()
    time.sleep(fault.lasts)
    scene.first.start()
    if stopped is None:
        raise Missed("it has ended just now")
    return f"stopped within {stopped[0]:.1f} s, code {stopped[1]}"


def stand_by(scene: Scene, fault: Fault) -> str:
    """A second Farshore stands by, the first one's driver is killed; later the second stops, and the first has it."""
    scene.second.start()
    try:
        waits = wait_for(lambda: "another Farshore holds the flow" in scene.second.log.read_text(), _STANDBY_SECONDS)
        if not waits:
            raise Missed("it never came to stand by")
        time.sleep(fault.lasts)
        if not any(scene.first.kill(driver) for driver in scene.first.part("driver")):
            raise Missed("there is no driver to take over from")
        began = time.monotonic()
        took = wait_for(lambda: bool(scene.second.part("workers")), _STANDBY_SECONDS)
        seconds = time.monotonic() - began
        time.sleep(fault.lasts)
    finally:
        scene.second.stop()
    return f"it copied after {seconds:.0f} s" if took else "the first was faster"


def mirror_maker(scene: Scene, fault: Fault) -> str:
    """Farshore stops, the real MirrorMaker 2 copies for a while, Farshore goes on."""
    log = scene.home / f"mm2-{fault.at:.0f}.log"
    heavy = [writers for some in scene.writers.values() for kind, writers in some.items() if kind.value == "bulk"]
    with heavy[0].held(), heavy[1].held():
        scene.first.stop()
        try:
            with start_mirror_maker(scene.properties, log):
                begun = wait_for(lambda: log.read_text().count("Committing offsets for") >= 2, _MM2_SECONDS)
                time.sleep(fault.lasts)
        finally:
            scene.first.start()
    if not begun:
        raise Missed("it did not come to copy anything")
    return "it copied"


FAULTS: dict[str, Callable[[Scene, Fault], str]] = {
    "cut": cut,
    "half-open": half_open,
    "slow": slow,
    "throttle": throttle,
    "connections broken": break_connections,
    "answer lost": lose_answer,
    "answer lost silently": lose_answer_silently,
    "request repeated": repeat_request,
    "request late": delay_request,
    "worker killed": _of(_kill, "workers"),
    "worker frozen": _of(_freeze, "workers"),
    "executor killed": _of(_kill, "executors"),
    "executor frozen": _of(_freeze, "executors"),
    "driver killed": _of(_kill, "driver"),
    "driver frozen": _of(_freeze, "driver"),
    "jvm killed": _of(_kill, "jvm"),
    "jvm frozen": _of(_freeze, "jvm"),
    "stopped and started": restart,
    "standby takes over": stand_by,
    LAST: mirror_maker,
}
