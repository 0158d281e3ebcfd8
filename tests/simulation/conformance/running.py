"""One script on both sides."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from farshore.kafka.raw_model import At, IsolationLevel
from farshore.kafka.raw_requests import ListOffsets, Request
from farshore.kafka.raw_transaction_requests import EndTxn, InitProducerId, TransactionRequest
from simulation.conformance.comparing import Translation, told
from simulation.conformance.script import Alter, DeleteRecords, Script, Step
from simulation.conformance.sides import ModelSide, RealSide, errors_of

_REMEMBERED, _LONGEST = 60, 800
_APPLIED_SECONDS = 0.5  # until a broker goes by a changed setting


class Differs(AssertionError):
    """The model answers otherwise than the broker, which is right."""


@dataclass
class Tally:
    """How often each kind of request was answered with which codes."""

    requests: int = 0
    answers: Counter[str] = field(default_factory=Counter)

    def add(self, request: Request[Any], answer: Any) -> None:
        self.requests += 1
        name = type(request).__name__
        for error in errors_of(answer):
            self.answers[f"{name} {error}"] += 1


class Run:
    """`change` carries out on the real cluster what is no request; None: there is to be no such thing, because brokers are
    stopped, of which each has another index then.
    """

    def __init__(
        self,
        seed: int,
        model: ModelSide,
        real: RealSide,
        transactional_ids: list[str],
        change: Callable[[Alter | DeleteRecords], None] | None,
    ) -> None:
        self.tally = Tally()
        self._seed = seed
        self._model = model
        self._real = real
        self._change = change
        self.script = Script(random.Random(seed), model.cluster, transactional_ids, with_changes=change is not None)
        self.translation = Translation(same_index=change is not None)
        self._story: deque[str] = deque(maxlen=_REMEMBERED)

    async def go(self, requests: int) -> None:
        """Of one broker."""
        until = self.tally.requests + requests
        while self.tally.requests < until:
            step = self.script.next()
            if isinstance(step, (Alter, DeleteRecords)):
                await self._changed(step)
            else:
                await self.asked(step)
        await self.compare_ends()

    async def asked(self, request: Request[Any], *, settle: bool = True) -> Any:
        """The model's answer, which is the real one, too. With `settle` all that follows from it has happened."""
        broker = self.script.broker
        whose = request.transactional_id if isinstance(request, TransactionRequest) else None
        ours = self._model.ask(broker if whose is None else self._model.cluster.coordinator_of(whose), request)
        theirs = await self._real.ask(broker, self.translation.request(request), transactional_id=whose, patient=settle)
        self.translation.learn(ours, theirs)
        self._compare(request, ours, theirs)
        self.script.taken(request, ours)
        self.tally.add(request, ours)
        if settle and isinstance(request, (EndTxn, InitProducerId)) and request.transactional_id is not None:
            await self.compare_state(request.transactional_id)
        return ours

    async def compare_state(self, transactional_id: str) -> None:
        """What the coordinators know, when no marker is under way any more."""
        theirs = await self._real.described(transactional_id)
        self._compare(f"state of {transactional_id}", self._model.described(transactional_id), theirs)

    async def _changed(self, step: Alter | DeleteRecords) -> None:
        self._story.append(str(step))
        if isinstance(step, Alter):
            settings = self._model.cluster.settings[step.topic]
            setattr(settings, step.key.removeprefix("message.").replace(".", "_"), int(step.value))
        else:
            self._model.cluster.logs[step.one].retain(step.before)
        assert self._change is not None
        await asyncio.to_thread(self._change, step)
        if isinstance(step, Alter):
            await asyncio.sleep(_APPLIED_SECONDS)

    async def compare_ends(self) -> None:
        """Starts, ends and last stable offsets of all logs that the broker leads."""
        logs = self._model.cluster.logs.items()
        led = [one for one, log in logs if log.leader == self.script.broker]
        for at in At:
            for level in IsolationLevel:
                await self.asked(ListOffsets(led, at, level))

    def _compare(self, what: Step | str, ours: Any, theirs: Any) -> None:
        said = self.translation.answer(ours, real=False)
        right = self.translation.answer(theirs, real=True)
        self._story.append(f"{told(what)} -> {said}")
        if said != right:
            story = "\n".join(each[:_LONGEST] for each in self._story)
            raise Differs(f"seed {self._seed}, after {self.tally.requests} requests:\n{story}\nreal: {right}")
