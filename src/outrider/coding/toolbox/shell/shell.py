"""The shell that runs commands: how it starts inside the sandbox, and how it reports its last working directory.

`decide` in `coding/permissions/decision.py` has allowed the command by then.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import msgspec

from outrider.coding.access import Access
from outrider.coding.sandbox.sandbox import Confinement, DoubtError, FindSandbox, Sandbox
from outrider.coding.toolbox.shell.outcomes import missing_access
from outrider.coding.toolbox.tool_errors import ToolCallError, printable
from outrider.coding.toolbox.workspace import Workspace
from outrider.processes.process_tree import MARK
from outrider.processes.processes import DEVNULL, Process
from outrider.processes.programs import Programs
from outrider.processes.pseudo_terminal import taking_terminal
from outrider.trace_context import trace_variables

_UNATTENDED = {"PAGER": "cat", "GIT_PAGER": "cat", "TERM": "dumb"}  # pagers must not wait for a key
_OBEYED = {
    # A bare repository inside the project must not choose what git runs.
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.bareRepository",
    "GIT_CONFIG_VALUE_0": "explicit",
}
VARIABLES = {**_UNATTENDED, **_OBEYED}
_IN_TERMINAL = {"TERM": "xterm-256color", "NO_COLOR": "1", **_OBEYED}
"""For a command that the model types into. Editors and git do not work with a dumb terminal."""
ENV = "/usr/bin/env"
"""An absolute path, because PATH might lead to another program."""

_HIGH = (87, 30, 10)
"""Scripts use low file descriptors for their own files, and 200 for locks. The lower ones are for small limits."""
_LONGEST_REPORT = 64 * 1024
_CHANGES_FOLDER = re.compile(r"\b(cd|pushd|popd)\b")


def _high_duplicate(handle: int) -> int:
    """Return a descriptor of the same file with a number that scripts seldom use, below the limit of open files."""
    import fcntl

    for lowest in _HIGH:
        with contextlib.suppress(OSError):
            return fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, lowest)
    return fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, 3)


class FolderReport:
    """An unnamed file to which a shell writes its working directory when it ends. Other content is ignored."""

    def __init__(self, temporary: Path) -> None:
        import fcntl
        import tempfile

        with tempfile.TemporaryFile(dir=temporary) as file:
            self.handle = _high_duplicate(file.fileno())
        fcntl.fcntl(self.handle, fcntl.F_SETFL, os.O_APPEND)
        self._key = os.urandom(8).hex()

    def trap(self, shell: str) -> str:
        """Return the trap that makes the shell report, whether it ends normally, by `exit` or by an error."""
        say = f"{{ printf %s {self._key}; command pwd -P || :; printf %s {self._key}; }} 2>/dev/null"
        return f"trap {shlex.quote(f'{say} {self._redirect(shell)}')} EXIT"

    def _redirect(self, shell: str) -> str:
        # Shells other than bash allow no descriptors above 9 here.
        return f">&{self.handle}" if shell == "bash" else f">>/dev/fd/{self.handle}"

    def read(self) -> str | None:
        """Return the folder; "" if it no longer exists; None if the shell did not report one."""
        size = os.fstat(self.handle).st_size
        data = os.pread(self.handle, _LONGEST_REPORT, max(0, size - _LONGEST_REPORT))
        pieces = data.split(self._key.encode())
        return os.fsdecode(pieces[-2].removesuffix(b"\n")) if len(pieces) > 2 else None

    def close(self) -> None:
        os.close(self.handle)


class NamedFolderReport(FolderReport):
    """A report for a shell that another program starts, which inherits no descriptor: a file for the owner alone.

    It is read through the descriptor that created it, so a command cannot replace it.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"folder-{os.urandom(8).hex()}.txt"
        self.handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._key = os.urandom(8).hex()

    def _redirect(self, shell: str) -> str:
        return f">>{shlex.quote(str(self._path))}"

    def close(self) -> None:
        super().close()
        self._path.unlink(missing_ok=True)


class CommandCall(msgspec.Struct, frozen=True):
    """A command, and how a call runs it."""

    command: str
    access: Access
    seconds: float
    """How long the call waits for it."""
    progress: Callable[[object], None]
    unasked: bool = False
    """Whether only the names of its programs allow it. It then runs at `read`."""


class Shell:
    """Starts commands in the folder where the previous one ended.

    A `sandbox` that is a function is called when a command runs. Without an `environment`, commands inherit that of
    this process; in an editor's terminal they get the editor's, with the PATH of `environment` and without the
    variables in `unset`. `places` returns where a command of an access level works, for the sandbox.
    """

    def __init__(
        self,
        workspace: Workspace,
        sandbox: Sandbox | FindSandbox | None = None,
        environment: Mapping[str, str] | None = None,
        unset: Sequence[str] = (),
        places: Callable[[Access], Confinement] | None = None,
    ) -> None:
        self.workspace = workspace
        self._sandbox = sandbox
        here = Confinement(folder=workspace.folder, cwd=workspace.folder, temporary=workspace.folder, secrets=())
        self._places = places or (lambda _: here)
        self._writable = self._places("read").writable
        self.unset = unset
        """Variables removed from the environment of commands, also in an editor's terminal."""
        self._environment = environment
        path = None if environment is None else environment.get("PATH", os.defpath)
        self._programs = Programs((workspace.folder, *self._writable), path)
        self._spool: Path | None = None

    @property
    def sandbox(self) -> Sandbox | None:
        return self._sandbox() if callable(self._sandbox) else self._sandbox

    @property
    def folder(self) -> Path:
        """The folder where the next command runs."""
        return self.workspace.shell_cwd

    def shared_tmp(self) -> Path:
        """Return a temporary folder that commands can write to, also inside a sandbox."""
        folder = self.workspace.temporary / "tmp"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def new_spool(self) -> Path:
        """Return a path for the output of a command, and delete the previous one, which was stored if needed."""
        if self._spool:
            self._spool.unlink(missing_ok=True)
        self._spool = self.workspace.temporary / f"output-{os.urandom(4).hex()}.txt"
        return self._spool

    def start(
        self, call: CommandCall, output: int, report: FolderReport | None = None, *, has_terminal: bool = False
    ) -> Process:
        """Start a command that prints to `output`. Raises ToolCallError if that is impossible.

        With `has_terminal`, `output` is a terminal, which becomes the command's own.
        """
        mark = self.workspace.processes.next_mark()
        settings = self._settings(call.access, call.unasked, _IN_TERMINAL if has_terminal else VARIABLES)
        try:
            return self.workspace.processes.start(
                self._argv(call.command, mark, settings, report, call.access, has_terminal=has_terminal),
                mark,
                folder=self.workspace.shell_cwd,
                environment=self._environment,
                input=output if has_terminal else DEVNULL,
                output=output,
                handles=[report.handle] if report else [],
            )
        except OSError as error:
            raise self._start_error(error, call.command) from None

    def argv(self, command: str, mark: str, access: Access) -> list[str]:
        """Return the arguments that run a command of the user, such as a hook, in the sandbox.

        Doubts about the sandbox do not count: the user chose the command. Outside the sandbox, PATH has no entry in the
        project: the user agreed to the hook, not to such programs. Raises ToolCallError if there is no shell.
        """
        try:
            return self._argv(command, mark, self._settings(access, True), None, access, trusted=True)
        except OSError as error:
            raise self._start_error(error, command) from None

    def editor_argv(self, call: CommandCall, mark: str, report: FolderReport) -> list[str]:
        """Return the arguments that run a command like `start`, but from another program. Raises ToolCallError."""
        path = (self._environment or {}).get("PATH")
        settings = {**({} if path is None else {"PATH": path}), **self._settings(call.access, call.unasked)}
        try:
            argv = self._argv(call.command, mark, settings, report, call.access)
        except OSError as error:
            raise self._start_error(error, call.command) from None
        unset = [word for name in self.unset for word in ("-u", name)]
        # Before the sandbox: inside, the environment of its first process would show the variables.
        return [ENV, *unset, *argv] if unset else argv

    def _settings(self, access: Access, unasked: bool, variables: Mapping[str, str] = VARIABLES) -> Mapping[str, str]:
        # Without a sandbox, PATH has no entry in the project for a command that runs because of its name.
        confined = access != "full" and self.sandbox is not None
        return {**variables, "PATH": self._programs.path} if unasked and not confined else variables

    def _argv(
        self,
        command: str,
        mark: str,
        settings: Mapping[str, str],
        report: FolderReport | None,
        access: Access,
        *,
        trusted: bool = False,
        has_terminal: bool = False,
    ) -> list[str]:
        program = self._program
        name = os.path.basename(program)
        variables = [f"{key}={value}" for key, value in {**settings, **trace_variables(), MARK: mark}.items()]
        # With an argument and `eval`, syntax errors stay inside the command and its line numbers are right.
        script = f'{report.trap(name) if report else ":"}; eval "shift; $1"'
        argv = [ENV, *variables, program, "-c", script, name, command]
        return self._sandboxed(taking_terminal(argv) if has_terminal else argv, access, trusted, has_terminal)

    def enter_folder(self) -> str:
        """Check that the working directory exists. Return a note for the model if the command runs in another one."""
        workspace = self.workspace
        if workspace.shell_cwd.is_dir():
            return ""
        gone, workspace.shell_cwd = workspace.shell_cwd, workspace.folder
        if not workspace.folder.is_dir():
            raise ToolCallError(
                f"The command was not run: the folder {printable(str(workspace.folder))} does not exist."
            )
        return f"The folder {printable(str(gone))} does not exist any more, so the command ran in {workspace.folder}."

    def leave_folder(self, command: str, report: FolderReport) -> str:
        """Keep the command's last folder for the next one. Return a note for the model if it is not kept."""
        reported = report.read()
        note = self._set_cwd(reported)
        if reported is None and not note and _CHANGES_FOLDER.search(command):
            return f"The shell did not say in which folder it ended: the next command runs in {self.folder}."
        return note

    def missing_access(self, access: Access, exit_code: int | None, output: str) -> str:
        """Return a note for the model if a command failed because its access level was too low."""
        if self.sandbox is None:
            return ""
        return missing_access(access, exit_code, output, self.folder, (self.workspace.folder, *self._writable))

    def _set_cwd(self, report: str | None) -> str:
        workspace = self.workspace
        if report is None:
            return "" if workspace.shell_cwd.is_dir() else self._reset_cwd("The shell's folder does not exist any more")
        if not report or not os.path.isdir(report):
            return self._reset_cwd("The shell's folder does not exist any more")
        folder = Path(report).resolve()
        if not folder.is_relative_to(workspace.folder):
            return self._reset_cwd(f"{printable(report)} is outside the workspace")
        workspace.shell_cwd = folder
        return ""

    def _reset_cwd(self, reason: str) -> str:
        self.workspace.shell_cwd = self.workspace.folder
        return f"{reason}: the next command runs in {self.workspace.folder}."

    @cached_property
    def _program(self) -> str:
        if found := self._programs.find("bash") or self._programs.find("sh"):
            return found
        raise ToolCallError("The command was not run: there is no shell, neither bash nor sh is in the PATH.")

    def _sandboxed(self, argv: list[str], access: Access, trusted: bool, has_terminal: bool) -> list[str]:
        sandbox = self.sandbox
        if sandbox is None:
            return argv
        given = self._places(access)
        places = msgspec.structs.replace(
            given,
            cwd=self.workspace.shell_cwd,
            temporary=self.shared_tmp(),
            accepted=None if trusted else given.accepted,
            has_terminal=has_terminal,
        )
        if access != "full" and places.own.hides(os.path.realpath(places.cwd)):
            raise ToolCallError(
                f"The command was not run: {printable(str(places.cwd))} holds Outrider's own data, which commands do "
                "not see. Work in another folder."
            )
        try:
            return sandbox.wrap(argv, access, places)
        except DoubtError as doubt:
            raise ToolCallError(f"The command was not run: {doubt}. Run it again: the user is asked.") from None

    def _start_error(self, error: OSError, command: str) -> ToolCallError:
        if error.errno == errno.E2BIG:
            size = len(command.encode(errors="replace"))
            return ToolCallError(
                f"The command was not run: with {size:,} bytes it is too long for the system. "
                "Write it to a file with Write, and run that."
            )
        reason = (error.strerror or "the system gives no reason").lower()
        return ToolCallError(f"The command was not run: {reason} ({printable(str(error.filename or 'the shell'))}).")
