"""The generated parts of docs/, and that what the documents show is true. `make docs` writes them anew."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from farshore.config import reference

ROOT = Path(__file__).parent.parent.parent
CONFIGURATION = ROOT / "docs" / "configuration.md"
MISTAKES = ("mistakes.properties", "loop.properties", "connector.json", "mirror.yaml")


def farshore(*arguments: str, cwd: Path) -> str:
    """What the program prints, on both streams."""
    answer = subprocess.run(
        [sys.executable, "-c", "from farshore.cli import main; main()", *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200"},
    )
    return f"{answer.stdout}(exit code {answer.returncode})"


def mistakes() -> str:
    folder = Path(__file__).parent / "bad"
    parts = []
    for name in MISTAKES:
        kind = Path(name).suffix.removeprefix(".")
        parts.append(f"`{name}`:\n\n```{kind}\n{(folder / name).read_text()}```\n")
        parts.append(f"```console\n$ farshore check {name}\n{farshore('check', name, cwd=folder)}\n```\n")
    return "\n".join(parts)


def with_generated(text: str, section: str, content: str) -> str:
    begin, end = f"<!-- generated: {section} -->", "<!-- end -->"
    head, _, rest = text.partition(begin)
    return f"{head}{begin}\n\n{content.rstrip()}\n\n{end}{rest.partition(end)[2]}"


def test_the_configuration_page_is_up_to_date() -> None:
    text = CONFIGURATION.read_text()
    wanted = with_generated(with_generated(text, "mistakes", mistakes()), "keys", reference.markdown())
    if os.environ.get("FARSHORE_WRITE_DOCS"):
        CONFIGURATION.write_text(wanted)
    assert CONFIGURATION.read_text() == wanted, "docs/configuration.md is out of date: run `make docs`"


def documents() -> list[Path]:
    return [path for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")) if path.name != "CHANGELOG.md"]


@pytest.mark.parametrize("document", documents(), ids=lambda path: path.name)
def test_links_and_files_named_in_a_document_exist(document: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text())
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", documents(), ids=lambda path: path.name)
def test_check_commands_shown_in_a_document_work(document: Path) -> None:
    """Commands that only read the examples are run as they stand."""
    for command in re.findall(r"^\$? ?(?:\.venv/bin/)?farshore (check examples/[^|\n]*)$", document.read_text(), re.M):
        arguments = [
            str(path.relative_to(ROOT)) for word in command.split()[1:] for path in sorted(ROOT.glob(word))
        ] or command.split()[1:]
        assert farshore("check", *arguments, cwd=ROOT).endswith("(exit code 0)"), command


def test_every_command_is_spoken_of_in_the_documents() -> None:
    commands = re.findall(r"^  (\w+)  ", farshore("--help", cwd=ROOT).partition("Commands:")[2], re.M)
    text = "".join(path.read_text() for path in documents())
    assert commands
    assert [name for name in commands if f"farshore {name}" not in text] == []
