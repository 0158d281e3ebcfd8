"""Java's escapes and character classes, read into sets of characters."""

from __future__ import annotations

from . import charset
from .charset import CharSet
from .reader import END, Reader

CLASS_ESCAPES = {
    "d": charset.DIGITS,
    "w": charset.WORD,
    "s": charset.SPACE,
    "h": charset.HORIZONTAL_SPACE,
    "v": charset.VERTICAL_SPACE,
}
CLASS_ESCAPES |= {letter.upper(): ~accepted for letter, accepted in CLASS_ESCAPES.items()}

_CONTROL_ESCAPES = {"a": "\a", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")
_OCTAL_DIGITS = frozenset("01234567")

_GRAPH = CharSet.span("!", "~")
_PROPERTIES = {
    "ASCII": charset.ASCII,
    "Alnum": charset.ASCII_LETTERS | charset.DIGITS,
    "Alpha": charset.ASCII_LETTERS,
    "Blank": CharSet.of(" \t"),
    "Cntrl": CharSet.span("\0", "\x1f") | CharSet.of("\x7f"),
    "Digit": charset.DIGITS,
    "Graph": _GRAPH,
    "L1": CharSet.span("\0", "\xff"),
    "Lower": charset.LOWER,
    "Print": _GRAPH | CharSet.of(" "),
    "Punct": _GRAPH - charset.ASCII_LETTERS - charset.DIGITS,
    "Space": charset.SPACE,
    "Upper": charset.UPPER,
    "XDigit": CharSet.of(_HEX_DIGITS),
    "all": charset.EVERYTHING,
}
_ASCII_KIN = {
    "L": "Alpha",
    "IsL": "Alpha",
    "IsLetter": "Alpha",
    "IsAlphabetic": "Alpha",
    "javaLetter": "Alpha",
    "javaAlphabetic": "Alpha",
    "javaLetterOrDigit": "Alnum",
    "Lu": "Upper",
    "IsLu": "Upper",
    "IsUppercase": "Upper",
    "javaUpperCase": "Upper",
    "Ll": "Lower",
    "IsLl": "Lower",
    "IsLowercase": "Lower",
    "javaLowerCase": "Lower",
    "N": "Digit",
    "Nd": "Digit",
    "IsDigit": "Digit",
    "javaDigit": "Digit",
    "P": "Punct",
    "IsPunctuation": "Punct",
}


def read_character_escape(reader: Reader, column: int) -> str:
    """The one character meant by the escape whose backslash, at `column`, has been read."""
    character = reader.read()
    if character == END:
        raise reader.refusal("a backslash at the very end; write \\\\ for the character itself", column)
    if character in _CONTROL_ESCAPES:
        return _CONTROL_ESCAPES[character]
    if character == "0":
        return _octal(reader, column)
    if character == "x":
        return _hexadecimal(reader, column)
    if character == "u":
        return _utf16(reader, column)
    if character == "c":
        if reader.peek() == END:
            raise reader.refusal("\\c needs a character behind it", column)
        return chr(ord(reader.read()) ^ 64)
    if character == "N":
        raise reader.refusal("characters by name are not supported; write \\x{...} with the code point", column)
    if character.isascii() and character.isalnum():
        raise reader.refusal(f"Java knows no escape \\{character} here", column)
    return character


def _octal(reader: Reader, column: int) -> str:
    digits = ""
    while reader.peek() in _OCTAL_DIGITS and len(digits) < 3 and int(digits + reader.peek(), 8) <= 0o377:
        digits += reader.read()
    if not digits:
        raise reader.refusal("\\0 needs one to three octal digits behind it", column)
    return chr(int(digits, 8))


def _hexadecimal(reader: Reader, column: int) -> str:
    if not reader.skip("{"):
        return chr(int(_hex_digits(reader, 2, column), 16))
    digits = ""
    while reader.peek() in _HEX_DIGITS:
        digits += reader.read()
    if not digits or not reader.skip("}") or int(digits, 16) > charset.LAST_CODE_POINT:
        raise reader.refusal("\\x{...} needs a code point up to 10FFFF in hexadecimal", column)
    return _no_surrogate(reader, int(digits, 16), column)


def _utf16(reader: Reader, column: int) -> str:
    unit = int(_hex_digits(reader, 4, column), 16)
    if 0xD800 <= unit <= 0xDBFF and reader.skip("\\u"):
        low = int(_hex_digits(reader, 4, column), 16)
        if 0xDC00 <= low <= 0xDFFF:
            return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00))
    return _no_surrogate(reader, unit, column)


def _hex_digits(reader: Reader, count: int, column: int) -> str:
    digits = "".join(reader.read() for _ in range(count) if reader.peek() in _HEX_DIGITS)
    if len(digits) < count:
        raise reader.refusal(f"{count} hexadecimal digits are needed", column)
    return digits


def _no_surrogate(reader: Reader, point: int, column: int) -> str:
    if 0xD800 <= point <= 0xDFFF:
        raise reader.refusal("half of a surrogate pair is no character; write both halves", column)
    return chr(point)


def read_property(reader: Reader, ignore_case: bool, column: int) -> CharSet:
    """`\\p{...}` or `\\P{...}`; the backslash, at `column`, and the letter have been read."""
    negated = reader.peek(-1) == "P"
    name = reader.read()
    if name == "{":
        name = ""
        while (character := reader.read()) != "}":
            if character == END:
                raise reader.refusal("\\p{ without }", column)
            name += character
    if name not in _PROPERTIES:
        advice = f"\\p{{{_ASCII_KIN[name]}}}" if name in _ASCII_KIN else "the characters in a class, [...]"
        raise reader.refusal(f"only ASCII's properties are supported, {{{name}}} is not; write {advice}", column)
    accepted = _PROPERTIES[name]
    if ignore_case and name in ("Lower", "Upper"):
        accepted = charset.ASCII_LETTERS
    return ~accepted if negated else accepted


def read_class(reader: Reader, ignore_case: bool) -> CharSet:
    """`[...]`, its opening bracket already read: unions, nested classes and intersections worked out."""
    column = reader.column - 1
    negated = reader.skip("^")
    accepted = _read_operand(reader, ignore_case, column)
    while reader.skip("&&"):
        accepted &= _read_operand(reader, ignore_case, column, right=True)
    reader.skip("]")
    return ~accepted if negated else accepted


def _read_operand(reader: Reader, ignore_case: bool, column: int, right: bool = False) -> CharSet:
    """What stands before `&&` or the closing bracket. A bracket that comes first is an ordinary character."""
    accepted = CharSet()
    first = True
    while first or reader.peek() != "]":
        if reader.peek() == END:
            raise reader.refusal("[ without ]; write \\[ for the character itself", column)
        if reader.skip("["):
            accepted |= read_class(reader, ignore_case)
        elif reader.peek() == "&" and reader.peek(1) == "&":
            if first or reader.peek(2) in ("&", "]"):
                raise reader.refusal("&& needs something on both its sides, and no third &")
            return accepted
        elif right and reader.peek() == "&" and reader.peek(-1) == "]":
            # Java reads [a&&[b]&c] as neither a and (b or & or c) nor (a and b) or & or c.
            raise reader.refusal("a single & after a nested class and &&; write \\& first in its class")
        else:
            accepted |= _read_range(reader, ignore_case)
        first = False
    return accepted


def _read_range(reader: Reader, ignore_case: bool) -> CharSet:
    """One character, a range of them, or an escape that means several."""
    column = reader.column
    low = _read_class_character(reader, ignore_case)
    if isinstance(low, CharSet):
        return low
    high = low
    if reader.peek() == "-" and reader.peek(1) not in ("[", "]"):
        reader.read()
        end = _read_class_character(reader, ignore_case, ends_range=True)
        if isinstance(end, CharSet) or end < low:
            raise reader.refusal("a range needs two characters, the lower one first", column)
        high = end
    accepted = CharSet.span(low, high)
    return accepted.with_both_cases() if ignore_case else accepted


def _read_class_character(reader: Reader, ignore_case: bool, ends_range: bool = False) -> str | CharSet:
    column = reader.column
    if not reader.skip("\\"):
        return reader.read()
    escaped = reader.peek()
    if escaped == "v" and (ends_range or reader.peek(1) == "-"):
        reader.read()
        return "\x0b"  # the only thing \v meant before Java 8, and still does as an end of a range
    if escaped in CLASS_ESCAPES:
        return CLASS_ESCAPES[reader.read()]
    if escaped in ("p", "P"):
        reader.read()
        return read_property(reader, ignore_case, column)
    return read_character_escape(reader, column)
