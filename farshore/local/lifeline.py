"""Run a command that ends when its asker ends, however that one ends.

This file is run as a script, by `farshore.local.processes`, between the asker and the command:

    python -I -S lifeline.py LIFELINE_FD LEFTOVERS COMMAND...

LIFELINE_FD is the read end of a pipe whose other end only the asker holds. When it closes (the asker
exited, crashed, or was killed with -9) the command is killed, and the directory LEFTOVERS, if not empty
text, removed (several commands may share one: the last to die removes what the others could not). Until
then SIGTERM is passed on, and the exit code is the command's. A pipe and not Linux's parent-death signal,
because that one follows the thread that forked, not the process, and is not known to macOS.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from types import FrameType


def main(lifeline: int, leftovers: str, command: list[str]) -> int:
    asked_to_end = threading.Event()
    child: subprocess.Popen[bytes] | None = None

    def pass_on(_signal: int, _frame: FrameType | None) -> None:
        asked_to_end.set()
        if child is not None:
            child.terminate()

    signal.signal(signal.SIGTERM, pass_on)
    try:
        child = subprocess.Popen(command)
    except OSError as failure:
        sys.stderr.write(f"{command[0]} cannot be run: {failure}\n")
        return 127
    if asked_to_end.is_set():
        child.terminate()
    orphaned = threading.Event()
    threading.Thread(target=_follow, args=(lifeline, child, orphaned), daemon=True).start()
    code = child.wait()
    if orphaned.is_set() and leftovers:
        shutil.rmtree(leftovers, ignore_errors=True)
    return code if code >= 0 else 128 - code


def _follow(lifeline: int, child: subprocess.Popen[bytes], orphaned: threading.Event) -> None:
    while os.read(lifeline, 1):
        pass
    orphaned.set()
    child.kill()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
