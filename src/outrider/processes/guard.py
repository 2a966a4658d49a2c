"""A helper process that ends a session's commands if Outrider itself is killed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterable

from outrider.processes.process_tree import MARK
from outrider.processes.programs import SYSTEM_PATH
from outrider.processes.starting import SHELL, popen

SECONDS_TO_END = 2.0

# Each line lists the process groups that run. The input ends when Outrider ends. During an exec, a process shows no
# mark for a moment, hence the second scan.
_SCRIPT = """
while read -r line; do groups=$line; done
[ -z "$groups" ] || kill -KILL $groups
clear=0
while [ $clear -lt 2 ]; do
  clear=$((clear + 1))
  for file in $(grep -lsaF "$1" /proc/[0-9]*/environ); do
    clear=0
    file=${file#/proc/}
    kill -KILL "${file%/environ}"
  done
  sleep 0.05
done
"""


class Guard:
    """Waits for the end of this process, then kills the groups named last and all processes that carry the mark."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._lifeline: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.RLock()

    def watch(self, groups: Iterable[int]) -> None:
        """Set the process groups that run now. Raises OSError if no process can be started."""
        line = " ".join(f"-{group}" for group in groups).encode() + b"\n"
        with self._lock:
            if self._lifeline is not None:
                with contextlib.suppress(BrokenPipeError):  # the guard was killed: start another
                    os.write(self._lifeline, line)
                    return
                self.close()
            os.write(self._start(), line)

    def _start(self) -> int:
        listening, lifeline = os.pipe()
        try:
            self._process = popen(
                [SHELL, "-c", _SCRIPT, "outrider-guard", f"{MARK}={self._mark}"],
                stdin=listening,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": SYSTEM_PATH},  # the user's may lead into a project
                start_new_session=True,
            )
        except OSError:
            os.close(lifeline)
            raise
        finally:
            os.close(listening)
        self._lifeline = lifeline
        return lifeline

    def close(self) -> None:
        """End the guard; it first kills what it still watches."""
        with self._lock:
            lifeline, process, self._lifeline, self._process = self._lifeline, self._process, None, None
        if lifeline is not None:
            os.close(lifeline)
        if process is not None:
            try:
                process.wait(SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
