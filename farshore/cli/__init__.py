"""The command line. One file a command; a command parses, calls and prints, and decides nothing."""

from __future__ import annotations

# `signal` takes a moment to load, in which a Ctrl-C would be a stack trace.
import _signal  # type: ignore[import-not-found]
import os
import sys
from pathlib import Path


def main(arguments: list[str] | None = None) -> None:
    """The program. Its parts are loaded here and not above, which takes a moment: a Ctrl-C in it ends the program
    without a stack trace."""
    before = _signal.getsignal(_signal.SIGINT)
    if before is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    from farshore.cli.program import run_program

    _signal.signal(_signal.SIGINT, before)
    run_program(sys.argv[1:] if arguments is None else arguments)


def connect_mirror_maker() -> None:
    """The same program under MirrorMaker 2's name, with its arguments."""
    from farshore.cli.mirror_maker import meaning_of

    name = Path(sys.argv[0]).name
    meaning = meaning_of(sys.argv[1:], os.environ, called=name)
    if meaning.usage is not None:
        print(meaning.usage)
        sys.exit(0)
    if meaning.refusal is not None:
        print(f"{name}: {meaning.refusal}", file=sys.stderr)
        sys.exit(2)
    for note in meaning.notes:
        print(f"{name}: {note}", file=sys.stderr)
    os.environ.update(meaning.variables)
    main(meaning.arguments)
