"""`connect-mirror-maker.sh`: MirrorMaker 2's command with its arguments, for units and scripts that have it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_USAGE = """usage: {} FILE [--clusters ALIAS...] [options of `farshore run`]
FILE is MirrorMaker 2's mm2.properties. With --clusters only flows into these clusters run, as on one of several sites.
`farshore run --help` lists the options; `farshore check FILE` says what FILE means and starts nothing."""
_AGENT = re.compile(r"-javaagent:(\S*jmx_prometheus\S*?)=(?:[^:]*:)??(\d+)(?::|$)")


@dataclass(slots=True)
class Meaning:
    """What a call means here: arguments of `farshore`, variables to set, and what is to be said about the rest.

    `usage` is all that was asked for, where it is there; a `refusal` is why nothing runs.
    """

    arguments: list[str]
    variables: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    refusal: str | None = None
    usage: str | None = None


def meaning_of(
    arguments: Sequence[str], environment: Mapping[str, str], *, called: str = "connect-mirror-maker.sh"
) -> Meaning:
    """Options of the JVM have no JVM to go to: two name files that are read, the others are told of, once.

    `called` is the name of the command as it was given."""
    if "--help" in arguments or "-h" in arguments:
        return Meaning([], usage=_USAGE.format(called))
    if "-daemon" in arguments or "--daemon" in arguments:
        refusal = "-daemon is not taken: let systemd or Kubernetes run it, or write `nohup … &`"
        return Meaning([], refusal=refusal)
    if not arguments or arguments[0].startswith("-"):
        return Meaning([], refusal=_USAGE.format(called))
    meaning = Meaning(["run", *arguments])
    for name, note in _VARIABLES.items():
        if environment.get(name, "").strip():
            meaning.notes.append(f"{name} has no effect: {note}")
    for variable, option in _options(environment):
        key, _, text = option.partition("=")
        if key == "-Djava.security.auth.login.config" and "--jaas" not in arguments:
            meaning.arguments += ["--jaas", text]
        elif key == "-Djava.security.krb5.conf":
            meaning.variables["KRB5_CONFIG"] = text
        elif option.startswith("-javaagent:"):
            meaning.notes.append(_agent(option))
        elif key in _STORES:
            instead = f"set ALIAS.{_STORES[key]} in FILE, for each cluster that is reached with SSL"
            meaning.notes.append(f"{key} in {variable} has no effect: {instead}")
        elif not option.startswith(("-Xm", "-XX:")):
            meaning.notes.append(f"{key} in {variable} has no effect: there is no JVM that it could be an option of")
    return meaning


_STORES = {
    "-Djavax.net.ssl.trustStore": "ssl.truststore.location",
    "-Djavax.net.ssl.trustStorePassword": "ssl.truststore.password",
    "-Djavax.net.ssl.trustStoreType": "ssl.truststore.type",
}
"""Of a JVM as a whole, for clients whose configuration names no trust store."""


_VARIABLES = {
    "KAFKA_HEAP_OPTS": (
        "it sizes the heap of a JVM, and records are not copied by one; a slot holds 64 MB of records at most"
    ),
    "KAFKA_LOG4J_OPTS": "the log goes to stderr; --log-level sets how much of it",
    "KAFKA_JMX_OPTS": "there is no JMX; --metrics [HOST:]PORT serves a page for Prometheus",
    "JMX_PORT": "there is no JMX; --metrics [HOST:]PORT serves a page for Prometheus",
    "KAFKA_JVM_PERFORMANCE_OPTS": "there is no JVM that copies records",
}


def _agent(option: str) -> str:
    if match := _AGENT.match(option):
        instead = f"for metrics add --metrics :{match[2]}, whose names are Farshore's own"
    else:
        instead = "Farshore runs no Java code of the user's"
    return f"-javaagent is not loaded, since there is no JVM: {instead}"


def _options(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Options of the JVM, each with the variable that it stands in."""
    variables = ("KAFKA_OPTS", "KAFKA_HEAP_OPTS")
    return [(variable, option) for variable in variables for option in _words(environment.get(variable, ""))]


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
