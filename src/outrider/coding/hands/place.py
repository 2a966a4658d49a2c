"""Where hands work: another machine, a container, a pod, or wherever a command leads."""

from __future__ import annotations

import os
import re
import shlex
from typing import Literal, TypeAlias
from urllib.parse import unquote

import msgspec

from outrider.coding.hands.containers import ENGINES, OWN, Engine, place_environment
from outrider.coding.hands.starter import Installation, ProgramStarter, ShellScript, Streams
from outrider.errors import ConfigError, HandsError
from outrider.processes.programs import ProgramNotFoundError, Programs
from outrider.text.visible import revealed_line

Kind: TypeAlias = Literal["ssh", "container", "pod", "command"]

FORMS = "ssh://[user@]host[:port]/path, container:NAME/path, pod:NAME/path, or a command line in quotes"
SSH_OPTIONS = (
    *("-T", "-a", "-x", "-oBatchMode=yes", "-oClearAllForwardings=yes", "-oRemoteCommand=none"),
    *("-oSessionType=default", "-oConnectTimeout=20", "-oServerAliveInterval=15", "-oServerAliveCountMax=3"),
)
"""No terminal, no question on our stream, nothing forwarded, and a dead connection is noticed within a minute."""
_SSH = re.compile(
    r"ssh://(?:(?P<user>[^@/]*)@)?(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^\[\]:/@]*)(?::(?P<port>[^/]*))?(?P<path>/.*)?",
    re.DOTALL,
)
_NAMED = re.compile(r"(?P<kind>container|docker|podman|pod):(?P<name>[^/]*)(?P<path>/.*)?", re.DOTALL)
_WORD = re.compile(r"[\w][\w.-]*", re.ASCII)


class Place(msgspec.Struct, frozen=True):
    """Where hands work, and how they are started. It is the `workspace` of a `Workbench`.

    >>> Place.parse("ssh://ann@build:2222/srv/app").describe()
    'ssh://ann@build:2222/srv/app'
    >>> Place.parse("ssh://build/~/app").folder
    '~/app'
    """

    kind: Kind
    name: str
    """The host with its user, the container or the pod; empty for a command."""
    folder: str = ""
    """The working folder there; empty for where a command begins."""
    port: int | None = None
    command: tuple[str, ...] = ()
    """A command line; what runs there is appended to it, unless it runs `outrider hands` by itself."""
    engine: str = ""
    """The program for containers; empty for the first of docker and podman that is there."""

    @staticmethod
    def parse(text: str, engine: str = "") -> Place:
        """Return the place that a user named. Raises ConfigError."""
        if any(ord(each) < 32 or ord(each) == 127 for each in text):
            raise ConfigError(f"the workspace {revealed_line(text)} has a control character")
        if found := _SSH.fullmatch(text):
            return _ssh_place(text, found)
        if text.startswith("ssh:"):
            raise _wrong(text)
        if found := _NAMED.fullmatch(text):
            kind, name = found["kind"], found["name"]
            if not _WORD.fullmatch(name):
                raise _wrong(text)
            named = kind if kind in ENGINES else engine
            return Place("pod" if kind == "pod" else "container", name, found["path"] or "", engine=named)
        return _command_place(text)

    def describe(self) -> str:
        """Return the place as the user would write it, safe to show."""
        if self.kind == "command":
            return revealed_line(shlex.join(self.command))
        if self.kind == "ssh":
            port = f":{self.port}" if self.port else ""
            path = self.folder if self.folder.startswith("/") else f"/{self.folder}"
            return revealed_line(f"ssh://{self.name}{port}{path}")
        return revealed_line(f"{self.kind}:{self.name}{self.folder}")

    async def start(self) -> Streams:
        """Start `outrider hands` there. Raises HandsError."""
        if self.kind == "container" and self.name.startswith(OWN):
            await Engine(self.engine).run("start", self.name)
        script = ShellScript()
        argv = self.argv(script.text, Programs([os.getcwd()]))
        streams = await ProgramStarter(argv, self.describe(), place_environment(os.environ)).start()
        if not self.is_complete:
            await Installation(streams, script.word).run(self.folder)
        return streams

    @property
    def is_complete(self) -> bool:
        """Whether the command itself runs the hands: it ends with `outrider hands` or with a bundle and its options."""
        words = self.command
        if len(words) > 2 and words[-2] == "--folder":
            words = words[:-2]
        runs_outrider = len(words) > 1 and words[-1] == "hands" and os.path.basename(words[-2]) == "outrider"
        return bool(words) and (runs_outrider or words[-1].endswith(".pyz"))

    def argv(self, script: str, programs: Programs) -> list[str]:
        """Return the command that runs a script of `sh` there. Raises HandsError if its program is missing."""
        shell = ["sh", "-c", script]
        match self.kind:
            case "ssh":
                port = [f"-p{self.port}"] if self.port else []
                # ssh joins its arguments with spaces, and the login shell there splits them again.
                return [_program(programs, "ssh"), *SSH_OPTIONS, *port, "--", self.name, f"exec sh -c '{script}'"]
            case "container":
                return [Engine(self.engine).program, "exec", "-i", self.name, *shell]
            case "pod":
                return [_program(programs, "kubectl"), "exec", "-i", self.name, "--", *shell]
            case "command":
                program = _program(programs, self.command[0])
                return [program, *self.command[1:], *([] if self.is_complete else shell)]


def _program(programs: Programs, name: str) -> str:
    try:
        return programs.require(name)
    except ProgramNotFoundError as error:
        raise HandsError(str(error)) from None


def _ssh_place(text: str, found: re.Match[str]) -> Place:
    user, host, port = found["user"], found["host"].strip("[]"), found["port"]
    if user is not None and ":" in user:
        raise ConfigError("a workspace has no password: let ssh log in with a key or an agent, and remove it")
    is_host = ":" in host or _WORD.fullmatch(host)
    if not is_host or (user is not None and not _WORD.fullmatch(user)):
        raise _wrong(text)
    if port is not None and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ConfigError(f"the workspace {revealed_line(text)} has no port between 1 and 65535")
    path = unquote(found["path"] or "/~")
    if "\0" in path or "\n" in path:
        raise _wrong(text)
    folder = path[1:] if path.startswith("/~") else path
    return Place("ssh", f"{user}@{host}" if user else host, folder, int(port) if port else None)


def _command_place(text: str) -> Place:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"the workspace {revealed_line(text)} is no command line: {error}") from None
    if os.path.isdir(text):
        raise ConfigError(f"{revealed_line(text)} is a folder of this machine: use --cwd for it")
    if len(words) < 2:
        raise _wrong(text)
    return Place("command", "", command=tuple(words))


def _wrong(text: str) -> ConfigError:
    return ConfigError(f"{revealed_line(text)!r} is not a workspace; write {FORMS}")
