"""The coordinators of transactions: found, remembered, and asked until they have more to say than "not yet"."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from farshore.errors import Fenced, KafkaError, PermissionDenied, RequestRefused, Unreachable
from farshore.kafka.raw_brokers import Brokers, Purpose
from farshore.kafka.raw_errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Category,
    error_info,
)
from farshore.kafka.raw_transaction_requests import FindTransactionCoordinator, TransactionRequest, ValueT

_PAUSE_SECONDS = 0.1
# Until the markers of the last transaction are out. As short as Java's, because the next transaction waits for it.
_PAUSE_BETWEEN_TRANSACTIONS_SECONDS = 0.02

_NEEDED = {
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ": grant our principal WRITE and DESCRIBE on the transactional id {}",
    CLUSTER_AUTHORIZATION_FAILED: ": grant our principal IDEMPOTENT_WRITE on the cluster, or WRITE on some topic",
}


class Coordinators:
    """Asks for each coordinator once, and again when it has moved or is lost."""

    def __init__(self, brokers: Brokers, *, alias: str) -> None:
        self._brokers = brokers
        self._alias = alias
        self._known: dict[str, int] = {}

    async def ask(
        self, request: TransactionRequest[ValueT], *, timeout: float, on_lost: Callable[[], None] = lambda: None
    ) -> ValueT:
        """What the coordinator answers. What passes by itself, the loss of its connection too, is waited for: no
        attempt begins when `timeout` seconds have passed.

        The request may so be carried out twice, the second time long after this has returned; `on_lost` is called
        whenever a connection was lost under it. Raises Fenced, PermissionDenied or RequestRefused, and what every
        request may. Without a transactional id any broker will do, and if none can be reached, none is waited for.
        """
        give_up_at = _now() + timeout
        while True:
            pause = _PAUSE_SECONDS
            try:
                return await self._ask_once(request)
            except Unreachable:
                on_lost()
                if request.transactional_id is None or self._brokers.closed or _now() + pause >= give_up_at:
                    raise
            except RequestRefused as refused:
                if refused.code == "CONCURRENT_TRANSACTIONS":
                    pause = _PAUSE_BETWEEN_TRANSACTIONS_SECONDS
                if not refused.retriable or _now() + pause >= give_up_at:
                    raise
            await asyncio.sleep(pause)

    async def _ask_once(self, request: TransactionRequest[ValueT]) -> ValueT:
        transactional_id = request.transactional_id
        if transactional_id is None:
            outcome = await self._brokers.ask_anybody(request)
        else:
            coordinator = await self._coordinator_of(transactional_id, request)
            try:
                outcome = await self._brokers.ask(coordinator, Purpose.CONTROL, request)
            except Unreachable:
                self._known.pop(transactional_id, None)
                raise
            if error_info(outcome.error).refresh:
                self._known.pop(transactional_id, None)
        if outcome.error:
            raise self._refusal(request, outcome.error)
        return outcome.value

    async def _coordinator_of(self, transactional_id: str, request: TransactionRequest[ValueT]) -> int:
        if transactional_id not in self._known:
            found = await self._brokers.ask_anybody(FindTransactionCoordinator(transactional_id))
            if found.error:
                raise self._refusal(request, found.error)
            coordinator, address = found.value
            self._brokers.add(coordinator, address)
            self._known[transactional_id] = coordinator
        return self._known[transactional_id]

    def _refusal(self, request: TransactionRequest[ValueT], code: int) -> KafkaError:
        info = error_info(code)
        whose = "" if request.transactional_id is None else f" of {request.transactional_id}"
        message = f"{self._alias}: {type(request).__name__}{whose}: {info}"
        if info.category is Category.PERMISSION:
            needed = _NEEDED.get(code, "").format(request.transactional_id)
            return PermissionDenied(f"{message}{needed}", cluster=self._alias)
        if info.category is Category.FENCED:
            return Fenced(f"{message}; or a transaction has outlived its timeout", cluster=self._alias)
        return RequestRefused(message, cluster=self._alias, code=info.name, retriable=info.retriable)


def _now() -> float:
    return asyncio.get_running_loop().time()
