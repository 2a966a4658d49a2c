"""Workspaces of tasks that name a git repository: checked out by the worker, removed when the task has its result."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from outrider.errors import ConfigError, OutriderError, SessionHeldError
from outrider.filesystem import make_private, open_lock, try_lock
from outrider.processes.git import PREFIX, git_environment
from outrider.processes.programs import Programs
from outrider.processes.starting import start

CHECKOUT_SECONDS = 900.0
CHECKOUT_BYTES = 5_000_000_000
"""The longest time that a checkout may take, and the most that it may store."""
KEPT_SECONDS = 7 * 86_400.0
"""How long a workspace is kept whose task was stopped here and perhaps finished on another machine."""
LOOK_SECONDS = 0.2
"""The pause between two looks at the size of a checkout."""
PROTOCOLS = ("https", "http", "ssh", "git", "file")
_URL = re.compile(rf"(?:{'|'.join(PROTOCOLS)})://(?:(?P<user>[^/@\s]*)@)?[^/\s@]*/\S*")
_SCP = re.compile(r"(?:[\w.-]+@)?[\w.-]+:(?!//)[^\s:]\S*")
_REVISION = re.compile(r"[\w.][\w./+-]*")
MESSAGE_BYTES = 64 * 1024


class CheckoutError(OutriderError):
    """A repository cannot be checked out; the message says why."""


class Workspace(NamedTuple):
    """The working folder of a task."""

    folder: Path
    is_new: bool
    """Whether it was checked out just now. Otherwise it has the changes of earlier attempts."""


class Workspaces:
    """The workspaces on this machine, each in a folder of its own that is named for the session of its task."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @asynccontextmanager
    async def checkout(self, repository: str, revision: str, session: str) -> AsyncIterator[Workspace]:
        """Check a repository out, unless an earlier attempt has. Remove it at the end, but not after an exception.

        Raises CheckoutError, and SessionHeldError while another process works there.
        """
        folder = self._folder / session
        make_private(self._folder)
        await asyncio.to_thread(self._remove_old)
        lock = open_lock(self._folder / f"{session}.lock")
        try:
            if not try_lock(lock):
                raise SessionHeldError("another process works in the workspace of this task")
            is_new = not folder.exists()
            if is_new:
                await self._fetch(repository, revision, folder)
            os.utime(folder)
            yield Workspace(folder, is_new)
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            (self._folder / f"{session}.lock").unlink(missing_ok=True)
        finally:
            os.close(lock)

    async def _fetch(self, repository: str, revision: str, folder: Path) -> None:
        """Check out into a folder beside, which then gets its name: a checkout that was killed does not count."""
        partial = folder.with_name(f"{folder.name}.partial")
        await asyncio.to_thread(shutil.rmtree, partial, ignore_errors=True)
        try:
            async with asyncio.timeout(CHECKOUT_SECONDS):
                await _check_out(repository, revision, partial)
            partial.rename(folder)
        except TimeoutError:
            raise CheckoutError(f"the checkout of {repository} took more than {CHECKOUT_SECONDS:g} seconds") from None
        finally:
            await asyncio.to_thread(shutil.rmtree, partial, ignore_errors=True)

    def _remove_old(self) -> None:
        """Remove what stopped tasks have left and no process uses."""
        for path in self._folder.glob("*.lock"):
            folder = path.with_suffix("")
            with suppress(OSError):
                if time.time() - (folder if folder.exists() else path).stat().st_mtime < KEPT_SECONDS:
                    continue
                lock = open_lock(path)
                try:
                    if try_lock(lock):
                        for each in (folder, folder.with_name(f"{folder.name}.partial")):
                            shutil.rmtree(each, ignore_errors=True)
                        path.unlink()
                finally:
                    os.close(lock)


def check_repository(repository: str, revision: str) -> None:
    """Raise ValueError if a task cannot have this repository. The message does not repeat what may be a password."""
    if revision and not _REVISION.fullmatch(revision):
        raise ValueError(f"revision is {revision!r}; it must be a branch, a tag or a commit")
    if not repository:
        if revision:
            raise ValueError("revision needs a repository")
        return
    found = _URL.fullmatch(repository)
    if found and (":" in (found["user"] or "") or (found["user"] and repository.startswith("http"))):
        raise ValueError(
            "the address of the repository has a password or a token, which tasks must not carry: remove it, and give "
            "it to git on the workers (a credential helper, GIT_ASKPASS or an SSH key)"
        )
    is_path = repository.startswith("/")
    if repository.startswith("-") or "\0" in repository or not (found or is_path or _SCP.fullmatch(repository)):
        forms = "https://host/name.git, ssh://git@host/name.git, git@host:name.git or /absolute/path"
        raise ValueError(f"the repository is not an address that git can use; write {forms}")


async def _check_out(repository: str, revision: str, folder: Path) -> None:
    """Fetch one commit without its history; all of it if the server does not give out single commits."""
    make_private(folder)
    await _git(folder, "init", "--quiet")
    await _git(folder, "remote", "add", "--", "origin", repository)
    fetch = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules")
    names = ["FETCH_HEAD"]
    try:
        await _git(folder, *fetch, "--depth=1", "origin", revision or "HEAD")
    except CheckoutError:
        if revision:
            names = [f"refs/remotes/origin/{revision}", revision]
            await _git(folder, *fetch, "origin", "+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
        else:
            await _git(folder, *fetch, "origin", "HEAD")
    for name in names:
        with suppress(CheckoutError):
            await _git(folder, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
            break
    else:
        raise CheckoutError(f"{repository} has no revision {revision!r}")
    await _git(folder, "checkout", "--quiet", "--detach", name, "--")
    await asyncio.to_thread(_check_size, folder)


async def _git(folder: Path, *arguments: str) -> None:
    """Run git in a process group of its own, which is killed if it stores too much or its caller is cancelled."""
    programs = Programs((folder, os.curdir))
    program = programs.find("git")
    if program is None:
        raise ConfigError("a task with a repository needs git, which is not installed on this machine")
    # Fetching may need the user's secrets, for credential helpers; the rest reaches no other machine.
    protocols = PROTOCOLS if arguments[0] == "fetch" else ()
    process = await start(
        [program, *PREFIX, *arguments],
        environment={**git_environment(os.environ, protocols=protocols), "PATH": programs.path},
        folder=folder,
        input=asyncio.subprocess.DEVNULL,
        output=asyncio.subprocess.DEVNULL,
        errors=asyncio.subprocess.PIPE,
    )
    said = asyncio.ensure_future(_last_words(process))
    try:
        while not (await asyncio.wait([said], timeout=LOOK_SECONDS))[0]:
            await asyncio.to_thread(_check_size, folder)
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await said
    if process.returncode:
        raise CheckoutError(f"git {arguments[0]} failed: {_reason(said.result().decode('utf-8', 'replace'))}")


async def _last_words(process: asyncio.subprocess.Process) -> bytes:
    """Wait for the end of a process, and return the end of its messages. A server can send any number of them."""
    assert process.stderr
    said = b""
    while part := await process.stderr.read(MESSAGE_BYTES):
        said = (said + part)[-MESSAGE_BYTES:]
    await process.wait()
    return said


def _check_size(folder: Path) -> None:
    """Raise CheckoutError if a checkout stores too much."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(path, name)).st_size
    if total > CHECKOUT_BYTES:
        raise CheckoutError(f"the repository has more than {CHECKOUT_BYTES / 1e9:g} GB")


def _reason(said: str) -> str:
    """Return the line of git's output that says why, without what is before the @ of an address, as in a redirect."""
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["no reason given"]
    line = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1])
    return re.sub(r"://[^/@\s]+@", "://***@", line)
