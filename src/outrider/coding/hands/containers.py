"""Containers for one task each: made and removed by the user's own docker or podman."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path

from outrider.coding.command_environment import command_environment
from outrider.environment import workspaces_folder
from outrider.errors import HandsError
from outrider.filesystem import make_private
from outrider.processes.programs import Programs
from outrider.processes.starting import start
from outrider.temporary_folder import PREFIX, TemporaryFolder
from outrider.text.visible import one_line

ENGINES = ("docker", "podman")
OWN = "outrider-"
"""The beginning of the names of containers that Outrider makes."""
OWNERS, OWNER = "outrider.owners", "outrider.owner"
"""Their labels: which folder has the locked folders of processes with containers, and which of them is the owner's."""
BUILD_SECONDS, SECONDS = 1_800.0, 120.0
"""How long making an image or a container, which may download its image, and any other work of the engine may take."""
SAID_BYTES = 16_000
_NEEDED = (
    *("HOME", "PATH", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"),
    *("SSH_AUTH_SOCK", "KRB5CCNAME", "KUBECONFIG", "DBUS_SESSION_BUS_ADDRESS"),
)
_NEEDED_GROUPS = ("LC_", "DOCKER_", "CONTAINER_", "CONTAINERS_")


class Engine:
    """The program that runs containers."""

    def __init__(self, named: str = "", environ: Mapping[str, str] | None = None) -> None:
        """`named` is the user's choice, else docker or podman. Raises HandsError if there is none."""
        programs = Programs([os.getcwd()])
        found = next(filter(None, map(programs.find, [named] if named else ENGINES)), None)
        if not found:
            wanted = named or " or ".join(ENGINES)
            raise HandsError(
                f"containers need {wanted}, which is not installed here, or only inside the working folder"
            )
        self.program = found
        self._environment = place_environment(os.environ if environ is None else environ)

    async def run(self, *arguments: str, seconds: float = SECONDS) -> str:
        """Run a command of the engine, and return what it prints. Raises HandsError."""
        pipe, name = asyncio.subprocess.PIPE, os.path.basename(self.program)
        process = await start(
            [self.program, *arguments],
            environment=self._environment,
            input=asyncio.subprocess.DEVNULL,
            output=pipe,
            errors=pipe,
        )
        try:
            async with asyncio.timeout(seconds):
                output, errors = await process.communicate()
        except TimeoutError:
            raise HandsError(f"{name} {arguments[0]} took more than {seconds:g} seconds") from None
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        if process.returncode:
            lines = errors[-SAID_BYTES:].decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
            raise HandsError(f"{name} {arguments[0]} failed: {one_line(lines[-1], 600)}")
        return output.decode("utf-8", "replace")


class Containers:
    """The containers of this process. Those that a killed process has left are removed before the first is made."""

    def __init__(self, engine: Engine, owners: Path | None = None) -> None:
        """`owners` is a folder of this machine in which each process that has containers holds a locked folder."""
        self.engine = engine
        self._owners = owners or workspaces_folder() / "containers"
        here = f"{socket.gethostname()}\0{os.path.realpath(self._owners)}"
        self._label = f"{OWNERS}={sha256(here.encode()).hexdigest()[:16]}"
        self._owner: TemporaryFolder | None = None
        self._beginning = asyncio.Lock()

    async def create(self, image: str, key: str, options: Sequence[str] = ()) -> str:
        """Make a container of an image, and return its name, which the key decides. Hands start it.

        Raises HandsError.
        """
        if image.startswith("-"):  # it may be from the file of a task, and would be an option of the engine
            raise HandsError(f"there is no image {image[:60]!r}: an image is named as in python:3.12")
        async with self._beginning:
            if self._owner is None:
                self._owner = await self._begin()
        name = f"{OWN}{sha256(key.encode()).hexdigest()[:24]}"
        labels = ("--label", self._label, "--label", f"{OWNER}={self._owner.path.name}")
        idle = ("--entrypoint", "sleep", image, "infinity")
        await self.engine.run("create", "--name", name, *labels, *options, *idle, seconds=BUILD_SECONDS)
        return name

    @asynccontextmanager
    async def fresh(self, image: str, key: str) -> AsyncIterator[str]:
        """Make a container, and remove it at the end."""
        name = await self.create(image, key)
        try:
            yield name
        finally:
            await self.remove(name)

    async def build(self, folder: Path) -> str:
        """Build the image that the Dockerfile of a folder describes, and return its name. Layers are cached."""
        tag = f"outrider-task:{sha256(os.fsencode(folder)).hexdigest()[:16]}"
        await self.engine.run("build", "--quiet", "--tag", tag, str(folder), seconds=BUILD_SECONDS)
        return tag

    async def remove(self, name: str) -> None:
        """Remove a container with all that runs in it."""
        with suppress(HandsError):  # it is gone, or the next start removes it
            await self.engine.run("rm", "--force", "--volumes", name)

    async def close(self) -> None:
        """Remove all containers of this process."""
        if self._owner:
            for name, owner in await self._owned():
                if owner == self._owner.path.name:
                    await self.remove(name)
            self._owner.remove()

    async def _begin(self) -> TemporaryFolder:
        """Say that this process has containers, and remove those whose process has ended."""
        make_private(self._owners)
        owner = TemporaryFolder(self._owners / f"{PREFIX}{os.urandom(8).hex()}")  # removes those of ended processes
        for name, other in await self._owned():
            if not (self._owners / other).is_dir():
                await self.remove(name)
        return owner

    async def _owned(self) -> list[tuple[str, str]]:
        """Return the names of all our containers of this machine with their owners."""
        listed = await self.engine.run("ps", "--all", "--filter", f"label={self._label}", "--format", "{{.Names}}")
        names = [name for name in listed.split() if name.startswith(OWN)]
        form = f'{{{{index .Config.Labels "{OWNER}"}}}}'
        return [(name, (await self.engine.run("inspect", "--format", form, name)).strip()) for name in names]


def place_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of ssh, docker and the like: what they need, of which they may send some there."""
    given = command_environment(environ)
    return {name: value for name, value in given.items() if name in _NEEDED or name.startswith(_NEEDED_GROUPS)}
