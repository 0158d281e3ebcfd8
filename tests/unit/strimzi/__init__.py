"""Resources to read, and a short way to read them."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent, indent

from farshore.config.entries import Entry, Findings, FlowConfig, Severity
from farshore.config.strimzi import read_strimzi
from farshore.config.yamltext import read_yaml

HERE = Path(__file__).parent
ACTIVE_PASSIVE = HERE / "active-passive.yaml"
SECRETS = HERE / "secrets.yaml"
V1 = HERE / "v1.yaml"

PLAIN = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata:
  name: mm2
  namespace: kafka
spec:
  connectCluster: b
  clusters:
    - alias: a
      bootstrapServers: a:9092
    - alias: b
      bootstrapServers: b:9092
  mirrors:
    - sourceCluster: a
      targetCluster: b
      sourceConnector: {}
"""


class Result:
    """The flows read from some files, and what was found."""

    def __init__(self, *sources: Path | str, secrets_dir: Path | None = None) -> None:
        self.findings = Findings()
        documents = []
        for number, source in enumerate(sources):
            file = source.name if isinstance(source, Path) else f"{number}.yaml" if number else "mm2.yaml"
            data = source.read_bytes() if isinstance(source, Path) else source.encode()
            documents += read_yaml(data, file, self.findings)
        self.flows = read_strimzi(documents, secrets_dir, self.findings)

    @property
    def flow(self) -> FlowConfig:
        assert [str(error) for error in self.findings.errors] == []
        (flow,) = self.flows
        return flow

    def found(self, *severities: Severity) -> list[str]:
        return [str(finding) for finding in self.findings.of(*(severities or Severity))]

    @property
    def errors(self) -> list[str]:
        return self.found(Severity.ERROR)

    @property
    def warnings(self) -> list[str]:
        return self.found(Severity.WARNING)


def texts(entries: dict[str, Entry] | object, prefix: str = "") -> dict[str, str]:
    """Names and texts, of those below a prefix."""
    assert isinstance(entries, dict)
    return {name.removeprefix(prefix): e.text for name, e in entries.items() if name.startswith(prefix)}


def with_source(extra: str) -> str:
    """The plain resource, with more fields for cluster `a`."""
    return PLAIN.replace("a:9092\n", f"a:9092\n{indent(dedent(extra).strip(), '      ')}\n")


def secret(name: str, **data: str) -> str:
    """A Secret as a document of its own."""
    lines = [f"  {key}: {json.dumps(text)}" for key, text in data.items()]
    head = ["apiVersion: v1", "kind: Secret", "metadata:", f"  name: {name}", "stringData:"]
    return "\n".join([*head, *lines]) + "\n"
