"""The commands that the documents show for a mirror are typed as they stand there, on real clusters."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from ops_support import numbered
from records import create_topic, produce
from test_run_support import Farshore, wait_until

from farshore.local import Cluster

ROOT = Path(__file__).parent.parent.parent
ELSEWHERE = {"run mm2.properties --master spark://…", "run mm2.properties --metrics 0.0.0.0:9404"}
"""These need more than two clusters, or a port that may be taken here; other tests run them."""

MM2_PROPERTIES = """
clusters = A, B
A.bootstrap.servers = {source}
B.bootstrap.servers = {target}
A->B.enabled = true
A->B.topics = orders|payments
A->B.groups = billing
replication.factor = 1
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset.storage.replication.factor = 1
tasks.max = 2
sync.topic.acls.enabled = false
"""


def shown() -> set[str]:
    """Commands about `mm2.properties`, without `farshore` and without remarks."""
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    lines = re.findall(r"^ *\$? ?farshore (\w+ mm2\.properties.*)$", "\n".join(map(Path.read_text, documents)), re.M)
    return {re.sub(r"  +#.*", "", line).strip() for line in lines}


class Shell:
    """Where `mm2.properties` lies. Whoever is asked for a yes gets one."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.typed: set[str] = set()

    def type(self, commands: set[str]) -> None:
        for command in sorted(commands, key=len, reverse=True):  # with --dry-run before those without
            self.typed.add(command)
            done = subprocess.run(
                [sys.executable, "-c", "from farshore.cli import main; main()", *shlex.split(command)],
                cwd=self._home,
                input="y\n",
                capture_output=True,
                text=True,
                timeout=180,
                env={**os.environ, "NO_COLOR": "1"},
            )
            assert done.returncode == 0, f"farshore {command}\n{done.stdout}{done.stderr}"


def test_the_commands_of_the_documents_work_as_they_are_shown(
    own_pair: tuple[Cluster, Cluster], tmp_path: Path
) -> None:
    servers, others = (cluster.bootstrap_servers for cluster in own_pair)
    properties = tmp_path / "mm2.properties"
    properties.write_text(MM2_PROPERTIES.format(source=servers, target=others))
    for topic, partitions in (("orders", 5), ("payments", 1)):
        create_topic(servers, topic, partitions)
    produce(servers, "orders", numbered(0, 4700, partition=4))
    produce(servers, "payments", numbered(0, 10))
    group = Consumer({"bootstrap.servers": servers, "group.id": "billing"})
    group.commit(offsets=[TopicPartition("orders", 4, 4690)], asynchronous=False)
    group.close()

    shell, commands = Shell(tmp_path), shown()
    shell.type({each for each in commands if "--once" in each or "--connect" in each})
    produce(servers, "orders", numbered(4700, 4800, partition=4))
    shell.type({each for each in commands if each.startswith("skip ")})
    shell.type({each for each in commands if each.startswith("reset ")})
    with Farshore(properties, tmp_path / "farshore.log") as program:
        shell.typed.add(f"run {properties.name}")
        wait_until(lambda: "copying" in program.said or len(program.workers()) == 2, "slots that copy")
        shell.type({each for each in commands if each.startswith(("status ", "translate ", "check "))})
        shell.type({each for each in commands if each.startswith("handback ")})
        assert program.ended() == 0, program.said
    assert commands - ELSEWHERE == shell.typed
