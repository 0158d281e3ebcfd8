"""Our table of error codes against Kafka's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from farshore.kafka.admin.words import CODES_OF_ADMINS
from farshore.kafka.raw_errors import DIFFERENT_FROM_JAVA, ERRORS
from farshore.local.javatools import run_java

PROBE = """
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.protocol.Errors;

public class ErrorsProbe {
    public static void main(String[] arguments) {
        for (Errors error : Errors.values()) {
            boolean retriable = error.exception() instanceof RetriableException;
            boolean refresh = error.exception() instanceof RefreshRetriableException;
            System.out.println(error.code() + " " + error.name() + " " + retriable + " " + refresh);
        }
    }
}
"""


@pytest.mark.usefixtures("jars")
def test_names_and_advice_are_those_of_java_but_where_we_say_why_not(tmp_path: Path) -> None:
    (tmp_path / "ErrorsProbe.java").write_text(PROBE)
    done = run_java(tmp_path / "ErrorsProbe.java")
    assert done.returncode == 0, done.stderr
    java = {int(code): (name, *advice) for code, name, *advice in map(str.split, done.stdout.splitlines())}
    ours = {info.code: (info.name, str(info.retriable).lower(), str(info.refresh).lower()) for info in ERRORS.values()}
    assert {code: answer[0] for code, answer in ours.items()} == {code: java[code][0] for code in ours}
    of_admins = {code: (name, str(retriable).lower()) for code, (name, retriable) in CODES_OF_ADMINS.items()}
    assert of_admins == {code: java[code][:2] for code in of_admins}
    assert {code for code in ours if ours[code] != java[code]} == set(DIFFERENT_FROM_JAVA)
