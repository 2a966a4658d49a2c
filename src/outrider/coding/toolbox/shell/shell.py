"""The shell that runs commands: how it is started, and where it says in which folder it ended."""

from __future__ import annotations

import errno
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from outrider.coding.sandbox import Sandbox
from outrider.coding.toolbox.refusals import RefusalError, shown
from outrider.coding.toolbox.shell.family import MARK
from outrider.coding.toolbox.shell.processes import Process
from outrider.coding.toolbox.workspace import Workspace

SETTINGS = {
    # Nothing waits for somebody to turn the page.
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "TERM": "dumb",
    # A folder that looks like a repository, inside another one, does not get to say what git runs.
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.bareRepository",
    "GIT_CONFIG_VALUE_0": "explicit",
}
ENV = "/usr/bin/env"
"""Named in full: the PATH might lead to another."""

_HIGH = 87
"""Scripts use low numbers for files of their own, and 200 for locks."""
_LONGEST_REPORT = 64 * 1024
_CHANGES_FOLDER = re.compile(r"\b(cd|pushd|popd)\b")


class FolderReport:
    """A file without a name, to which a shell writes its folder when it ends. Whatever else gets there is ignored."""

    def __init__(self, temporary: Path) -> None:
        import fcntl
        import tempfile

        with tempfile.TemporaryFile(dir=temporary) as file:
            self.handle = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, _HIGH)
        fcntl.fcntl(self.handle, fcntl.F_SETFL, os.O_APPEND)
        self._key = os.urandom(8).hex()

    def trap(self, shell: str) -> str:
        """What makes the shell report, however it ends: at its end, by `exit`, by an error."""
        say = f"{{ printf %s {self._key}; command pwd -P || :; printf %s {self._key}; }} 2>/dev/null"
        return f"trap {shlex.quote(f'{say} {self._place(shell)}')} EXIT"

    def _place(self, shell: str) -> str:
        # Other shells than bash know no numbers above 9 here.
        return f">&{self.handle}" if shell == "bash" else f">>/dev/fd/{self.handle}"

    def read(self) -> str | None:
        """The folder; empty if it does not exist any more; None if the shell did not say."""
        size = os.fstat(self.handle).st_size
        data = os.pread(self.handle, _LONGEST_REPORT, max(0, size - _LONGEST_REPORT))
        pieces = data.split(self._key.encode())
        return os.fsdecode(pieces[-2].removesuffix(b"\n")) if len(pieces) > 2 else None

    def close(self) -> None:
        """It is not needed any more."""
        os.close(self.handle)


class NamedFolderReport(FolderReport):
    """A report for a shell that somebody else starts, to whom no handle can be passed on: a file for the owner alone.

    It is read by the handle that it was made with, whatever the command puts in its place.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"folder-{os.urandom(8).hex()}.txt"
        self.handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._key = os.urandom(8).hex()

    def _place(self, shell: str) -> str:
        return f">>{shlex.quote(str(self._path))}"

    def close(self) -> None:
        """It is not needed any more."""
        super().close()
        self._path.unlink(missing_ok=True)


class Shell:
    """Starts commands in the folder where the last one ended."""

    def __init__(
        self,
        workspace: Workspace,
        sandbox: Sandbox | None = None,
        environment: Mapping[str, str] | None = None,
        unwanted: Sequence[str] = (),
    ) -> None:
        self.workspace = workspace
        self.sandbox = sandbox
        self.unwanted = unwanted
        """Variables that commands must not have, also where they are started from another environment."""
        self._environment = environment
        self._spool: Path | None = None

    @property
    def folder(self) -> Path:
        """Where the next command runs."""
        return self.workspace.shell_cwd

    def reachable_folder(self) -> Path:
        """A temporary folder to which commands can write, those in a sandbox too."""
        folder = self.workspace.temporary / "tmp"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def new_spool(self) -> Path:
        """A path for the output of a command. That of the one before is removed: whoever wanted it has stored it."""
        if self._spool:
            self._spool.unlink(missing_ok=True)
        self._spool = self.workspace.temporary / f"output-{os.urandom(4).hex()}.txt"
        return self._spool

    def start(self, command: str, output: int, report: FolderReport | None = None) -> Process:
        """Start a command that prints to `output`. Raises RefusalError where that is impossible."""
        mark = self.workspace.processes.next_mark()
        try:
            return self.workspace.processes.start(
                self._argv(command, mark, SETTINGS, report),
                mark,
                folder=self.workspace.shell_cwd,
                environment=self._environment,
                output=output,
                handles=[report.handle] if report else [],
            )
        except OSError as error:
            raise self._refusal(error, command) from None

    def for_another(self, command: str, mark: str, report: FolderReport) -> list[str]:
        """The program that runs a command as `start` does, wherever it is started. Raises RefusalError."""
        path = (self._environment or {}).get("PATH")
        settings = SETTINGS if path is None else {**SETTINGS, "PATH": path}
        argv = self._argv(command, mark, settings, report)
        without = [word for name in self.unwanted for word in ("-u", name)]
        return [ENV, *without, *argv] if without else argv  # outside a sandbox, whose first process shows what it has

    def _argv(self, command: str, mark: str, settings: Mapping[str, str], report: FolderReport | None) -> list[str]:
        program = self._program()
        name = os.path.basename(program)
        variables = [f"{key}={value}" for key, value in {**settings, MARK: mark}.items()]
        # By way of an argument and `eval`, errors in the command are its own, and its lines keep their numbers.
        script = f'{report.trap(name) if report else ":"}; eval "shift; $1"'
        return self._fenced([ENV, *variables, program, "-c", script, name, command])

    def enter_folder(self) -> str:
        """Make sure that the folder is there. Gives a note for the model if it is another than before."""
        workspace = self.workspace
        if workspace.shell_cwd.is_dir():
            return ""
        gone, workspace.shell_cwd = workspace.shell_cwd, workspace.folder
        if not workspace.folder.is_dir():
            raise RefusalError(f"The command was not run: the folder {shown(str(workspace.folder))} does not exist.")
        return f"The folder {shown(str(gone))} does not exist any more, so the command ran in {workspace.folder}."

    def leave_folder(self, command: str, report: FolderReport) -> str:
        """Keep the folder in which a command ended for the next one. Gives a note for the model if it is not kept."""
        reported = report.read()
        note = self._go_to(reported)
        if reported is None and not note and _CHANGES_FOLDER.search(command):
            return f"The shell did not say in which folder it ended: the next command runs in {self.folder}."
        return note

    def _go_to(self, report: str | None) -> str:
        workspace = self.workspace
        if report is None:
            return "" if workspace.shell_cwd.is_dir() else self._back("The shell's folder does not exist any more")
        if not report or not os.path.isdir(report):
            return self._back("The shell's folder does not exist any more")
        folder = Path(report).resolve()
        if not folder.is_relative_to(workspace.folder):
            return self._back(f"{shown(report)} is outside the workspace")
        workspace.shell_cwd = folder
        return ""

    def _back(self, reason: str) -> str:
        self.workspace.shell_cwd = self.workspace.folder
        return f"{reason}: the next command runs in {self.workspace.folder}."

    def _program(self) -> str:
        import shutil

        path = None if self._environment is None else self._environment.get("PATH", os.defpath)
        for name in ("bash", "sh"):
            found = shutil.which(name, path=path)
            if found and os.path.isabs(found):  # a relative entry of the PATH leads into the project
                return found
        raise RefusalError("The command was not run: there is no shell, neither bash nor sh is in the PATH.")

    def _fenced(self, argv: list[str]) -> list[str]:
        if self.sandbox is None:
            return argv
        return self.sandbox.wrap(argv, self.workspace.folder, self.workspace.shell_cwd, self.reachable_folder())

    def _refusal(self, error: OSError, command: str) -> RefusalError:
        if error.errno == errno.E2BIG:
            size = len(command.encode(errors="replace"))
            return RefusalError(
                f"The command was not run: with {size:,} bytes it is too long for the system. "
                "Write it to a file with Write, and run that."
            )
        reason = (error.strerror or "the system gives no reason").lower()
        return RefusalError(f"The command was not run: {reason} ({shown(str(error.filename or 'the shell'))}).")
