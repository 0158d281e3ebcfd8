"""Arguments and tables that several commands have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

ConfigFiles = Annotated[list[Path], typer.Argument(help="The same files as for `farshore check`.", metavar="CONFIG...")]
SecretsDir = Annotated[
    Path | None, typer.Option("--secrets", help="Directory with Kubernetes secrets, as SECRET/KEY.", metavar="DIR")
]
JaasFile = Annotated[
    Path | None,
    typer.Option(
        "--jaas", help="JAAS file of a JVM (java.security.auth.login.config), for logins without sasl.jaas.config.",
        metavar="FILE",
    ),
]  # fmt: skip
OneFlow = Annotated[
    str | None, typer.Option("--flow", help="Which flow; not needed where there is only one.", metavar="A->B")
]
SomeFlows = Annotated[str | None, typer.Option("--flow", help="Only this flow.", metavar="A->B")]


_UNBOUNDED = 10_000


def output() -> Console:
    """Standard output. What goes into a file or a pipe is not folded: its reader looks for whole lines."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_UNBOUNDED)


def plain_table(*titles: str, left: int = 1) -> Table:
    """Columns without lines between them; the first `left` ones and the last are words, the others numbers."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for number, title in enumerate(titles):
        words = number < left or number == len(titles) - 1
        table.add_column(title, justify="left" if words else "right", overflow="fold", no_wrap=not words)
    return table
