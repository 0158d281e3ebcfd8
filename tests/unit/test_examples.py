"""The configurations in examples/, which are those that MirrorMaker 2's users have written about."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from configs import flow_of, said

from farshore.config import Reading, read
from farshore.config.describe import describe
from farshore.config.entries import Severity
from farshore.errors import JavaMissing
from farshore.local.certificates import Authority
from farshore.local.java import find_java

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def settings_of(reading: Reading, flow: str) -> dict[str, object]:
    assert reading.settings is not None, said(reading)
    return next(each for each in describe(reading.settings)["flows"] if each["flow"] == flow)


def internal_names(flow: dict[str, object]) -> set[tuple[str, str]]:
    return {(topic["cluster"], topic["name"]) for topic in flow["internal_topics"]}  # type: ignore[attr-defined]


@pytest.mark.parametrize(("file", "other"), [("active-active", "ClusterB"), ("recovery", "ClusterC")])
def test_two_clusters_are_mirrored_into_each_other(file: str, other: str) -> None:
    reading = read([EXAMPLES / f"{file}.properties"])
    there, back = settings_of(reading, f"ClusterA->{other}"), settings_of(reading, f"{other}->ClusterA")
    assert there["remote_topics"] == {"policy": "default", "example": "ClusterA.TOPIC"}
    assert back["remote_topics"] == {"policy": "default", "example": f"{other}.TOPIC"}
    assert there["slots_at_most"] == back["slots_at_most"] == 30
    # The properties syntax takes the single backslashes away, in MirrorMaker 2 as here.
    assert there["topics"] == {"include": [".*"], "exclude": [".*[-.]internal", ".*.replica", "__consumer_offsets"]}
    assert there["groups"] == {"include": [".*"], "exclude": ["console-consumer-.*", "connect-.*", "__.*"]}
    assert internal_names(there) == {
        (other, "heartbeats"),
        (other, "ClusterA.checkpoints.internal"),
        ("ClusterA", f"mm2-offset-syncs.{other}.internal"),
        (other, "mm2-offsets.ClusterA.internal"),
        (other, "mm2-farshore.ClusterA.internal"),
        (other, "mm2-farshore-ledger.ClusterA.internal"),
    }
    source = flow_of(reading, f"ClusterA->{other}").source
    assert source is not None
    assert source.replication_factor == 3
    assert source.topics.selects("NginxServerLogs")
    assert source.topics.selects("ClusterB.TomcatServerLogs")
    assert not source.topics.selects("__consumer_offsets")


def test_six_connectors_on_one_worker_make_two_flows() -> None:
    reading = read(sorted((EXAMPLES / "connect").iterdir()))
    for source in ("source-0", "source-1"):
        flow = settings_of(reading, f"{source}->target-0")
        assert flow["topics"] == {"include": ["test"], "exclude": [r"mm2.*\.internal", r".*\.replica", "__.*"]}
        assert flow["remote_topics"] == {"policy": "identity", "example": "TOPIC"}
        assert flow["worker_group"] == "connect-cluster"
        assert ("target-0", "connect-offsets") in internal_names(flow)
        assert [c["name"] for c in flow["connectors"]] == [  # type: ignore[attr-defined]
            f"mm2-msc-{source}",
            f"mm2-cpc-{source}",
            f"mm2-hbc-{source}",
        ]
    warnings = [finding for finding in said(reading) if ": warning: " in finding]
    assert len(warnings) == 2
    assert all("replication.policy.class" in warning for warning in warnings)


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """The secrets that the Strimzi example names, as mounted in a pod."""
    root = tmp_path / "secrets"
    authority = Authority(tmp_path / "authority")
    trust = authority.trust_store("pem").location
    for cluster in ("source", "dest"):
        _copy(trust, root / f"{cluster}-cluster-cluster-ca-cert" / "ca.crt")
        pem = authority.key_store(f"{cluster}-user", "pem").location.read_text()
        key, certificate = _split(pem)
        (root / f"{cluster}-user").mkdir(parents=True)
        (root / f"{cluster}-user" / "user.key").write_text(key)
        (root / f"{cluster}-user" / "user.crt").write_text(certificate)
    return root


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True)
    shutil.copyfile(source, target)


def _split(pem: str) -> tuple[str, str]:
    blocks = pem.split("-----BEGIN ")[1:]
    keys = [block for block in blocks if "PRIVATE KEY" in block.partition("\n")[0]]
    certificates = [block for block in blocks if block.startswith("CERTIFICATE")]
    return f"-----BEGIN {keys[0]}", "".join(f"-----BEGIN {block}" for block in certificates)


def test_a_strimzi_resource_with_its_secrets_becomes_one_flow(secrets: Path) -> None:
    reading = read([EXAMPLES / "strimzi" / "mirrormaker2.yaml"], secrets_dir=secrets)
    flow = settings_of(reading, "source->dest")
    assert flow["worker_group"] == "mirrormaker2-cluster"
    assert ("dest", "mirrormaker2-cluster-offsets") in internal_names(flow)
    assert flow["slots_at_most"] == 12
    assert flow["group_offsets_synced"] is True
    assert flow["remote_topics"] == {"policy": "identity", "example": "TOPIC"}
    assert [c["name"] for c in flow["connectors"]] == [  # type: ignore[attr-defined]
        "source->dest.MirrorSourceConnector",
        "source->dest.MirrorCheckpointConnector",
        "source->dest.MirrorHeartbeatConnector",
    ]
    side = flow_of(reading, "source->dest").side("source")
    tls = side.consumer.connection.security.tls
    assert tls is not None
    assert tls.certificate_pem is not None
    assert "PRIVATE KEY" not in repr(reading)


@pytest.fixture
def jks_trust_store(tmp_path: Path) -> tuple[str, str]:
    try:
        find_java()
    except JavaMissing as missing:
        pytest.skip(f"a JKS store is made with Java's keytool: {missing}")
    store = Authority(tmp_path / "authority", password="password").trust_store("jks")
    return str(store.location), "password"


def test_a_managed_cluster_over_sasl_is_read() -> None:
    reading = read([EXAMPLES / "cloud-to-local.properties"])
    flow = flow_of(reading, "source->target")
    assert flow.source is not None
    security = flow.source.source.consumer.connection.security
    assert (security.protocol, security.sasl and security.sasl.mechanism) == ("SASL_SSL", "PLAIN")
    assert flow.source.topics.include == ("orders",)
    assert [f for f in reading.findings if f.severity is not Severity.NOTE] == []
    assert "985..." not in repr(reading)


def test_a_route_with_a_jks_trust_store_is_read(tmp_path: Path, jks_trust_store: tuple[str, str]) -> None:
    location, password = jks_trust_store
    file = tmp_path / "strimzi-mm2.properties"
    file.write_text(
        "clusters=source, target\nsource.bootstrap.servers=route.example.com:443\nsource.security.protocol=SSL\n"
        f"source.ssl.truststore.password={password}\nsource.ssl.truststore.location={location}\n"
        "target.bootstrap.servers=kafka1:9092,kafka2:9093,kafka3:9094\n"
        "source->target.enabled=true\nsource->target.topics=orders\n"
    )
    flow = flow_of(read([file]), "source->target")
    assert flow.source is not None
    tls = flow.source.source.consumer.connection.security.tls
    assert tls is not None
    assert tls.trusted_pem is not None
    assert "BEGIN CERTIFICATE" in tls.trusted_pem
