"""The bubblewrap sandbox: namespaces, bind mounts and a seccomp filter around a command (Linux).

Protected paths that do not exist are taken by empty folders while commands run, so that they cannot create them.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from outrider.coding import placeholder_keeper as keeper
from outrider.coding.access import Access
from outrider.coding.sandbox.sandbox import Confinement, Host, RuntimeFiles, check_doubts, is_inside
from outrider.coding.sandbox.secret_search import FoundSecrets, SecretSearch
from outrider.filesystem import is_within, real_path

_SHELL = "/bin/sh"
_TICKET_HANDLE, _FILTER_HANDLE = 8, 9
_SCRIPT = f'exec "$@" {_FILTER_HANDLE}<"$0"'
"""Opens the filter, because bwrap inherits no descriptor of ours."""
_LATE = "outrider: the command was not run: it was prepared too long ago, or Outrider has ended."
_TICKET_SCRIPT = (
    f'exec {_TICKET_HANDLE}<>"$1" || exit 126; [ -p "$1" ] || {{ echo "{_LATE}" >&2; exit 126; }}; shift; {_SCRIPT}'
)
"""Also opens the ticket. bwrap closes both before it runs the command, and keeps the ticket in its own process. Once
the ticket is removed, nothing keeps the placeholders, and bwrap would make folders of its own and leave them."""
_HIDDEN = ("/run", "/var/run")
"""Folders of sockets and pipes, through which programs can be started outside the sandbox."""
_SHOWN = ("/run/current-system", "/run/booted-system", "/run/opengl-driver")
"""Parts of them that programs read: where NixOS keeps programs."""
_PINS = "/dev/outrider"
"""A path in the sandbox where nothing else is."""
_NAME_SERVERS = "/etc/resolv.conf"
"""Often a link into a hidden folder."""
_NAMESPACES = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--new-session", "--die-with-parent", "--cap-drop", "ALL"),
)

Mounts = dict[str, tuple[str, ...]]
"""The options that mount something at a path, by path. A later one replaces an earlier one."""


class Bubblewrap:
    """Confine commands with namespaces and bind mounts."""

    def __init__(self, program: str, host: Host, filter: bytes) -> None:
        self.program = program
        """The path of bwrap."""
        self._host = host
        self._files = RuntimeFiles({"filter": filter})
        self._search = SecretSearch()
        self._placeholders = Placeholders()

    @property
    def name(self) -> str:
        return "bubblewrap"

    def wrap(
        self, argv: Sequence[str], access: Access, places: Confinement, *, network: Sequence[str] = ()
    ) -> list[str]:
        """Return the arguments that run `argv` with an access level, with its own /tmp.

        `network` are the options of bwrap for the network of access `network`; without them, it is the machine's.

        The sandbox has its own /tmp because sockets in the real one (of tmux, X11, ssh-agent) lead out of it. All
        commands of a session share it, because one may read what another has left there. Raises DoubtError.
        """
        if access == "full":
            return list(argv)
        self._files.ensure()
        masks = self._masks(places)
        mounts = self._hidden(places)
        start = [_SCRIPT, self._files.path("filter")]
        options = ["--ro-bind", "/", "/", *_NAMESPACES]
        options += network if access == "network" else ["--unshare-net"]
        if access == "read":
            mounts.update(_bound("--ro-bind", [root for root in places.roots if _is_covered(root, mounts)]))
        else:
            mounts.update(_bound("--bind", places.roots))
            start = [_TICKET_SCRIPT, self._files.path("filter"), self._protect(mounts, places)]
            options += ["--sync-fd", str(_TICKET_HANDLE)]
        self._hide_own(mounts, places)
        self._mask_secrets(mounts, access, masks)
        for path in sorted(mounts, key=_depth):
            options += mounts[path]
        if access != "read":
            options += _pins(masks.covered, places.roots)
        inner = [self.program, *options, "--seccomp", str(_FILTER_HANDLE), "--chdir", str(places.cwd), "--", *argv]
        return [_SHELL, "-c", *start, *inner]

    def _hidden(self, places: Confinement) -> Mounts:
        """Return what covers devices, processes, sockets and the shared temporary folder; programs in it are shown."""
        mounts: Mounts = {"/dev": ("--dev", "/dev"), "/proc": ("--proc", "/proc", "--remount-ro", "/proc")}
        for path in (*_HIDDEN, *self._host.sockets):
            if real_path(path) == path and os.path.exists(path) and not _is_covered(path, mounts):
                mounts[path] = ("--tmpfs", path) if os.path.isdir(path) else self._mask(path)
        servers = real_path(_NAME_SERVERS)
        shown = (*_SHOWN, *([servers] if _is_covered(servers, mounts) else []))
        mounts.update(_bound("--ro-bind", [path for path in shown if os.path.exists(path)]))
        temporary = real_path(places.temporary)
        if any(is_within(temporary, each) for each in places.roots):
            # A running command could put a link in its place, which bwrap would follow.
            mounts |= {"/tmp": ("--tmpfs", "/tmp")}
        else:
            mounts |= {"/tmp": ("--bind", temporary, "/tmp")} | _bound("--bind", [temporary])
        programs = [path for path in places.shown(self._host.programs) if _is_covered(path, mounts)]
        return mounts | _bound("--ro-bind", programs)

    def _protect(self, mounts: Mounts, places: Confinement) -> str:
        """Make protected entries read-only, and cover those that do not exist. Return the command's ticket."""
        protected = places.protected
        absent, ticket = self._placeholders.hold(protected, self._files.folder)
        mounts.update({path: _emptied(path) for path in absent})
        present = [path for path in protected if path not in absent and os.path.exists(path)]
        mounts.update(_bound("--ro-bind", [real_path(path) for path in present]))
        # Folders that the user named inside a protected entry.
        mounts.update(_bound("--bind", [one for one in places.folders if any(is_inside(one, p) for p in protected)]))
        if any(is_inside(self._files.folder, root) for root in places.roots):
            mounts.update(_bound("--ro-bind", [self._files.folder]))
        return ticket

    def _hide_own(self, mounts: Mounts, places: Confinement) -> None:
        """Cover Outrider's data and settings, and show the parts of them that commands need."""
        own = {**dict.fromkeys(places.own.hidden, False), **dict.fromkeys(places.own.shown, True)}
        for path in sorted(filter(os.path.exists, own), key=_depth):
            if own[path] and path not in places.roots and _is_covered(path, mounts):
                mounts.update(_bound("--ro-bind", [path]))
            elif not own[path] and not _is_covered(path, mounts):
                mounts[path] = self._mask(path)

    def doubts(self, access: Access, places: Confinement) -> tuple[str, ...]:
        if access == "full":
            return ()
        found = self._search.last(places.folders, places.secrets, self._host.home)
        return tuple(filter(None, (found.incomplete, self._plan(found, places).incomplete)))

    def _plan(self, found: FoundSecrets, places: Confinement) -> Masks:
        visible = (path for path in found.paths if not places.own.hides(path))
        return plan_masks(visible, (*places.folders, str(places.cwd)))

    def _masks(self, places: Confinement) -> Masks:
        """Search for secrets and return what covers them. Raises DoubtError."""
        found = self._search.find(places.folders, places.secrets, self._host.home)
        masks = self._plan(found, places)
        check_doubts([each for each in (found.incomplete, masks.incomplete) if each], places)
        return masks

    def _mask_secrets(self, mounts: Mounts, access: Access, masks: Masks) -> None:
        option = "--ro-bind" if access == "read" else "--bind"
        for folder, shown in masks.folders.items():
            if not _is_covered(folder, mounts):
                mounts[folder] = _emptied(folder)
                for path in shown:
                    mounts.setdefault(path, _entry(option, path))  # it may be hidden for another reason
        for path in masks.secrets:
            if not _is_covered(path, mounts):
                mounts[path] = self._mask(path)

    def _mask(self, path: str) -> tuple[str, ...]:
        return _emptied(path) if os.path.isdir(path) else ("--ro-bind", self._files.path("empty"), path)


def _pins(covered: Iterable[str], roots: Sequence[str]) -> list[str]:
    """Return options that keep the folders around secrets from being renamed by the command.

    A command that renames such a folder while another one starts could uncover the secret for that one. The kernel
    does not rename a folder on which something is mounted, wherever in the namespace. So the mounts are made in a
    second view of the working folder, which is then covered: a mount in the first view would make renames between
    folders fail.
    """
    options: list[str] = []
    for number, root in enumerate(root.rstrip("/") for root in roots):
        holders = {holder for path in covered if is_inside(path, root or "/") for holder in _between(path, root)}
        if holders:
            view = f"{_PINS}/{number}"
            options += ["--ro-bind", root or "/", view]
            for holder in sorted(holders, key=_depth, reverse=True):
                options += ["--tmpfs", f"{view}{holder[len(root) :]}"]
    return [*options, "--tmpfs", _PINS] if options else []


def _between(path: str, root: str) -> Iterator[str]:
    """Yield the folders around a path that are inside a folder."""
    while (path := os.path.dirname(path)) != (root or "/"):
        yield path


def _emptied(folder: str) -> tuple[str, ...]:
    """Return what shows a folder as empty. For bwrap, this is much cheaper than a read-only view of an empty one."""
    return "--perms", "0555", "--tmpfs", folder


def _entry(option: str, path: str) -> tuple[str, ...]:
    return ("--symlink", os.readlink(path), path) if os.path.islink(path) else (option, path, path)


def _is_covered(path: str, mounts: Mounts) -> bool:
    """Return whether something else is mounted above a path, so that the path is not there."""
    while (path := os.path.dirname(path)) != "/":
        if path in mounts:
            return mounts[path][1:] != (path, path)
    return False


def _depth(path: str) -> int:
    return path.rstrip("/").count("/")


def _bound(option: str, paths: Sequence[str]) -> Mounts:
    return {path: (option, path, path) for path in paths}


MASKS = 200
"""More covers than these are not made."""
ALONE = 10
"""A folder with more secrets than these is covered as a whole, if it has fewer other entries."""
TOO_MANY = (
    f"there are more than {MASKS} secrets in different places, and no more are masked, so the command may be able to "
    "read one; put them into few folders that hold nothing else to avoid this"
)


class Masks(msgspec.Struct, frozen=True):
    """What is covered."""

    secrets: tuple[str, ...]
    """Covered one by one."""
    folders: dict[str, tuple[str, ...]]
    """Covered as a whole, with the entries that are shown."""
    incomplete: str = ""
    """Why a secret is left uncovered, or ""."""

    @property
    def covered(self) -> tuple[str, ...]:
        return (*self.secrets, *self.folders)


def plan_masks(secrets: Iterable[str], working: Sequence[str]) -> Masks:
    """Return how to cover these secrets. Places with few of them come first, and no working folder is covered."""
    groups: dict[str, list[str]] = {}
    for path in secrets:
        groups.setdefault(os.path.dirname(path), []).append(path)
    single: list[str] = []
    folders: dict[str, tuple[str, ...]] = {}
    left = MASKS
    for folder, paths in sorted(groups.items(), key=lambda item: len(item[1])):
        shown = (
            _others(folder, paths)
            if len(paths) > ALONE and not any(is_within(each, folder) for each in working)
            else None
        )
        whole = shown is not None and len(shown) < len(paths)
        if whole and shown is not None and len(shown) < left:
            folders[folder] = shown
            left -= 1 + len(shown)
        else:
            single += paths[:left]
            left -= len(paths)
        if left < 0:
            return Masks(tuple(single), folders, TOO_MANY)
    return Masks(tuple(single), folders)


def _others(folder: str, secrets: Sequence[str]) -> tuple[str, ...] | None:
    try:
        return tuple(sorted({f"{folder}/{name}" for name in os.listdir(folder)} - set(secrets)))
    except OSError:
        return None


ANSWER_SECONDS, END_SECONDS = 60.0, 2.0
"""How long to wait for the keeper: a disk may be slow, but the program must end."""
_PASSED = ("LD_LIBRARY_PATH",)
"""All that it may need of our environment. It lives longer than keys should."""
# In the background, so that its end leaves no zombie. It outlives the terminal and what is typed there.
_START = 'trap "" HUP INT TERM; exec 3<&0; "$@" <&3 3<&- &'


class Placeholders:
    """The placeholders of one sandbox. A process beside this one makes and removes them. Threads may share them."""

    def __init__(self, python: str = sys.executable) -> None:
        self._python = python
        self._keeper: _Keeper | None = None
        self._mutex = threading.Lock()

    def hold(self, paths: Sequence[str], folder: str) -> tuple[list[str], str]:
        """Make placeholders at those of the paths where there is nothing, until the command has ended.

        Return these paths, and the path of the command's ticket. Tickets are made in the folder, which the caller
        removes. Raises OSError.
        """
        with self._mutex:
            if self._keeper and self._keeper.owner == os.getpid():
                try:
                    return self._keeper.hold(folder, paths)
                except _GoneError:
                    self._keeper.end()
            self._keeper = _Keeper(self._python)  # a forked process has its own
            return self._keeper.hold(folder, paths)


class _GoneError(OSError):
    """The keeper was killed, does not answer, or could not be started."""


class _Keeper:
    """The keeper's process. It ends with this object, or with this process."""

    def __init__(self, python: str) -> None:
        self.owner = os.getpid()
        self._python = python
        self._socket, theirs = socket.socketpair()
        self.end = weakref.finalize(self, _end, self._socket, self.owner)
        with theirs:
            subprocess.run(
                ["/bin/sh", "-c", _START, "sh", python, "-I", "-S", str(Path(keeper.__file__).resolve())],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={name: os.environ[name] for name in _PASSED if name in os.environ},
                start_new_session=True,
                check=False,
            )

    def hold(self, folder: str, paths: Sequence[str]) -> tuple[list[str], str]:
        self._socket.settimeout(ANSWER_SECONDS)
        try:
            answer = _asked(self._socket, ["hold", folder, *paths])
        except OSError as error:
            raise _GoneError(error.errno, "the process that protects names does not answer", self._python) from error
        if answer[0] == "failed":
            raise OSError(int(answer[1]), *answer[2:])
        return answer[2:], answer[1]


def _asked(connection: socket.socket, words: Sequence[str]) -> list[str]:
    """Return the answer to a request. Raises OSError if there is none."""
    connection.sendall(b"\0".join(map(os.fsencode, words)) + keeper.END)
    answer = b""
    while not answer.endswith(keeper.END):
        if not (data := connection.recv(1 << 16)):
            raise ConnectionResetError
        answer += data
    return [os.fsdecode(word) for word in answer.removesuffix(keeper.END).split(b"\0")]


def _end(connection: socket.socket, owner: int) -> None:
    """Have the placeholders removed that no running command needs, and let the keeper end."""
    with connection, suppress(OSError):  # if it does not answer, it removes them a moment later
        if os.getpid() == owner:  # a forked process ends without the placeholders of its parent
            connection.settimeout(END_SECONDS)
            _asked(connection, ["end"])
