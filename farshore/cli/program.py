"""The program with all its commands."""

from __future__ import annotations

import os
import sys

import typer

from farshore import __version__
from farshore.cli import check, demo, handback, local, reset, run, skip, status, translate
from farshore.errors import BadArgument, FarshoreError

app = typer.Typer(
    name="farshore",
    help="Mirrors Apache Kafka clusters, with MirrorMaker 2's own configuration files.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(name="check")(check.check)
app.command(name="run")(run.run)
app.command(name="status")(status.status)
app.command(name="skip")(skip.skip)
app.command(name="reset")(reset.reset)
app.command(name="handback")(handback.handback)
app.command(name="translate")(translate.translate)
app.command(name="demo")(demo.demo)
app.add_typer(local.app, name="local")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"farshore {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    pass


def run_program(arguments: list[str]) -> None:
    """What went wrong on purpose is one message on stderr and exit code 1, never a stack trace; 2, if it was about the
    arguments."""
    try:
        app(args=_one_value_an_option(arguments))
    except FarshoreError as error:
        print(f"farshore: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, BadArgument) else 1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output went away, as `farshore check … | head` does. Nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


def _one_value_an_option(arguments: list[str]) -> list[str]:
    """`--clusters A B`, as MirrorMaker 2 takes it, to `--clusters A --clusters B`."""
    spread: list[str] = []
    taking = False
    for argument in arguments:
        if argument.startswith("-"):
            taking = argument == "--clusters"
            if not taking:
                spread.append(argument)
        elif taking:
            spread += ["--clusters", argument]
        else:
            spread.append(argument)
    return spread
