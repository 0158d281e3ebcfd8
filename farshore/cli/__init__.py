"""The command line. One file a command; a command parses, calls and prints, and decides nothing."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """The program. Its parts are loaded here and not above, which takes a moment: a Ctrl-C in it ends the program
    without a stack trace."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from farshore.cli.program import run_program

    signal.signal(signal.SIGINT, before)
    run_program(sys.argv[1:])
