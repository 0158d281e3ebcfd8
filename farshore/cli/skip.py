"""`farshore skip`: go past records that cannot be copied."""

from __future__ import annotations

from typing import Annotated

import typer

from farshore.cli.arguments import ConfigFiles, JaasFile, OneFlow, SecretsDir
from farshore.config import load
from farshore.ops.flows import flow_meant
from farshore.ops.skipping import parse_partition
from farshore.ops.skipping import skip as skip_records


def skip(
    config: ConfigFiles,
    partition: Annotated[str, typer.Argument(help="The partition on the source.", metavar="TOPIC-PARTITION")],
    to: Annotated[int, typer.Option(help="The offset to go on at.", min=0, metavar="OFFSET")],
    flow: OneFlow = None,
    secrets: SecretsDir = None,
    jaas: JaasFile = None,
) -> None:
    """Leave out records of a partition: copying goes on at OFFSET. Works on a running flow and on a stopped one."""
    wanted = parse_partition(partition)
    settings = flow_meant(load(config, secrets_dir=secrets, jaas=jaas), flow)
    done = skip_records(settings, wanted, to)
    if done.begin is None:
        print(f"{done.partition}: copying had come to offset {done.end} by itself; nothing was left out")
        return
    count = done.end - done.begin
    what = f"offset {done.begin} is" if count == 1 else f"{count} offsets, {done.begin} to {done.end - 1}, are"
    goes_on = "copying goes on" if done.running else "when the flow is started, copying goes on"
    print(f"{done.partition}: {what} not copied; {goes_on} at {done.end}")
