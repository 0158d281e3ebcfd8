from pathlib import Path

import pytest
from strimzi import PLAIN, Result, secret, texts, with_source

from farshore.config.entries import Connector

PASSWORD = """
    authentication:
      type: plain
      username: me
      passwordSecret:
        secretName: pass
        password: word
"""


def login(result: Result) -> str:
    return result.flow.connectors[Connector.SOURCE]["source.cluster.sasl.jaas.config"].text


def test_a_missing_secret_is_named_with_both_ways_to_give_it(tmp_path: Path) -> None:
    error = (
        "mm2.yaml:14: error: secret pass with the key word is needed here: put pass/word into the secrets "
        "directory, or give the Secret itself as a YAML document (kubectl get secret -o yaml)"
    )
    assert Result(with_source(PASSWORD)).errors == [error]
    assert Result(with_source(PASSWORD), secret("other", word="x")).errors == [error]
    assert Result(with_source(PASSWORD), secret("pass", other="x"), secrets_dir=tmp_path).errors == [error]


def test_no_key_for_a_pattern_is_one_error() -> None:
    tls = "tls: {trustedCertificates: [{secretName: ca, pattern: '*.crt'}]}"
    assert Result(with_source(tls), secret("ca", password="x")).errors == [
        "mm2.yaml:11: error: secret ca with keys like *.crt is needed here: put ca/… into the secrets directory, or "
        "give the Secret itself as a YAML document (kubectl get secret -o yaml)"
    ]


def test_the_directory_goes_before_documents(tmp_path: Path) -> None:
    (tmp_path / "pass").mkdir()
    (tmp_path / "pass" / "word").write_text("from the directory\n")
    result = Result(with_source(PASSWORD), secret("pass", word="from a document"), secrets_dir=tmp_path)
    assert 'password="from the directory"' in login(result)


def test_plain_data_goes_before_encoded_as_in_kubernetes() -> None:
    document = secret("pass", word="plain") + "data: {word: ZW5jb2RlZA==}\n"
    assert 'password="plain"' in login(Result(with_source(PASSWORD), document))


def test_the_namespace_decides_between_secrets_of_one_name() -> None:
    def within(namespace: str) -> str:
        return secret("pass", word=namespace).replace("name: pass", f"name: pass\n  namespace: {namespace}")

    assert 'password="kafka"' in login(Result(with_source(PASSWORD), within("other"), within("kafka")))
    assert 'password="other"' in login(Result(with_source(PASSWORD), within("other")))
    assert len(Result(with_source(PASSWORD), within("other"), within("third")).errors) == 1


@pytest.mark.parametrize(
    ("encoded", "error"),
    [
        ("not base64!", "is not base64: plain text goes under stringData"),
        ("abc", "is not base64: plain text goes under stringData"),
        ("/////w==", "does not hold text"),
    ],
)
def test_what_a_secret_holds_must_be_text_in_base64(encoded: str, error: str) -> None:
    document = f"kind: Secret\nmetadata: {{name: pass}}\ndata:\n  other: x\n  word: {encoded}\n"
    assert Result(with_source(PASSWORD), document).errors == [f"1.yaml:5: error: the key word of secret pass {error}"]


def test_a_file_that_is_not_text_is_an_error_without_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "pass").mkdir()
    (tmp_path / "pass" / "word").write_bytes(b"\xff\xfe")
    assert Result(with_source(PASSWORD), secrets_dir=tmp_path).errors == [
        f"mm2.yaml:14: error: {tmp_path}/pass/word is not text"
    ]


def test_a_directory_in_place_of_a_key_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "pass" / "word").mkdir(parents=True)
    assert Result(with_source(PASSWORD), secrets_dir=tmp_path).errors == [
        f"mm2.yaml:14: error: {tmp_path}/pass/word cannot be read: Is a directory"
    ]


@pytest.mark.parametrize(
    ("name", "key", "error"),
    [
        ("../pass", "word", "'../pass' cannot be the name of a secret"),
        ("pass      --------  1", "word", "'pass      --------  1' cannot be the name of a secret"),
        ("pass", "..", "'..' cannot be the name of a key of a secret"),
        ("pass", "a/b", "'a/b' cannot be the name of a key of a secret"),
    ],
)
def test_names_do_not_lead_out_of_the_directory(tmp_path: Path, name: str, key: str, error: str) -> None:
    text = with_source(PASSWORD.replace("pass\n", f"{name}\n").replace("word\n", f"{key}\n"))
    assert Result(text, secrets_dir=tmp_path).errors == [f"mm2.yaml:14: error: {error}"]


def test_references_to_kubernetes_secrets_are_resolved_in_any_config() -> None:
    config = """
    config:
      sasl.jaas.config: login user="${secrets:kafka/pass:user}" password="${strimzisecrets:pass:word}";
      other: ${env:HOME} ${secrets:pass}
"""
    text = with_source(config).replace("{}", "{config: {x: '${secrets:other/pass:word}!'}}")
    result = Result(text, secret("pass", user="me", word="12\n34"))
    source = result.flow.connectors[Connector.SOURCE]
    assert source["source.cluster.sasl.jaas.config"].text == 'login user="me" password="12\n34";'
    assert source["source.cluster.sasl.jaas.config"].secret
    assert source["source.cluster.other"].text == "${env:HOME} ${secrets:pass}"
    assert not source["source.cluster.other"].secret
    assert source["x"].text == "12\n34!"


def test_a_reference_that_leads_nowhere_is_an_error_and_marks_its_entry() -> None:
    result = Result(PLAIN.replace("{}", "{config: {x: '${secrets:kafka/pass:word}', y: z}}"))
    assert [error.split(" is needed")[0] for error in result.errors] == [
        "mm2.yaml:16: error: secret pass with the key word"
    ]
    source = result.flows[0].connectors[Connector.SOURCE]
    assert [source[name].unresolved for name in ("x", "y")] == [True, False]


DECLARED = """
      config:
        config.providers: files,k8s
        config.providers.k8s.class: io.strimzi.kafka.KubernetesSecretConfigProvider
        config.providers.k8s.param.x: "1"
        config.providers.files.class: org.apache.kafka.common.config.provider.FileConfigProvider
"""
FILE_PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"


def test_a_declared_provider_for_kubernetes_is_used_up_and_others_stay() -> None:
    text = PLAIN.replace("b:9092\n", f"b:9092{DECLARED}")
    text = text.replace("{}", "{config: {x: '${k8s:kafka/pass:word}', y: '${files:/a:b}'}}")
    result = Result(text, secret("pass", word="1234"))
    source = result.flow.connectors[Connector.SOURCE]
    assert (source["x"].text, source["y"].text) == ("1234", "${files:/a:b}")
    assert texts(result.flow.worker, "config.providers") == {
        "": "files",
        ".files.class": FILE_PROVIDER,
    }


def test_a_text_that_refers_to_secrets_is_resolved_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("user = me\n")
    user = f"${{files:{tmp_path}/f:user}}"
    text = PLAIN.replace("b:9092\n", f"b:9092{DECLARED}")
    text = text.replace("{}", f"{{config: {{x: 'a {user} ${{k8s:pass:word}} {user}'}}}}")
    x = Result(text, secret("pass", word="${k8s:x:y}")).flow.connectors[Connector.SOURCE]["x"]
    assert x.text == "a me ${k8s:x:y} me"
    assert x.secret


def test_a_provider_of_the_users_may_be_called_secrets() -> None:
    declared = DECLARED.replace("files", "secrets")
    text = PLAIN.replace("b:9092\n", f"b:9092{declared}")
    text = text.replace("{}", "{config: {x: '${secrets:a/b:c}'}}")
    assert Result(text).flow.connectors[Connector.SOURCE]["x"].text == "${secrets:a/b:c}"


def test_strimzis_own_providers_are_declared_where_they_are_referred_to() -> None:
    text = PLAIN.replace("{}", "{config: {x: '${strimzidir:/opt/kafka/a:b}', y: '${strimzienv:HOME}'}}")
    provider = "org.apache.kafka.common.config.provider."
    assert texts(Result(text).flow.worker, "config.providers") == {
        "": "strimzienv,strimzidir",
        ".strimzienv.class": f"{provider}EnvVarConfigProvider",
        ".strimzidir.class": f"{provider}DirectoryConfigProvider",
        ".strimzidir.param.allowed.paths": "/opt/kafka",
    }
