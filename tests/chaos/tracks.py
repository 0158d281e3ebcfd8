"""Carries a plan out: one thread a track, so that faults of different tracks overlap."""

from __future__ import annotations

import threading
import time
import traceback
from collections import Counter
from contextlib import ExitStack

from chaos.cluster_faults import CLUSTER_FAULTS, make_whole
from chaos.faults import FAULTS, Missed
from chaos.logs import Unreadable
from chaos.plan import LAST, Fault, Track
from chaos.scene import Scene

_ALL = {**FAULTS, **CLUSTER_FAULTS}
_LATE_SECONDS = 60.0
"""A fault whose time was so long ago, because the one before it took longer, is left out; the last one never is."""
_END_SECONDS = 600.0


class Tracks:
    """`done` counts faults that met something; `missed` those that found nothing. `failures` are the harness's own."""

    def __init__(self, scene: Scene) -> None:
        self.done: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()
        self.failures: list[str] = []
        self._scene = scene
        self._clusters = {side: threading.Lock() for side in "AB"}
        self._began = time.monotonic()

    def run(self) -> None:
        """Until the last fault is over; then the network and all brokers are as they should be."""
        threads = []
        for track in Track:
            faults = [fault for fault in self._scene.plan.faults if fault.track is track]
            threads.append(threading.Thread(target=self._follow, args=(faults,), name=f"track {track}", daemon=True))
        for thread in threads:
            thread.start()
        give_up_at = self._began + self._scene.plan.seconds + _END_SECONDS
        for thread in threads:
            thread.join(max(0.0, give_up_at - time.monotonic()))
            if thread.is_alive():
                self.failures.append(f"{thread.name} does not end")
        for side, cluster in self._scene.clusters.items():
            proxy = self._scene.proxy(side)
            proxy.disarm()
            proxy.delay(0)
            proxy.throttle(None)
            proxy.heal()
            make_whole(cluster)

    def _follow(self, faults: list[Fault]) -> None:
        for fault in faults:
            early = self._began + fault.at - time.monotonic()
            if early < -_LATE_SECONDS and fault.sort != LAST:
                self.missed[fault.sort] += 1
                continue
            time.sleep(max(0.0, early))
            self._do(fault)

    def _do(self, fault: Fault) -> None:
        try:
            with ExitStack() as stack:
                self._enter(stack, fault)
                said = _ALL[fault.sort](self._scene, fault)
        except (Missed, Unreadable) as missed:  # logs are read before anything is taken away
            self.missed[fault.sort] += 1
            self._tell(f"{fault}: missed, {missed}")
        except Exception as error:
            self.failures.append(f"{fault}: {type(error).__name__}: {error}")
            self._tell(f"{fault}: FAILED\n{traceback.format_exc()}")
        else:
            self.done[fault.sort] += 1
            self._tell(f"{fault}: {said or 'done'}")

    def _enter(self, stack: ExitStack, fault: Fault) -> None:
        """Clusters are whole and the network is there while MirrorMaker 2 has its turn."""
        if fault.sort == LAST:
            for lock in (*self._clusters.values(), *map(self._scene.network, "AB")):
                stack.enter_context(lock)
        elif fault.track in (Track.CLUSTER_A, Track.CLUSTER_B):
            stack.enter_context(self._clusters[fault.track.side])
        elif fault.track in (Track.NETWORK_A, Track.NETWORK_B):
            stack.enter_context(self._scene.network(fault.track.side))

    def _tell(self, text: str) -> None:
        self._scene.tell(text)
