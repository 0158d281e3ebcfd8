"""Requests whose layouts are tables (`codec`): what all of them share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from farshore.kafka.admin.codec import Cursor, Layout, Struct
from farshore.kafka.raw_requests import AnswerT, Request, UnknownToBroker


@dataclass(frozen=True, slots=True)
class Api:
    """A kind of request: its number, the versions we speak, from which one on they are flexible, and its layouts."""

    name: str
    key: int
    lowest: int
    highest: int
    flexible_from: int
    request: Struct
    response: Struct

    def layout(self, version: int) -> Layout:
        return Layout(version, version >= self.flexible_from)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request in the version of one broker, with what a connection asks of aiokafka's structures."""

    api: Api
    API_VERSION: int
    values: Mapping[str, Any]

    @property
    def API_KEY(self) -> int:
        return self.api.key

    @property
    def FLEXIBLE_VERSION(self) -> bool:
        return self.api.flexible_from <= self.API_VERSION


class TableRequest(Request[AnswerT]):
    """A request of `api`. `lowest` may be higher than that of the table, if what is asked for needs it."""

    api: ClassVar[Api]
    structs = ()

    @property
    def lowest(self) -> int:
        return self.api.lowest

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> Prepared:
        lowest, highest = versions.get(self.api.key, (0, -1))
        version = min(highest, self.api.highest)
        if version < max(lowest, self.lowest):
            ours = f"v{self.lowest} to v{self.api.highest}"
            raise UnknownToBroker(f"{self.api.name}: the broker knows v{lowest} to v{highest}, not {ours}")
        return Prepared(self.api, version, self.values())

    def build(self, struct_class: type[Any]) -> Any:
        raise NotImplementedError("made by `prepare`, from a table")

    @abstractmethod
    def values(self) -> Mapping[str, Any]:
        """The fields of all versions."""

    def encoded(self, prepared: Prepared) -> Sequence[bytes]:
        return (self.api.request.write(prepared.values, self.api.layout(prepared.API_VERSION)),)

    def decoded(self, prepared: Prepared, body: memoryview) -> dict[str, Any]:
        data = Cursor(body)
        found = self.api.response.read(data, self.api.layout(prepared.API_VERSION))
        if data.left:
            raise ValueError(f"{self.api.name}: {data.left} bytes too many in the answer")
        return found

    def silence_ms(self, response: Mapping[str, Any]) -> int:
        return int(response.get("throttle_time_ms", 0))
