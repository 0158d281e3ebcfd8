"""Kubernetes Secrets without Kubernetes: from a directory as in a pod, or from `kind: Secret` documents."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from farshore.config.entries import Entries, Entry, Findings, Origin
from farshore.config.providers import Providers
from farshore.config.strimzi_fields import Section
from farshore.config.yamltext import YamlText

_LEGAL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")
_LEGAL_KEY = re.compile(r"(?!\.\.)[A-Za-z0-9._-]+")
"""As Kubernetes has it; so neither leads out of the secrets directory, nor into the `..data` of a mount."""

_REFERENCE = re.compile(r"\$\{([^}:]+):(?:([^}:/]+)/)?([^}:/]+):([^}:]+)\}")
"""`${provider:namespace/secret:key}`, the namespace optional."""


ABSENT = "\0absent\0"
"""In place of a secret that is not at hand, where that is to be expected."""


class _Unusable(Exception):
    """A secret that is there, but not as text. The message never quotes it."""

    def __init__(self, origin: Origin, message: str) -> None:
        super().__init__(message)
        self.origin = origin


@dataclass(frozen=True, slots=True)
class Secrets:
    """Looks up secrets for one namespace. The directory goes before the documents.

    A document of another namespace serves too unless several have the name: whoever gives a Secret means it.
    """

    directory: Path | None
    documents: Sequence[Section]
    findings: Findings
    namespace: str | None = None

    def within(self, namespace: str | None) -> Secrets:
        return replace(self, namespace=namespace or self.namespace)

    def value(self, name: str, key: str, referenced: Origin) -> str | None:
        """The text of a key, or None after an error that says where it is referenced and how to supply it."""
        if not self._legal(name, key, referenced):
            return None
        try:
            text = self._from_directory(name, key, referenced)
            text = self._from_document(name, key) if text is None else text
        except _Unusable as error:
            self.findings.error(error.origin, str(error))
            return None
        if text is not None:
            return text
        self._missing(f"{name} with the key {key}", f"{name}/{key}", referenced)
        return ABSENT if self.findings.offline else None

    def matching(self, name: str, pattern: str, referenced: Origin) -> list[str]:
        """The texts of all keys that match a glob pattern, in the order of the keys. No text: an error."""
        globs = _alternatives(pattern)
        keys = [key for key in self._keys(name) if any(fnmatchcase(key, glob) for glob in globs)]
        texts = [self.value(name, key, referenced) for key in keys]
        if not keys and self._legal(name, "any", referenced):
            self._missing(f"{name} with keys like {pattern}", f"{name}/…", referenced)
            texts = [ABSENT] if self.findings.offline else []
        return [text for text in texts if text is not None]

    def resolve(self, entries: Entries, names: Collection[str], others: Providers) -> dict[str, Entry]:
        """The entries, with `${name:namespace/secret:key}` replaced where the provider has one of these names.

        An entry that cannot be resolved is marked, with an error. Texts without such a reference stay as
        they are; in those with one, what refers to `others` is replaced as well. So an entry that comes out
        as secret has nothing left to resolve, and nobody need look through a password again.
        """
        return {name: self._resolved(entry, names, others) for name, entry in entries.items()}

    def _resolved(self, entry: Entry, names: Collection[str], others: Providers) -> Entry:
        references = [] if entry.secret else [m for m in _REFERENCE.finditer(entry.text) if m[1] in names]
        if not references:
            return entry
        parts: list[str | None] = []
        begin = 0
        for reference in references:
            _, namespace, name, key = reference.groups()
            parts.append(_by_others(entry, entry.text[begin : reference.start()], others))
            parts.append(self.within(namespace).value(name, key, entry.origin))
            begin = reference.end()
        parts.append(_by_others(entry, entry.text[begin:], others))
        texts = [part for part in parts if part is not None]
        if len(texts) < len(parts):
            return replace(entry, unresolved=True)
        return replace(entry, text="".join(texts), secret=True)

    def _missing(self, what: str, file: str, referenced: Origin) -> None:
        self.findings.absent(
            referenced,
            f"secret {what} is needed here: put {file} into the secrets directory, or give the Secret itself "
            "as a YAML document (kubectl get secret -o yaml)",
        )

    def _legal(self, name: str, key: str, referenced: Origin) -> bool:
        for what, word, legal in (("a secret", name, _LEGAL_NAME), ("a key of a secret", key, _LEGAL_KEY)):
            if not legal.fullmatch(word):
                self.findings.error(referenced, f"{word!r} cannot be the name of {what}")
                return False
        return True

    def _from_directory(self, name: str, key: str, referenced: Origin) -> str | None:
        if self.directory is None:
            return None
        path = self.directory / name / key
        try:
            return path.read_bytes().decode()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _Unusable(referenced, f"{path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise _Unusable(referenced, f"{path} is not text") from None

    def _from_document(self, name: str, key: str) -> str | None:
        document = self._document(name)
        if document is None:
            return None
        if (plain := _field(document, "stringData", key)) is not None:
            return plain.text
        if (encoded := _field(document, "data", key)) is None:
            return None
        try:
            return base64.b64decode("".join(encoded.text.split()), validate=True).decode()
        except UnicodeDecodeError:
            raise _Unusable(encoded.origin, f"the key {key} of secret {name} does not hold text") from None
        except binascii.Error:
            message = f"the key {key} of secret {name} is not base64: plain text goes under stringData"
            raise _Unusable(encoded.origin, message) from None

    def _document(self, name: str) -> Section | None:
        named = [document for document in self.documents if _metadata(document, "name") == name]
        for namespace in (self.namespace, None):
            for document in named:
                if _metadata(document, "namespace") == namespace:
                    return document
        return named[0] if len(named) == 1 else None

    def _keys(self, name: str) -> list[str]:
        keys: set[str] = set()
        if self.directory is not None and _LEGAL_NAME.fullmatch(name):
            with suppress(OSError):
                keys.update(path.name for path in (self.directory / name).iterdir() if path.is_file())
        if (document := self._document(name)) is not None:
            keys.update(*(document.entries(field) for field in ("stringData", "data")))
        return sorted(keys)


def marked(entries: Entries) -> dict[str, Entry]:
    """The entries, with those marked as unresolved that hold an absent secret."""
    return {name: replace(entry, unresolved=True) if ABSENT in entry.text else entry for name, entry in entries.items()}


def _by_others(entry: Entry, text: str, others: Providers) -> str | None:
    resolved = others.resolve({entry.key: replace(entry, text=text)})[entry.key]
    return None if resolved.unresolved else resolved.text


def _metadata(document: Section, field: str) -> str | None:
    text = _field(document, "metadata", field)
    return text.text if text is not None else None


def _field(document: Section, section: str, field: str) -> YamlText | None:
    inner = document.section(section)
    return inner.text(field) if inner is not None else None


def _alternatives(pattern: str) -> list[str]:
    """`*.{crt,pem}` as `*.crt` and `*.pem`: Java's globs have braces, Python's have not."""
    match = re.search(r"\{([^{}]*)\}", pattern)
    if match is None:
        return [pattern]
    return [
        each
        for choice in match[1].split(",")
        for each in _alternatives(pattern[: match.start()] + choice + pattern[match.end() :])
    ]
