"""Our reading of properties files and of MirrorMaker 2's precedence, against Java's and the real MirrorMakerConfig."""

from __future__ import annotations

import random
import re
from base64 import b64decode, b64encode
from collections import defaultdict
from pathlib import Path

import pytest

from farshore.config.dedicated import connector_entries, kept_pairs, worker_entries
from farshore.config.entries import Connector, Entries, Findings, by_key
from farshore.config.keys import ANY_CONNECTOR, CONNECTION, WORKER
from farshore.config.properties import read_properties
from farshore.local.javatools import run_java

PROBE = Path(__file__).parent.parent / "java" / "MirrorMakerConfigProbe.java"
Sections = dict[str, dict[str, str]]
TRUTHS = ["true", "false", "TRUE", "yes", " true", "false # passive", "true # active"]


def ask_java(files: list[bytes]) -> list[Sections | None]:
    """What Java makes of each file, by section; None for one it refuses."""
    answer = run_java(PROBE, input="".join(f"{b64encode(file).decode()}\n" for file in files))
    assert answer.returncode == 0, answer.stderr
    sections: dict[int, Sections | None] = {number: defaultdict(dict) for number in range(len(files))}
    for line in answer.stdout.splitlines():
        number, section, *pair = line.split("\t")
        here = sections[int(number)]
        if section == "malformed":
            sections[int(number)] = None
        elif here is not None:
            texts = here[section]
            if pair:
                texts[b64decode(pair[0]).decode()] = b64decode(pair[1]).decode()
    return [sections[number] for number in range(len(files))]


def texts(entries: Entries) -> dict[str, str]:
    return {name: entry.text for name, entry in entries.items()}


def strange_files(count: int) -> list[bytes]:
    """Files made of what the syntax gives a meaning to, in random order.

    Left out: a line with nothing but a backslash. Java then takes a comment sign in the next line for a comment, and
    at the end of the file makes an entry without a name; neither is anything a user could want.
    """
    dice = random.Random(4)
    pieces = [b"a", b"key", b"A->B.topics", b" ", b"\t", b"\f", b"=", b":", b"\\", b"\\\n", b"\\\r\n", b"\\\r", b"\n",
              b"\r", b"\r\n", b"#", b"!", b"\\u0041", b"\\u00e9", b"\\t", b"\\n", b"\\=", b"\\:", b"\\ ", b"\\#", b"\xe9",
              b"\xc3\xa9", b"\\q", b"value", b"\\\\", b"\\u00", b"\x0b"]  # fmt: skip
    files = (b"".join(dice.choices(pieces, k=dice.randrange(1, 25))) for _ in range(2 * count))
    return [file for file in files if not re.search(rb"(^|[\r\n])[ \t\f]*\\([\r\n]|$)", file)][:count]


def mm2_files(count: int) -> list[bytes]:
    """Files that set many keys at many levels, each with a text of its own, so that it shows which one won."""
    dice = random.Random(5)
    names = sorted(
        {key.name for key in (*ANY_CONNECTOR.values(), *WORKER.values()) if not key.legacy_of and not key.removed}
        - {"config.providers", "emit.heartbeats.enabled", "plugin.discovery"}
    )
    names = [name for name in names if not name.startswith("farshore.")]  # Kafka does not know these
    security = sorted(name for name in CONNECTION if name not in ("security.protocol",))
    families = ["config.providers.x.class", "replication.policy.extra", "offset.storage.extra", "worker.extra",
                "taskforce", "status.storage.extra", "key.converter.schemas.enable", "consumer.isolation.level",
                "producer.compression.type", "admin.request.timeout.ms", "unheard.of", "consumers"]  # fmt: skip
    booleans = ["enabled", "emit.heartbeats.enabled"]
    levels = ["", "A.", "B.", "B.C.", "A->B.", "B->A.", "A.producer.", "B.consumer.", "A.admin.", "A->B.source.cluster.",
              "A->B.producer.override.", "A->B.source.consumer."]  # fmt: skip
    files = []
    for _ in range(count):
        # Without service_load MirrorMakerConfig scans the whole class path each time.
        lines = [f"clusters = {dice.choice(['A, B', 'A,B,B.C', 'B , A'])}", "plugin.discovery = service_load"]
        for number in range(dice.randrange(5, 60)):
            name = dice.choice(dice.choice([names, security, families]))
            lines.append(f"{dice.choice(levels)}{name} = text-{number}")
        for level in ("", "A->B.", "B->A."):
            for name in booleans:
                if dice.random() < 0.4:
                    lines.append(f"{level}{name} = {dice.choice(TRUTHS)}")
        files.append("\n".join(line for line in lines if not _refused_by_kafka(line)).encode())
    return files


def _refused_by_kafka(line: str) -> bool:
    """MirrorMakerConfig itself parses a few keys; a text of ours in one of them would be refused at once."""
    parsed = (
        "listeners",
        "rest.advertised.port",
        "dedicated.mode.enable.internal.rest",
        "response.http.headers.config",
    )
    numbers = tuple(key.name for key in CONNECTION.values() if key.type not in ("string", "password", "list", "class"))
    return line.startswith((*parsed, *numbers, "ssl.engine.factory.class", "sasl.login", "sasl.client.callback",
                            "sasl.oauthbearer", "ssl.", "metric"))  # fmt: skip


@pytest.mark.usefixtures("jars")
def test_any_properties_file_is_read_as_java_reads_it() -> None:
    files = strange_files(1500)
    for file, java in zip(files, ask_java(files), strict=True):
        findings = Findings()
        ours = texts(by_key(read_properties(file, "f", findings)))
        if java is None:
            assert findings.errors, file
        else:
            assert not findings.errors, file
            assert ours == java["properties"], file


@pytest.mark.usefixtures("jars")
def test_each_connector_and_worker_gets_what_mirror_maker_would_give_it() -> None:
    files = mm2_files(120)
    pairs_seen = 0
    for file, java in zip(files, ask_java(files), strict=True):
        assert java is not None
        raw = by_key(read_properties(file, "f", Findings()))
        aliases = list(dict.fromkeys(alias.strip() for alias in raw["clusters"].text.split(",")))
        flows = kept_pairs(raw, aliases)
        assert {f"{flow} kept" for flow in flows} == {section for section in java if section.endswith(" kept")}
        for flow in flows:
            pairs_seen += 1
            assert texts(worker_entries(raw, flow)) == java[f"{flow} worker"], (flow, file)
            for connector in Connector:
                assert texts(connector_entries(raw, flow, connector)) == java[f"{flow} {connector}"], (flow, file)
    assert pairs_seen > 100
