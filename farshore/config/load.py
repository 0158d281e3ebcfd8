"""Files to settings: the one way in, for every format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from farshore.config.connect import ConnectorConfig, read_connect, read_connectors
from farshore.config.dedicated import read_dedicated
from farshore.config.documents import Document, Format, read_document
from farshore.config.entries import Entries, Entry, Finding, Findings, FlowConfig, Origin, Severity, by_key
from farshore.config.jaas import JaasError, client_login, jaas_text
from farshore.config.loops import check_loops
from farshore.config.names import check_internal_names
from farshore.config.properties import read_properties
from farshore.config.settings import Settings
from farshore.config.settle import Settler
from farshore.config.strimzi import read_strimzi
from farshore.config.yamltext import read_yaml
from farshore.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of reading: settings, unless there were errors, and everything found on the way."""

    settings: Settings | None
    findings: tuple[Finding, ...]


def load(
    paths: Sequence[Path],
    *,
    only_targets: Sequence[str] = (),
    secrets_dir: Path | None = None,
    jaas: Path | None = None,
) -> Settings:
    """The settings of these files. Raises ConfigError with every error there is, all in one run."""
    reading = read(paths, only_targets=only_targets, secrets_dir=secrets_dir, jaas=jaas)
    if reading.settings is None:
        raise ConfigError([str(finding) for finding in reading.findings if finding.severity is Severity.ERROR])
    return reading.settings


def read(
    paths: Sequence[Path],
    *,
    only_targets: Sequence[str] = (),
    secrets_dir: Path | None = None,
    jaas: Path | None = None,
    offline: bool = False,
) -> Reading:
    """The same for those who also want to show what was found.

    `jaas` is the file that a JVM is given with java.security.auth.login.config. `offline` makes do without secrets and
    stores that are not there: they are warnings, and what hangs on them is left open, so the settings can be shown but
    not run.
    """
    findings = Findings(offline=offline)
    documents = [document for path in paths if (document := read_document(path, findings)) is not None]
    configs = _flow_configs(documents, only_targets, secrets_dir, findings)
    _refuse_repeated_flows(configs, findings)
    settler = Settler(findings, None if jaas is None else _login_of_the_jvm(jaas, findings))
    flows = tuple(flow for config in configs if (flow := settler.settle(config)) is not None)
    check_loops(flows, findings)
    check_internal_names(flows, findings)
    found = findings.of(*Severity)
    if findings.errors:
        return Reading(None, found)
    return Reading(Settings(flows, found), found)


def _login_of_the_jvm(path: Path, findings: Findings) -> Entry | None:
    """What the JAAS file says to clients, as the key that says the same."""
    origin = Origin(str(path))
    try:
        return Entry("sasl.jaas.config", jaas_text(client_login(path.read_text())), origin, secret=True)
    except FileNotFoundError as error:
        findings.absent(origin, f"cannot be read: {error.strerror}")
        return Entry("sasl.jaas.config", "", origin, secret=True, unresolved=True)
    except OSError as error:
        findings.error(origin, f"cannot be read: {error.strerror}")
    except UnicodeDecodeError:
        findings.error(origin, "is not UTF-8 text")
    except JaasError as error:
        findings.error(origin, str(error))
    return None


def _flow_configs(
    documents: Sequence[Document], only_targets: Sequence[str], secrets_dir: Path | None, findings: Findings
) -> list[FlowConfig]:
    flows: list[FlowConfig] = []
    connectors: list[ConnectorConfig] = []
    worker: dict[str, Entry] | None = None
    yaml = []
    for document in documents:
        match document.format:
            case Format.JSON:
                connectors += read_connectors(document, findings)
            case Format.YAML:
                yaml += read_yaml(document.data, document.file, findings)
            case Format.PROPERTIES:
                entries = read_properties(document.data, document.file, findings)
                named = by_key(entries)
                if "connector.class" in named:
                    connectors.append(ConnectorConfig(Origin(document.file), named))
                elif not _is_worker(named):
                    flows += read_dedicated(entries, file=document.file, only_targets=only_targets, findings=findings)
                elif worker is None:
                    worker = named
                else:
                    findings.error(Origin(document.file), "is a second worker; connectors run on one")
    flows += _into(only_targets, read_connect(connectors, worker, findings))
    flows += _into(only_targets, read_strimzi(yaml, secrets_dir, findings))
    if worker is not None and not connectors:
        findings.error(
            Origin(next(iter(worker.values())).origin.file),
            "is a Connect worker, which says nothing of what to replicate: name its connectors' JSON files too",
        )
    return flows


def _is_worker(entries: Entries) -> bool:
    return "clusters" not in entries and "bootstrap.servers" in entries


def _into(targets: Sequence[str], flows: Sequence[FlowConfig]) -> list[FlowConfig]:
    return [flow for flow in flows if not targets or flow.flow.target in targets]


def _refuse_repeated_flows(flows: Sequence[FlowConfig], findings: Findings) -> None:
    first: dict[object, FlowConfig] = {}
    for config in flows:
        if first.setdefault(config.flow, config) is not config:
            place = next((e.origin.file for e in config.worker.values() if e.origin.file != "default"), "")
            findings.error(Origin(place), f"{config.flow} stands in two files; one flow is configured once")
