"""Finding Java: each way to have none, or the wrong one, gets a sentence that says what was found and what
to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from farshore.errors import JavaMissing
from farshore.local.java import find_java


def install(home: Path, banner: str, exit_code: int = 0) -> Path:
    """Put a program that talks like `java -version` into `home`/bin and return it."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho '{banner}' >&2\nexit {exit_code}\n")
    executable.chmod(0o755)
    return executable


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))


@pytest.mark.usefixtures("no_java")
def test_without_any_java_the_sentence_says_what_to_install() -> None:
    with pytest.raises(
        JavaMissing, match=r"^no Java found, neither in JAVA_HOME nor on PATH: install a JDK 17 or newer"
    ):
        find_java()


@pytest.mark.usefixtures("no_java")
def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(JavaMissing, match=r"JAVA_HOME is .*nowhere, but there is no bin/java in it"):
        find_java()


@pytest.mark.parametrize(("banner", "version"), [('java version "1.8.0_402"', 8), ('openjdk version "11.0.2"', 11)])
def test_an_old_java_is_named_with_its_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, banner: str, version: int
) -> None:
    install(tmp_path, banner)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    said = rf"bin/java is Java {version}, Spark and Kafka's brokers need 17 or newer: install"
    with pytest.raises(JavaMissing, match=said):
        find_java()


def test_a_java_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(tmp_path, "The operation could not be completed. Unable to locate a Java Runtime.", exit_code=1)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match=r"is no usable Java, it says: .*Unable to locate a Java Runtime"):
        find_java()


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "25-ea"', 25),
    ],
)
def test_a_new_java_is_found_in_java_home_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, banner: str, version: int
) -> None:
    executable = install(tmp_path / "home", banner)
    other = install(tmp_path / "other", 'java version "1.8.0"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(other.parent), prepend=":")
    java = find_java()
    assert (java.executable, java.version) == (executable, version)


def test_without_java_home_the_path_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    executable = install(tmp_path, 'openjdk version "17.0.1"')
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(executable.parent), prepend=":")
    assert find_java().executable == executable


def test_a_java_without_keytool_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(tmp_path, 'openjdk version "17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert shutil.which("keytool", path=str(tmp_path / "bin")) is None
    java = find_java()
    with pytest.raises(JavaMissing, match="comes without keytool"):
        _ = java.keytool
