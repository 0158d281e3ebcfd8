"""What stands in a local broker's server.properties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from farshore.local.ports import LOOPBACK

CLIENTS = "CLIENTS"
"""The listener for everybody: secured as asked, behind the proxy if there is one."""
INTERNAL = "INTERNAL"
"""The brokers' own listener: plain text, loopback only, never behind a proxy."""
CONTROLLER = "CONTROLLER"


@dataclass(frozen=True, slots=True)
class Node:
    """One broker-and-controller: its id and where it listens. Clients are told to use `advertised_port`."""

    id: int
    client_port: int
    internal_port: int
    controller_port: int
    advertised_port: int


def broker_settings(
    node: Node, nodes: Sequence[Node], data: Path, client_protocol: str, overrides: Mapping[str, str]
) -> dict[str, str]:
    """Settings of `node`, one of `nodes`; `overrides` win over everything here."""
    copies = str(min(3, len(nodes)))
    return {
        "process.roles": "broker,controller",
        "node.id": str(node.id),
        "controller.quorum.voters": ",".join(f"{each.id}@{LOOPBACK}:{each.controller_port}" for each in nodes),
        "listeners": (
            f"{CLIENTS}://{LOOPBACK}:{node.client_port},{INTERNAL}://{LOOPBACK}:{node.internal_port},"
            f"{CONTROLLER}://{LOOPBACK}:{node.controller_port}"
        ),
        "advertised.listeners": (
            f"{CLIENTS}://{LOOPBACK}:{node.advertised_port},{INTERNAL}://{LOOPBACK}:{node.internal_port}"
        ),
        "listener.security.protocol.map": (f"{CLIENTS}:{client_protocol},{INTERNAL}:PLAINTEXT,{CONTROLLER}:PLAINTEXT"),
        "inter.broker.listener.name": INTERNAL,
        "controller.listener.names": CONTROLLER,
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",
        # A killed broker is not let in again before the controller has given the old one up, by default
        # after 9 s.
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "4000",
        "default.replication.factor": copies,
        "group.initial.rebalance.delay.ms": "0",
        # By default records with a timestamp of more than a week ago go within five minutes of being written.
        "log.retention.ms": "-1",
        "offsets.topic.num.partitions": "5",
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.num.partitions": "5",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "5",
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": "1",
        # Taken from the heap at the start; the default of 128 MiB is half of a small broker's.
        "log.cleaner.dedupe.buffer.size": str(16 << 20),
        **overrides,
    }


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Write a Java properties file that only its owner can read: settings hold passwords."""
    path.touch(mode=0o600)
    lines = (f"{_escaped(key, ' :=')}={_escaped(value, '')}\n" for key, value in settings.items())
    path.write_text("".join(lines), encoding="latin-1", errors="strict")


def _escaped(text: str, special: str) -> str:
    out = []
    for position, char in enumerate(text):
        if char == "\n":
            out.append("\\n")
        elif char == "\\" or char in special or (char in " #!" and position == 0):
            out.append("\\" + char)
        elif " " <= char <= "~":
            out.append(char)
        else:
            units = char.encode("utf-16-be")
            out.extend(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
    return "".join(out)
