"""Strimzi's KafkaMirrorMaker2 resources to flow configurations, as the operator would deploy them.

The operator runs one Connect cluster at the target and deploys the connectors of all mirrors to it, named
`A->B.MirrorSourceConnector` and so on. Two shapes are read: `spec.clusters` with `spec.connectCluster`, and
`spec.target` with `mirrors[].source`, the only one in v1. Where versions of the operator differ, the newest
that reads the shape is followed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from farshore.config import strimzi_fields as fields
from farshore.config.entries import Deployment, Findings, FlowConfig, Origin
from farshore.config.providers import Providers
from farshore.config.strimzi_clusters import Clusters
from farshore.config.strimzi_connectors import connector_entries, is_paused, mirrored_by
from farshore.config.strimzi_fields import Section
from farshore.config.strimzi_secrets import Secrets, marked
from farshore.config.strimzi_worker import kubernetes_providers, with_plain_providers
from farshore.config.yamltext import YamlMap, YamlNode
from farshore.model import Flow

KIND = "KafkaMirrorMaker2"
GROUPS = ("kafka.strimzi.io", "eventstreams.ibm.com")
"""Strimzi's own, and that of IBM Event Streams, which is Strimzi under another name."""
VERSIONS = ("v1", "v1beta2", "v1beta1", "v1alpha1")


def read_strimzi(documents: Sequence[YamlNode], secrets_dir: Path | None, findings: Findings) -> list[FlowConfig]:
    """The flows of all KafkaMirrorMaker2 resources among the documents.

    Secrets come from `secrets_dir/<secret>/<key>` or from `kind: Secret` documents. Other kinds get a note.
    """
    resources: list[Section] = []
    secrets: list[Section] = []
    for resource in _unwrapped(documents, findings):
        kind = resource.text("kind")
        if kind is not None and kind.text == KIND:
            resources.append(resource)
        elif kind is not None and kind.text == "Secret":
            secrets.append(resource)
        else:
            what = f"of kind {kind.text}" if kind is not None else "without a kind"
            findings.note(resource.origin, f"a resource {what} is passed over")
    if documents and not resources and not findings.errors:
        findings.error(documents[0].origin, f"there is no resource of kind {KIND}")
    lookup = Secrets(secrets_dir, secrets, findings)
    first: dict[Flow, Origin] = {}
    flows: list[FlowConfig] = []
    for resource in resources:
        for origin, flow in _flows(resource, lookup):
            if (earlier := first.setdefault(flow.flow, origin)) is origin:
                flows.append(flow)
            else:
                findings.error(origin, f"{flow.flow} is mirrored already, see {earlier}")
    return flows


def _unwrapped(documents: Sequence[YamlNode], findings: Findings) -> Iterator[Section]:
    """The resources, also those in a `kind: List`, which is what kubectl gives for several."""
    for document in documents:
        if not isinstance(document, YamlMap):
            findings.error(document.origin, "this is not a Kubernetes resource")
            continue
        section = Section(document, "", findings)
        kind = section.text("kind")
        if kind is not None and kind.text.endswith("List"):
            yield from (Section(item.node, "", findings) for item in section.sections("items"))
        else:
            yield section


def _flows(resource: Section, secrets: Secrets) -> Iterator[tuple[Origin, FlowConfig]]:
    """The flows of one resource, each with the line of its mirror."""
    version = _version(resource)
    if version is None:
        return
    resource = Section(resource.node, "", resource.findings, v1=version == "v1")
    resource.expect(fields.RESOURCE)
    spec = resource.section("spec")
    if spec is None:
        resource.error("spec", "is missing")
        return
    spec.expect((*fields.MIRRORED, *fields.DEPLOYED), fields.MIRRORED_BEFORE_V1)
    spec.note_unused(fields.DEPLOYED, ": set what is needed of it where you deploy Farshore")
    if (replicas := spec.text("replicas")) is not None and replicas.text == "0":
        spec.warning("replicas", "is 0, with which Strimzi runs nothing; Farshore runs wherever it is started")
    metadata = resource.section("metadata")
    namespace = metadata.text("namespace") if metadata is not None else None
    secrets = secrets.within(namespace.text if namespace is not None else None)

    clusters = Clusters(spec, secrets)
    mirrors = spec.sections("mirrors")
    if not mirrors:
        spec.error("mirrors", "is missing: it lists what to mirror")
    for mirror in mirrors:
        flow = _flow(mirror, clusters, secrets)
        if flow is not None:
            yield mirror.origin, flow


def _version(resource: Section) -> str | None:
    text = resource.text("apiVersion")
    group, _, version = (text.text if text is not None else "").partition("/")
    if group in GROUPS and version in VERSIONS:
        return version
    found = f", not {text.text}" if text is not None else ""
    resource.error(
        "apiVersion",
        f"of a {KIND} must be {' or '.join(GROUPS)} with one of the versions {', '.join(VERSIONS)}{found}",
    )
    return None


def _flow(mirror: Section, clusters: Clusters, secrets: Secrets) -> FlowConfig | None:
    mirror.expect(fields.MIRROR, fields.MIRROR_BEFORE_V1)
    source, target = clusters.source_of(mirror), clusters.target_of(mirror)
    deployed = mirrored_by(mirror)
    paused = frozenset(connector for connector, section in deployed.items() if is_paused(section))
    if source is None or target is None or not deployed:
        return None
    if source.alias == target.alias:
        mirror.findings.error(mirror.origin, f"{source.alias} is the source and the target of this mirror")
        return None
    flow = Flow(source.alias, target.alias)
    connectors = {
        connector: connector_entries(flow, connector, section, mirror, source, target)
        for connector, section in deployed.items()
    }
    kubernetes = kubernetes_providers(clusters.worker)
    worker = with_plain_providers(clusters.worker, connectors.values())
    others = Providers(worker, mirror.findings)
    resolved = {each: marked(secrets.resolve(entries, kubernetes, others)) for each, entries in connectors.items()}
    worker = marked(secrets.resolve(worker, kubernetes, others))
    return FlowConfig(flow, worker, resolved, paused, Deployment.STRIMZI)
