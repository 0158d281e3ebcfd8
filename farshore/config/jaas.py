"""The text of `sasl.jaas.config`: one login module, a flag and options.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="mirror" password="a \\"b\\"";

And the file that a JVM is given with `java.security.auth.login.config`, which has such texts in named sections.

Tokens are those of Java's `StreamTokenizer` as Kafka sets it up, with its oddities: a bare word must begin
with a letter, `_` or `$`; a single `/` begins a comment; quotes may be single or double, with the escapes of
C. Messages say what is expected behind which option, and never repeat a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

CLIENT_SECTION = "KafkaClient"

_FLAGS = ("required", "requisite", "sufficient", "optional")
_WORD_START = r"A-Za-z_$\xa0-\U0010ffff"
_TOKEN = re.compile(
    rf"""
      (?P<comment> /\* .*? (?:\*/|\Z) | /[^\r\n]* )
    | (?P<blank>   [\x00-\x20]+ )
    | (?P<word>    [{_WORD_START}] [{_WORD_START}0-9.\-]* )
    | (?P<quoted>  (?P<mark>["']) (?P<body> (?:\\. | (?!(?P=mark))[^\\\r\n])* ) (?P<end>(?P=mark))? )
    | (?P<number>  -?[0-9.]+ )
    | (?P<sign>    . )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_QUOTE = "put values with other characters than letters, digits, _ - . $ in quotes"
_CONTROLS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasError(ValueError):
    """Not what Kafka takes. The message is the end of a sentence that begins with the key's name."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A login module by its Java class, with its options. The options never show: most hold a secret."""

    name: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def simple_name(self) -> str:
        return self.name.rpartition(".")[2]


def parse_jaas(text: str) -> LoginModule:
    """The one login module that `text` describes; raises JaasError."""
    tokens = list(_tokens(text))
    modules: list[LoginModule] = []
    while tokens:
        modules.append(_module(tokens))
    if not modules:
        raise JaasError("is empty: a login module is expected")
    if len(modules) > 1:
        raise JaasError(f"has {len(modules)} login modules; Kafka takes exactly one")
    return modules[0]


def client_login(text: str) -> LoginModule:
    """The login module that Kafka's clients find in a JAAS file, in its section KafkaClient; raises JaasError."""
    tokens = list(_tokens(text))
    sections: dict[str, list[LoginModule]] = {}
    while tokens:
        name = tokens.pop(0)
        if name.kind is not _Kind.TEXT or not tokens or not tokens[0].is_sign("{"):
            raise JaasError('is no JAAS file: sections such as "KafkaClient { … };" are expected')
        tokens.pop(0)
        modules = sections.setdefault(name.text, [])
        while tokens and not tokens[0].is_sign("}"):
            modules.append(_module(tokens))
        if len(tokens) < 2 or not tokens[1].is_sign(";"):
            raise JaasError(f"must end the section {name.text} with }};")
        del tokens[:2]
    if CLIENT_SECTION not in sections:
        raise JaasError(f"has no section {CLIENT_SECTION}, which is the one that clients read")
    found = sections[CLIENT_SECTION]
    if len(found) != 1:
        raise JaasError(f"has {len(found)} login modules in its section {CLIENT_SECTION}; Kafka takes exactly one")
    return found[0]


def jaas_text(module: LoginModule) -> str:
    """The text of `sasl.jaas.config` that means `module`: parsing it gives back what was put in."""
    words = (f'{name}="{_escaped(value)}"' for name, value in module.options.items())
    return f"{module.name} required {' '.join(words)};"


def _escaped(value: str) -> str:
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        value = value.replace(plain, escaped)
    return value


class _Kind(Enum):
    TEXT = auto()
    SIGN = auto()
    NUMBER = auto()


@dataclass(frozen=True, slots=True)
class _Token:
    kind: _Kind
    text: str = field(repr=False)

    def is_sign(self, sign: str) -> bool:
        return self.kind is _Kind.SIGN and self.text == sign


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        if match["word"] is not None:
            yield _Token(_Kind.TEXT, match["word"])
        elif match["quoted"] is not None:
            if match["end"] is None:
                raise JaasError("has a quoted text without its closing quote on the same line")
            yield _Token(_Kind.TEXT, _ESCAPE.sub(_unescape, match["body"]))
        elif match["number"] is not None:
            yield _Token(_Kind.NUMBER, match["number"])
        elif match["sign"] is not None:
            yield _Token(_Kind.SIGN, match["sign"])


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _CONTROLS.get(code, code)


def _module(tokens: list[_Token]) -> LoginModule:
    """Takes one module off the front of `tokens`."""
    first = tokens.pop(0)
    if first.kind is not _Kind.TEXT:
        raise JaasError("must begin with the class name of a login module")
    if not tokens or tokens[0].kind is not _Kind.TEXT or tokens[0].text.lower() not in _FLAGS:
        raise JaasError(f"must have one of {', '.join(_FLAGS)} behind the class name of the login module")
    tokens.pop(0)
    options: dict[str, str] = {}
    while tokens and not tokens[0].is_sign(";"):
        name, value = _option(tokens, options)
        options[name] = value
    if not tokens:
        raise JaasError(f"must end with a semicolon; {_QUOTE}")
    tokens.pop(0)
    return LoginModule(first.text, options)


def _option(tokens: list[_Token], before: Mapping[str, str]) -> tuple[str, str]:
    """Takes `name=value` off the front of `tokens`."""
    name = tokens.pop(0)
    where = f"behind the option {list(before)[-1]}" if before else "behind the flag"
    if name.kind is not _Kind.TEXT or not tokens or not tokens[0].is_sign("="):
        # What stands here may be the tail of an unquoted secret: it must not be shown.
        raise JaasError(f"must have name=value or a semicolon {where}; {_QUOTE}")
    tokens.pop(0)
    if not tokens or tokens[0].kind is not _Kind.TEXT:
        raise JaasError(
            f"must have a value for the option {name.text}; "
            "put a value in quotes unless it begins with a letter, _ or $"
        )
    return name.text, tokens.pop(0).text
