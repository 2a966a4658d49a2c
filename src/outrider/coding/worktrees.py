"""Git worktrees of sub-agents and tasks: made from the folder as it is, merged back, or kept as a branch.

A worktree has everything that the folder has: the last commit, and what was changed since or is new, except for
secrets and files that git ignores. The folder's own index and branch are not touched. A worktree that no process works
in any more is turned into a branch by the next one that starts: nothing that was done is removed before it was merged.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import msgspec

from outrider.coding.git_commands import Git
from outrider.environment import worktrees_folder
from outrider.errors import ConfigError, OutriderError, SessionHeldError
from outrider.filesystem import make_private, open_lock, replace_private, try_lock
from outrider.processes.git import PLAIN_DIFF
from outrider.processes.programs import Programs
from outrider.struct_types import described
from outrider.text import counted
from outrider.tools.threads import Threads

NEW_FILE_BYTES = 10_000_000
"""The largest new file that a worktree gets."""
SHOWN_FILES = 10
MERGED = "Its changes were merged into the folder"
TURN_SECONDS = 300.0
"""How long to wait for others that merge, or make or remove a worktree."""
BRANCHES = "outrider/"
"""How the names of branches begin that keep what was not merged."""
ID_CHARACTERS = 8
_AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Outrider"), ("EMAIL", "outrider@localhost"))
}
"""Whom commits name that no branch of the user has."""


_REPOSITORY = b"160000 "
"""How the line of a submodule begins in a list of the index: with its mode."""


class _Origin(msgspec.Struct, frozen=True):
    """Where a worktree comes from."""

    top: str
    """The working tree of the repository."""
    base: str
    """The commit that it began with."""
    title: str = ""


class Worktree:
    """A worktree that this process works in."""

    def __init__(self, path: Path, origin: _Origin, folder: Path, programs: Programs) -> None:
        self.path = path
        self.folder = folder
        """What is in it for the folder that it was made from."""
        self._origin = origin
        self._git = Git(path, programs, more=_AUTHOR)
        self._main = Git(Path(origin.top), programs, more=_AUTHOR)
        self._is_over = False

    @property
    def branch(self) -> str:
        """The branch that keeps its changes if they cannot be merged."""
        return f"{BRANCHES}{self.path.name[:ID_CHARACTERS]}"

    def settle(self, secrets: Callable[[str], bool], *, merge: bool) -> str:
        """Merge its changes into the folder, or keep them as a branch; remove it. Return what became of them."""
        if self._is_over:
            return ""
        final = self._commit()
        changed = self._main.run("diff", *PLAIN_DIFF, "--name-only", "-z", "--no-renames", self._origin.base, final)
        names = [os.fsdecode(name) for name in changed.split(b"\0") if name]
        conflict = "it did not finish"
        if merge and names:
            with _one_at_a_time():
                conflict = self._merge(final, secrets)
                if conflict:
                    self._keep(final)
        elif names:
            self._keep(final)
        self._remove(forget=not names or not conflict)
        return self._outcome(names, conflict if names else "")

    def _outcome(self, names: list[str], conflict: str) -> str:
        if not names:
            return "[Its worktree has no changes.]"
        shown = ", ".join(names[:SHOWN_FILES]) + (" …" if len(names) > SHOWN_FILES else "")
        if not conflict:
            return f"[{MERGED}: {counted(len(names), 'file')}: {shown}]"
        base = self._origin.base[:12]
        return (
            f"[Its changes of {counted(len(names), 'file')} ({shown}) were not merged: {conflict}. They are kept in "
            f"the branch {self.branch}. To see them: git diff {base} {self.branch}. To apply them: git diff {base} "
            f"{self.branch} | git apply --3way]"
        )

    def _commit(self) -> str:
        """Return a commit with all that is in it now."""
        _add(self._git, "--all")
        tree = self._git.say("write-tree")
        return self._git.say("commit-tree", tree, "-p", self._origin.base, "-m", self._origin.title or "Work")

    def _merge(self, final: str, secrets: Callable[[str], bool]) -> str:
        """Merge a commit into the folder as it is now. Return why it was not, or ""."""
        now = snapshot(self._main, secrets, parent=self._origin.base)
        code, said = self._main.ask("merge-tree", "--write-tree", "--name-only", "--no-messages", now, final)
        if code == 1:
            return f"conflicts with what has changed in the folder since in {', '.join(said.split()[1:])}"
        wanted = (now, said.split()[0]) if code == 0 else (self._origin.base, final)  # git before 2.38 cannot merge so
        patch = self._main.run("diff", *PLAIN_DIFF, "--binary", "--full-index", "--no-renames", *wanted)
        if not patch:
            return ""
        code, said = self._main.ask("apply", "--whitespace=nowarn", "-", input=patch)
        return f"git apply says {said.strip().splitlines()[0] if said.strip() else code}" if code else ""

    def _keep(self, final: str) -> None:
        self._main.run("update-ref", f"refs/heads/{self.branch}", final)

    def _remove(self, *, forget: bool) -> None:
        self._is_over = True
        if forget:
            self._main.run("update-ref", "-d", f"refs/heads/{self.branch}", fails=True)
        with _one_at_a_time():
            self._main.run("worktree", "remove", "--force", "--force", str(self.path), fails=True)
            shutil.rmtree(self.path, ignore_errors=True)
            self._main.run("worktree", "prune", fails=True)


class Worktrees:
    """The worktrees of this user."""

    def __init__(self, programs: Programs, secrets: Callable[[str], bool]) -> None:
        """`secrets` returns whether a path is one that no agent may open."""
        self._programs = programs
        self._secrets = secrets
        self._folder = worktrees_folder()

    @asynccontextmanager
    async def open(self, folder: Path, name: str, title: str) -> AsyncIterator[Worktree]:
        """Make a worktree for a folder; one that was kept goes on. What was not settled at the end is kept.

        Raises ConfigError if there is no repository, and SessionHeldError while another process works there.
        """
        if not re.fullmatch(r"[\w.-]*\w", name):  # it may be from a log that was imported
            raise ConfigError(f"a worktree cannot be called {name!r:.80}")
        lock = open_lock(self._folder / f"{name}.lock")
        threads = Threads()
        try:
            if not try_lock(lock):
                raise SessionHeldError("another process works in this worktree")
            made = await threads.run(self._make, folder, name, title)
            try:
                yield made
            finally:
                await asyncio.shield(asyncio.ensure_future(threads.run(self._close, made, name)))
        finally:
            os.close(lock)

    async def settle(self, worktree: Worktree, status: str) -> str:
        """Merge the changes of one that is done; keep those of another. Return what became of them."""
        try:
            return await Threads().run(lambda: worktree.settle(self._secrets, merge=status == "done"))
        except OutriderError as error:
            return f"[Its changes were not merged: {error}. They are kept in the branch {worktree.branch}.]"

    def _close(self, worktree: Worktree, name: str) -> None:
        try:
            worktree.settle(self._secrets, merge=False)
        except OutriderError:  # the next process tries again, and says where it is
            return
        (self._folder / f"{name}.json").unlink(missing_ok=True)
        (self._folder / f"{name}.lock").unlink(missing_ok=True)

    def _make(self, folder: Path, name: str, title: str) -> Worktree:
        git = Git(folder, self._programs, more=_AUTHOR)
        try:
            top = Path(git.say("rev-parse", "--show-toplevel"))
            head = git.say("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        except OutriderError:
            raise ConfigError("isolation by a worktree needs a git repository with a commit") from None
        path = self._folder / name
        if path.exists():  # its process was killed
            self._recover(name)
        main = Git(top, self._programs, more=_AUTHOR)
        kept = main.say("rev-parse", "--verify", "--quiet", f"refs/heads/{BRANCHES}{name[:ID_CHARACTERS]}", fails=True)
        base = main.say("rev-parse", f"{kept}^") if kept else snapshot(main, self._secrets, parent=head)
        origin = _Origin(str(top), base, title)
        replace_private(self._folder / f"{name}.json", msgspec.json.encode(origin))
        with _one_at_a_time():  # git fails if it finds a worktree that another git has half made
            self._check_out(main, path, kept or base)
        path.chmod(0o700)
        return Worktree(path, origin, path / os.path.relpath(os.path.realpath(folder), top), self._programs)

    def _check_out(self, main: Git, path: Path, commit: str) -> None:
        """Make a worktree. Settings may hold for it alone (`includeIf`), so its own filters are turned off."""
        main.run("worktree", "add", "--quiet", "--detach", "--no-checkout", str(path), commit)
        try:
            Git(path, self._programs, more=_AUTHOR).run("reset", "--hard", "--quiet")
        except OutriderError:
            main.run("worktree", "remove", "--force", "--force", str(path), fails=True)
            raise

    def recover(self) -> list[str]:
        """Turn the worktrees of processes that have ended into branches. Return what to tell the user."""
        notes: list[str] = []
        for path in sorted(self._folder.glob("*.json")) if self._folder.is_dir() else ():
            lock = open_lock(path.with_suffix(".lock"))
            try:
                if try_lock(lock) and (note := self._recover(path.stem)):
                    notes.append(note)
            except (OSError, OutriderError) as error:
                notes.append(f"a worktree of a program that has ended is still at {path.with_suffix('')}: {error}")
            finally:
                os.close(lock)
        return notes

    def _recover(self, name: str) -> str:
        """Keep what is in a worktree whose process has ended, and remove it. Return what to tell the user, or ""."""
        path = self._folder / name
        told = ""
        if path.is_dir():
            origin = msgspec.json.decode((self._folder / f"{name}.json").read_bytes(), type=described(_Origin))
            left = Worktree(path, origin, path, self._programs)
            said = left.settle(self._secrets, merge=False)
            told = f"{origin.title or 'a sub-agent'} was interrupted in {origin.top}: {said.strip('[]')}"
            told = "" if "has no changes" in said else told
        for suffix in (".json", ".lock"):
            with suppress(OSError):
                (self._folder / f"{name}{suffix}").unlink()
        return told


def snapshot(git: Git, secrets: Callable[[str], bool], *, parent: str) -> str:
    """Return a commit with the working tree as it is, after `parent`: without ignored, secret and large new files.

    The index of the user is copied, not changed.
    """
    index = git.folder / git.say("rev-parse", "--git-path", "index")
    make_private(worktrees_folder())
    own = worktrees_folder() / f"index-{os.urandom(8).hex()}"
    try:
        if index.exists():
            shutil.copyfile(index, own)
        private = git.with_index(own)
        _add(private, "--update")
        listed = private.run("ls-files", "--others", "--exclude-standard", "-z").split(b"\0")
        new = [name for name in listed if name and _is_taken(git.folder / os.fsdecode(name), secrets)]
        private.run("update-index", "--add", "-z", "--stdin", input=b"".join(name + b"\0" for name in new))
        tree = private.say("write-tree")
        if tree == git.say("rev-parse", f"{parent}^{{tree}}"):
            return parent
        return git.say("commit-tree", tree, "-p", parent, "-m", "The folder as it was")
    finally:
        own.unlink(missing_ok=True)


def _add(git: Git, which: str) -> None:
    """Bring the files of the working tree into the index: `--all`, or with `--update` those that are in it.

    Submodules, and repositories that were added as such, stay as they are in the index. To compare one, git would start
    another git in it, which runs the filters that its settings name; a command in the sandbox can write these.
    """
    entries = git.run("ls-files", "--stage", "--full-name", "-z", "--", ":/").split(b"\0")
    inner = dict.fromkeys(entry.partition(b"\t")[2] for entry in entries if entry.startswith(_REPOSITORY))
    chosen = [b":/", *(b":(top,exclude,literal)" + path for path in inner)]
    git.run("add", which, "--pathspec-from-file=-", "--pathspec-file-nul", input=b"\0".join(chosen))


def _is_taken(path: Path, secrets: Callable[[str], bool]) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return not path.is_dir() and status.st_size <= NEW_FILE_BYTES and not secrets(str(path))


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Wait until nothing else merges, or makes or removes a worktree, in any process."""
    lock = open_lock(worktrees_folder() / "turn.lock")
    until = time.monotonic() + TURN_SECONDS
    try:
        while not try_lock(lock):
            if time.monotonic() > until:
                raise OutriderError("another process has been at work on worktrees for minutes; changes wait in theirs")
            time.sleep(0.05)
        yield
    finally:
        os.close(lock)
