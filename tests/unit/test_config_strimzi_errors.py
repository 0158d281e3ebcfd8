"""What cannot be read: one error each, with the line that has to be changed."""

import pytest
from strimzi import PLAIN, V1, Result, secret, with_source

LINES = PLAIN.splitlines()


def without(line: int) -> str:
    return "\n".join([*LINES[: line - 1], *LINES[line:]]) + "\n"


VERSIONS = "kafka.strimzi.io or eventstreams.ibm.com with one of the versions v1, v1beta2, v1beta1, v1alpha1"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(
            PLAIN.replace("v1beta2", "v2"),
            f"1: error: apiVersion of a KafkaMirrorMaker2 must be {VERSIONS}, not kafka.strimzi.io/v2",
            id="wrong apiVersion",
        ),
        pytest.param(
            without(1),
            f"1: error: apiVersion of a KafkaMirrorMaker2 must be {VERSIONS}",
            id="no apiVersion",
        ),
        pytest.param(
            PLAIN[: PLAIN.index("spec:")],
            "1: error: spec is missing",
            id="no spec",
        ),
        pytest.param(
            PLAIN[: PLAIN.index("  mirrors:")],
            "6: error: spec.mirrors is missing: it lists what to mirror",
            id="no mirrors",
        ),
        pytest.param(
            without(7),
            "6: error: spec.connectCluster is missing",
            id="no connectCluster",
        ),
        pytest.param(
            PLAIN.replace("connectCluster: b", "connectCluster: x"),
            "7: error: spec.connectCluster is x, and no cluster in spec.clusters has this alias",
            id="unknown connectCluster",
        ),
        pytest.param(
            PLAIN[: PLAIN.index("  clusters:")] + PLAIN[PLAIN.index("  mirrors:") :],
            "6: error: spec.clusters is missing: it lists the clusters and how to reach them",
            id="no clusters",
        ),
        pytest.param(
            without(10),
            "9: error: spec.clusters[0].bootstrapServers is missing",
            id="no bootstrapServers",
        ),
        pytest.param(
            PLAIN.replace("bootstrapServers: b:9092", "bootstrapServers: #here#"),
            "11: error: spec.clusters[1].bootstrapServers is missing",
            id="bootstrapServers that is a comment",
        ),
        pytest.param(
            PLAIN.replace("  mirrors:\n", "    - {alias: a, bootstrapServers: x}\n  mirrors:\n"),
            "13: error: spec.clusters[2].alias a is that of an earlier cluster already",
            id="alias twice",
        ),
        pytest.param(
            PLAIN.replace(": b\n", ": b->\n"),
            "11: error: spec.clusters[1].alias 'b->' must be letters, digits, dots, dashes, underscores, at most 100",
            id="alias of other characters",
        ),
        pytest.param(
            PLAIN.replace("sourceCluster: a", "sourceCluster: x"),
            "14: error: spec.mirrors[0].sourceCluster is x, and no cluster in spec.clusters has this alias",
            id="unknown source",
        ),
        pytest.param(
            PLAIN.replace("targetCluster: b", "targetCluster: x"),
            "15: error: spec.mirrors[0].targetCluster is x, and no cluster in spec.clusters has this alias",
            id="unknown target",
        ),
        pytest.param(
            PLAIN.replace("connectCluster: b", "connectCluster: a"),
            "15: error: spec.mirrors[0].targetCluster is b, but Connect runs on a: the target of every mirror must "
            "be the connectCluster. Flows into another cluster need a resource of their own",
            id="target is not the connectCluster",
        ),
        pytest.param(
            PLAIN.replace("sourceCluster: a", "sourceCluster: b"),
            "14: error: b is the source and the target of this mirror",
            id="mirror into itself",
        ),
        pytest.param(
            without(16),
            "14: error: spec.mirrors[0].sourceConnector is missing, and the mirror has no other connector either",
            id="no connector",
        ),
        pytest.param(
            PLAIN + "    - {sourceCluster: a, targetCluster: b, checkpointConnector: {}, sourceConnector: {}}\n",
            "17: error: a->b is mirrored already, see mm2.yaml:14",
            id="flow twice",
        ),
        pytest.param(
            PLAIN.replace("{}", "{state: resting}"),
            "16: error: spec.mirrors[0].sourceConnector.state must be one of running, paused, stopped, not resting",
            id="unknown state",
        ),
        pytest.param(
            PLAIN.replace("{}", "{config: {topics: [a, b]}}"),
            "16: error: spec.mirrors[0].sourceConnector.config.topics must be a single value",
            id="list in config",
        ),
        pytest.param(
            PLAIN.replace("sourceConnector: {}", "sourceConnector: yes"),
            "16: error: spec.mirrors[0].sourceConnector must be a mapping",
            id="text for a connector",
        ),
        pytest.param(
            V1.read_text().replace("    groupId: my-mirror-maker-2-group\n", ""),
            "8: error: spec.target.groupId is missing",
            id="v1 without groupId",
        ),
        pytest.param(
            with_source("authentication: {type: kerberos}"),
            "11: error: spec.clusters[0].authentication.type must be one of tls, plain, scram-sha-256, "
            "scram-sha-512, custom, oauth, not kerberos",
            id="unknown authentication",
        ),
        pytest.param(
            V1.read_text().replace(
                "    alias: cluster-b\n", "    alias: cluster-b\n    authentication: {type: oauth}\n"
            ),
            "10: error: spec.target.authentication.type must be one of tls, plain, scram-sha-256, "
            "scram-sha-512, custom, not oauth",
            id="oauth in v1",
        ),
        pytest.param(
            with_source("authentication: {}"),
            "11: error: spec.clusters[0].authentication.type is missing",
            id="authentication without type",
        ),
        pytest.param(
            with_source("authentication: {type: plain, passwordSecret: {secretName: s, password: p}}")
            + "---\n"
            + secret("s", p="x"),
            "11: error: spec.clusters[0].authentication.username is missing",
            id="no user name",
        ),
        pytest.param(
            with_source("authentication: {type: plain, username: u}"),
            "11: error: spec.clusters[0].authentication.passwordSecret is missing",
            id="no password",
        ),
        pytest.param(
            with_source("authentication: {type: tls}\ntls: {}"),
            "11: error: spec.clusters[0].authentication.certificateAndKey is missing",
            id="no client certificate",
        ),
        pytest.param(
            with_source("tls: {trustedCertificates: [{secretName: s}]}"),
            "11: error: spec.clusters[0].tls.trustedCertificates[0].certificate is missing: it names the key in "
            "the secret (or `pattern`, for several)",
            id="trusted certificate without a key",
        ),
        pytest.param(
            "- a\n- b\n",
            "1: error: this is not a Kubernetes resource",
            id="no mapping",
        ),
    ],
)
def test_a_mistake_is_one_error_with_its_line(text: str, error: str) -> None:
    assert Result(text).errors == [f"mm2.yaml:{error}"]


def test_all_mistakes_of_a_resource_are_reported_in_one_run() -> None:
    text = PLAIN.replace("{}", "{state: x}").replace("      bootstrapServers: a:9092\n", "")
    assert [error.split(":")[1] for error in Result(text).errors] == ["9", "15"]


def test_v1_does_without_clusters() -> None:
    result = Result(PLAIN.replace("v1beta2", "v1"))
    assert result.errors == [
        "mm2.yaml:6: error: spec.target is missing: it says where to mirror to",
        "mm2.yaml:14: error: spec.mirrors[0].source is missing: it says where to mirror from",
    ]
    assert [warning.split(": ")[2].split()[0] for warning in result.warnings] == [
        "spec.connectCluster",
        "spec.clusters",
        "spec.mirrors[0].sourceCluster",
        "spec.mirrors[0].targetCluster",
    ]


def test_files_without_a_mirror_maker_are_an_error() -> None:
    assert Result("kind: Kafka\n").errors == [
        "mm2.yaml:1: error: there is no resource of kind KafkaMirrorMaker2",
    ]
    assert Result().errors == []
