"""Every construct of Java's syntax, on names that tell its possible meanings apart."""

from __future__ import annotations

import pytest
from test_java_regex import compare

pytestmark = pytest.mark.usefixtures("jars")

NAMES = [
    *("", "a", "b", "A", "B", "ab", "aa", "aab", "abc", "a.b", "a-b", "a_b", "aB", "bb", "abab", "abcabc", "aaaa"),
    *("k", "K", "x", "z", "xyz", "1", "9", "10", "A1", "a0", "Q", "E", "aE", "é1", "é", "É", "ÿ", "٣", "😀"),
    *("]", "[", "{", "}", "&", "^", "-", "&&", "\\", "a\\", "*", "#", "~", "|", "/", ",", "a,b", "b{", "a{2}", "a b"),
    *("a\n", "a\r\n", "\n", "\r", "\r\n", "a\r", "a\nb", "a\u2028", "\x0b", "\x85", "\t", " ", "  ", "\xa0", "\u180e"),
    *("\u212a", "\u017f", "\x01", "\x07", "\x1b"),
]
ALIKE = r"""
a .* a| |a a||b (?i)a a(?i)b|A (a(?i)b)A (?i:a)b (?-i)a (?i)a(?-i)b (?i-i)a (?)a (?-)a (?i-)a (?i (?:a (a a) a**
a*? a*+ a+?b a++b a?+a a{2} a{2,} a{0,1} a{,2} a{2 a{2,1} a{ { } a} {2} a{2}{3} a{2}* {a} a{99999999999} ] a]
[]] []a] [] [^] [^]] [^]a] [a [a-z] [z-a] [a-] [-a] [a-b-c] [a-\d] [\d-z] [\v-z] [\v] [\v-] [a-c&&b] [a-c&&[^b]]
[a-c&&^b] [a[bc]] [^a[b]] [^a&&b] [^a-c&&b] [a&&b&&c] [a&&[b]&&[a]] [ab&&[bc]c] [ab&&bc[a]] [a&] [&a] [a&b]
[ab&&b&c] [a--b] [--a] [a~~b] [a||b] [[a] [[a]] [[^a]] [^[^a]] [\]] [\[] [\Qa-z\E] [\Q]\E] [a\]b] [*+?.$()|{}]
[^a-z] [a^] [!-&&b] [(?i)] [\w&&[^\d_]] [\p{Alpha}&&[^a]] [\p{Lower}] \p{Lower} \P{Lower} (?i)\p{Lower}
(?i)\P{Lower} (?i)[^\p{Upper}] \p{Punct} \p{Graph} \p{Print} \p{Blank} \p{Cntrl} \p{XDigit} \p{Space} \p{ASCII}
\p{Alnum} \p{Alpha} \p{Digit} \p{L1} \p{all} \p{lower} \p{} \p{ \p \p{Foo} \d \D \w \W \s \S \h \H \v \V \R a\R
\R\n \R{2} \b \ba\b a\Bb a\b.b \B \A a\z a\Z a\Z\n a$ a$\n ^a ^^a$$ \Ga a\Ga a\Gb $ ^ (?m)a$\n^b (?m)^ (?m)$
(?m)\n^ (?m)\n$ (?md)a$\r (?d)a$\r (?d). (?s). (?s).* . .. (?ms)^a$.* (?d)\Z\r \Q*\E \Qa.b\E \Q\E* a\Q\E*
\Qab\E+ \Qa \Qa\ \Q\Q\E \E a\E \Q1\E \01\Q0\E \x4\Q1\E \u00\Qe9\E \0 \01 \0101 \0377 \0400 \08 \x41 \x4 \x
\x{41} \x{1F600} \x{110000} \x{} \x{41 \xg1 \u0041 \u004 \uD83D\uDE00 [\uD83D\uDE00] \cA \c \ca \c[ \a \e \f \n
\r \t \y \i \j \l \m \o \q \g \C \F \I \J \K \L \M \O \T \U \Y \N \_ \- \. \é \# \/ \, \ a\ \\ \\E [\b]
[\A] [\1] [\R] [\k] [\e] [\x41] [\0101] [\cA] [\u0041-\u0042] [\Z] (a)\1 (ab)\1 (abc)\1 (a)(b)\2\1 (a)\10
(a|b)\1 (?i)(a)\1 ((?i)a)\1 (?<n>a)\k<n> (?<n>ab)\k<n> (?i)(?<n>a)b?\k<n> \k<n> \k<n>(?<n>a) \kn (?<n>a)(?<n>b)
(?<1n>a) (?<n1>a) (?<n_1>a) (?<n>a (?<>a) (?<n (?P<n>a) (?P=n) (?#x)a (?|a) (?$a) (?@a) (?^a) (?^i:a) (?~a) (?1)
(?&n) (?R) (?'n'a) (?=a)a (?=a).* (?!a).* (?!a|b).* (?!.*b).* a(?=b).* a(?!b).* (?<=a)b a(?<=a)b .*(?<=b)
.*(?<!b) .*(?<!b|c) .*(?<=a{2}) .*(?<=(a)\1) .*(?<=[ab][bc]) .*(?<!(ab|ba){1}) .*(?<!(?:a|b){2}) .*(?<!(?:ab|b{2}){0}) .*(?<=^a) (?=a)*b (?=a)+a (?=a)?b ^*a $*a a$? \b+a
(?>a|ab) (?>a|ab)c (?>a*)a (?>a|ab)* (?:a|ab){2}+ (?:a|ab)*+b (?:ab?)++ (a|ab)*c? (?:a+){2} (a*)* (a*)+
(a?){3} (a|b)*?b (a*b?){2} (?:a*?)*b ()a ()*a (|a)+ (a|)+b (?:) () (?:)* (a)|b a(b|c)? a|b|c|ab (?i)k (?i)[k]
(?i)[a-k] (?i)[^k] (?i)é (?i)[é] (?i)[à-ÿ] (?i)ſ (?i)[_-a] (?i)[Z-a] (?-x)a (?-u)a (?-ux)a (?-U)a (?z)a (?i)*a
a(?i)* a(?i){2} (?i){2} (?i:a a|*b * + ? a|* (*a) (?:*a) (?i)a,b \x{0} [a-z&&[def]] [a-z&&[^bc]] [a-z&&[^m-p]]
[a-d[m-p]] [^\W] [^\d\s] [\s\S] a{1}{2}{3} a{0} a{0}b (a){0}b (a){0}b\1 (?:(a)|b)*\1 (?:(a)|b)+\1 (a|(b))+\2
((a)|b)*\2 (?=(a)\1).* .*[\-.]internal .*[\-\.]internal mm2.*\.internal __.* console-consumer-.* (?:a|b)(?:c|d)
a{3,4}? a{1,2}+a [a-z]++b .*+a .++ a{2}+ a{2}?a (?>a) (?>) (?<=)a (?<!)a (?!) (?=)a [a-\x{1F600}] [^\x{1F600}]
(?i)(?-i:a)b ((?i)a|b)c (?i)a|(?-i)b|c (?s)(?-s). (?m)(?-m)a$ a#b \x20
""".split()  # noqa: SIM905
WITH_WHITE_SPACE = [r"\ ", "a b", " a", " ", "a\nb", "a\0", "\0", "[\n]", "\\\n"]
OUTSIDE_ASCII = ["é", "😀", "[😀]", "😀+", "\\😀", r"\Q😀\E", r"\Qé*\E+"]
REFUSED_BY_US = {
    "Java counts rounds of nothing in its own way": [r"\b{2}", "^{2}a", r"(?>(a?){2})", r"(a*)*\1", "(?:(a?)*)++"],
    "Java's version of Unicode decides": [
        r"\pL",
        r"\p{L}",
        r"\p{IsAlphabetic}",
        r"\p{javaLowerCase}",
        r"\p{IsLatin}",
        r"\p{sc=Latin}",
        r"[\p{L}]",
        r"\X",
        r"\N{LATIN SMALL LETTER A}",
        r"\b{g}",
    ],
    "Java's reading of it is accidental": ["[&&a]", "[a&&]", "[a&&&b]", "[a&&[b]&c]"],
    "half a surrogate pair is no character": [r"\uD83D", r"\uDE00", r"\uD83D\u0041"],
    "the group does not end before the reference, or is in a lookaround": [
        r"\1",
        r"\1(a)",
        r"(a)\2",
        r"(a\1)",
        r"(?=(a))\1",
        r"(?!(a))\1",
        r"(?>(a))\1",
        r"(a)++\1",
    ],
    "`re` has no lookbehind of varying width": [".*(?<=a|bc)", ".*(?<=a*)", ".*(?<=a{1,2})", ".*(?<=a+)b"],
    "flags for Unicode, comments and canonical equivalence": [
        "(?u)a",
        r"(?U)\w",
        "(?iu)k",
        "(?x) a",
        "(?x:a)",
        "(?c)a",
    ],
}


def test_every_construct_means_the_same_or_is_refused_for_a_known_reason() -> None:
    known = [pattern for patterns in REFUSED_BY_US.values() for pattern in patterns]
    patterns = [*ALIKE, *WITH_WHITE_SPACE, *OUTSIDE_ASCII, *known]
    assert sorted(compare([(pattern, NAMES) for pattern in patterns])) == sorted(known)
