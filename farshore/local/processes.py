"""Child processes that never outlive this one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from farshore.local import lifeline

KILLED_WITHIN_SECONDS = 10


class BoundProcess:
    """A command in a session of its own (a terminal's Ctrl-C does not reach it) that dies with this process.

    Whoever creates one ends it with `kill`, or `terminate` and `wait`; should this process die first, the
    command is killed and `leftovers`, a directory, removed: see `farshore.local.lifeline`.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        stdin: int | IO[Any] = subprocess.DEVNULL,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        leftovers: Path | None = None,
    ) -> None:
        watched, self._held = os.pipe()
        script = [sys.executable, "-I", "-S", lifeline.__file__, str(watched), str(leftovers or "")]
        try:
            self.popen: subprocess.Popen[str] = subprocess.Popen(
                [*script, *map(str, command)],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                text=True,
                pass_fds=(watched,),
                start_new_session=True,
            )
        except BaseException:
            os.close(self._held)
            raise
        finally:
            os.close(watched)

    @property
    def pid(self) -> int:
        """Also the id of the process group in which the command runs."""
        return self.popen.pid

    def running(self) -> bool:
        return self.popen.poll() is None

    def terminate(self) -> None:
        """Ask the command to end (SIGTERM); does not wait."""
        self.popen.terminate()

    def kill(self) -> None:
        """End the command at once (SIGKILL) and wait until it is gone."""
        # Not reaped yet, so the number is still ours and can belong to no other group.
        if self.popen.returncode is None:
            # macOS answers "not permitted" for a group of which only an unreaped process is left.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        self.wait(KILLED_WITHIN_SECONDS)

    def wait(self, timeout: float) -> int:
        """The command's exit code; raises subprocess.TimeoutExpired when it is still running after
        `timeout`."""
        code = self.popen.wait(timeout)
        self._release()
        return code

    def communicate(self, text: str | None, timeout: float) -> tuple[str, str]:
        """Send `text`, return all of both outputs; the command is killed when it takes longer than
        `timeout`."""
        try:
            out, err = self.popen.communicate(text, timeout)
        except BaseException:
            self.kill()
            self.popen.communicate()
            raise
        self._release()
        return out or "", err or ""

    def _release(self) -> None:
        if self._held >= 0:
            os.close(self._held)
            self._held = -1
