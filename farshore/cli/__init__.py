"""The command line. One file a command; a command parses, calls and prints, and decides nothing."""

from __future__ import annotations

import os
import signal
import sys


def main(arguments: list[str] | None = None) -> None:
    """The program. Its parts are loaded here and not above, which takes a moment: a Ctrl-C in it ends the program
    without a stack trace."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from farshore.cli.program import run_program

    signal.signal(signal.SIGINT, before)
    run_program(sys.argv[1:] if arguments is None else arguments)


def connect_mirror_maker() -> None:
    """The same program under MirrorMaker 2's name, with its arguments."""
    from farshore.cli.mirror_maker import meaning_of

    meaning = meaning_of(sys.argv[1:], os.environ)
    if meaning.refusal is not None:
        print(f"connect-mirror-maker.sh: {meaning.refusal}", file=sys.stderr)
        sys.exit(2)
    for note in meaning.notes:
        print(f"connect-mirror-maker.sh: {note}", file=sys.stderr)
    os.environ.update(meaning.variables)
    main(meaning.arguments)
