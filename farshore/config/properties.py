"""Java `.properties` text to entries, each with its line.

The syntax is Java's own (`javaproperties` reads it): comments, continuations, escapes, `=`, `:` or white space between
key and text. As `Properties.load` does, bytes are read as ISO-8859-1; other characters are written `\\uXXXX`.
"""

from __future__ import annotations

import re

import javaproperties

from farshore.config.entries import Entry, Findings, Origin


def read_properties(data: bytes, file: str, findings: Findings) -> list[Entry]:
    """The entries of one file in the order they stand. What Java would refuse becomes an error finding."""
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
        findings.warning(Origin(file, 1), "begins with a byte-order mark, which Java takes for part of the first key")
    text = data.decode("iso-8859-1")
    entries: list[Entry] = []
    line = 1
    try:
        for element in javaproperties.parse(text):
            if isinstance(element, javaproperties.KeyValue):
                origin = Origin(file, line)
                _warn_of_misread_bytes(element.source, origin, findings)
                _tell_of_lost_backslash(element.source, origin, findings)
                _warn_of_comment(element.value, origin, findings)
                entries.append(Entry(element.key, element.value, origin))
            line += _lines_in(element.source)
    except javaproperties.InvalidUEscapeError as error:
        findings.error(
            Origin(file, _line_of(text, error.escape)),
            f"malformed \\u escape {error.escape!r}: it needs four hex digits",
        )
    _warn_of_repeated_keys(entries, findings)
    return entries


def _lines_in(source: str) -> int:
    return len(source.replace("\r\n", "\n").replace("\r", "\n").split("\n")) - 1


def _line_of(text: str, needle: str) -> int:
    return _lines_in(text[: text.find(needle)]) + 1


def _warn_of_misread_bytes(source: str, origin: Origin, findings: Findings) -> None:
    if source.isascii():
        return
    try:
        meant = source.encode("iso-8859-1").decode("utf-8")
    except UnicodeDecodeError:
        return
    strange = next(character for character in meant if not character.isascii())
    findings.warning(
        origin,
        f"looks like UTF-8, but Java reads properties files as ISO-8859-1 and so do we: write \\u{ord(strange):04x} "
        "for the character, and likewise for others",
    )


def _tell_of_lost_backslash(source: str, origin: Origin, findings: Findings) -> None:
    """`\\.` in a properties file is a plain dot, so a regular expression may select more than was meant."""
    lost = re.search(r"(?<!\\)(?:\\\\)*\\([^\\tnrfu:=#!\s])", source)
    if lost:
        findings.note(
            origin,
            f"the backslash before {lost[1]!r} vanishes, as it does in MirrorMaker 2: write two to keep one",
        )


def _warn_of_comment(text: str, origin: Origin, findings: Findings) -> None:
    """A sign inside quotes is part of a password, or of whatever else somebody took care to quote."""
    sign = re.search(r"(^|\s)#", text)
    if sign and text.count('"', 0, sign.start()) % 2 == 0:
        findings.warning(origin, "# and what follows is part of the value: a comment needs a line of its own")


def _warn_of_repeated_keys(entries: list[Entry], findings: Findings) -> None:
    first: dict[str, Entry] = {}
    for entry in entries:
        if (earlier := first.get(entry.key)) is not None:
            findings.warning(
                entry.origin, f"{entry.key} stands already in line {earlier.origin.line}; the last one counts"
            )
        first[entry.key] = entry
