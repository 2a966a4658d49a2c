"""The terminal program, run as a user runs it."""

from __future__ import annotations

import asyncio
import atexit
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from tests.cli.warm import Fork, Warm, is_possible, take_terminal

CLOSED = "http://127.0.0.1:9"
"""A port of this machine on which nothing answers."""
_READ_AT_THE_START = ("PYTHON", "LC_", "LANG", "SSL_")
"""Variables that an interpreter, or a library when it is imported, reads once."""


def outrider(
    *arguments: str, input: bytes = b"", cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a clean environment: no keys, no proxies, no Ollama, unless they are given."""
    env = clean_environment() | environment
    ended = run(*arguments, input=input, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd, env=env)
    return subprocess.CompletedProcess(ended.args, ended.returncode, ended.stdout.decode(), ended.stderr.decode())


def run(
    *arguments: str, input: bytes | None = None, timeout: float = 60, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run the program to its end; options are those of `subprocess.Popen`."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    with start(*arguments, **options) as process:
        try:
            out, err = process.communicate(input, timeout)
        finally:
            process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def start(
    *arguments: str,
    env: dict[str, str],
    module: str = "outrider",
    from_scratch: bool = False,
    has_terminal: bool = False,
    **options: Any,
) -> subprocess.Popen[Any]:
    """Start the program; options are those of `subprocess.Popen`, and `has_terminal` makes its input its terminal.

    It comes from a warm process, unless it is to be started from scratch or an interpreter would start differently.
    `module` names another program of the tests, which must be able to find itself.
    """
    command = [sys.executable, "-m", module, *arguments]
    if from_scratch or not (warm := _warm(_read_at_the_start(env))):
        preparation = take_terminal if has_terminal else None
        return subprocess.Popen(command, env=env, preexec_fn=preparation, **options)
    return Fork(warm, command, env=env, has_terminal=has_terminal, **options)


class Running:
    """The program, awaited on an event loop. Options are those of `start`."""

    def __init__(self, *arguments: str, **options: Any) -> None:
        self._process = start(*arguments, **options)
        self.pid = self._process.pid
        self._said: tuple[bytes, bytes] | None = None

    @property
    def returncode(self) -> int | None:
        """The exit code, once it has ended."""
        return self._process.poll()

    def send_signal(self, number: int) -> None:
        """Send a signal to it."""
        self._process.send_signal(number)

    async def error_line(self) -> bytes:
        """Read a line of what it says on stderr; b"" at the end."""
        assert self._process.stderr
        return bytes(await asyncio.to_thread(self._process.stderr.readline))

    async def error_line_with(self, text: bytes) -> bytes:
        """Read what it says on stderr as far as a line with this text."""
        while text not in (line := await self.error_line()):
            assert line, f"it ended without {text!r}"
        return line

    async def communicate(self) -> tuple[bytes, bytes]:
        """Wait for its end, and return what it has said."""
        if self._said is None:
            self._said = await asyncio.to_thread(self._process.communicate)
        return self._said


def _read_at_the_start(environment: dict[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(item for item in environment.items() if item[0].startswith(_READ_AT_THE_START))


@cache
def _warm(variables: frozenset[tuple[str, str]]) -> Warm | None:
    """A process with these variables, if there are many to be started with them."""
    ordinary = _read_at_the_start(clean_environment())
    if variables - {("LC_ALL", "C.UTF-8")} != ordinary - {("LC_ALL", "C.UTF-8")} or not is_possible():
        return None
    warm = Warm(clean_environment() | dict(variables))
    atexit.register(warm.close)
    return warm


def clean_environment() -> dict[str, str]:
    """That of the tests, without what a developer may have set."""
    unwanted = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    kept = ("OUTRIDER_HOME", "OUTRIDER_SANDBOX", "OUTRIDER_WEB_SEARCH", "OUTRIDER_TITLES", "OUTRIDER_CAPABILITIES")
    return {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy")
        and name not in unwanted
        and (not name.startswith("OUTRIDER_") or name in kept)
    } | {"OLLAMA_HOST": CLOSED}
