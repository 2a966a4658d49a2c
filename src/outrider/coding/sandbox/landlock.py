"""The Landlock sandbox, for Linux machines where user namespaces are closed.

Landlock allows what is listed, with everything below it, and refuses the rest. So a path that must not be reached is
left out by listing its neighbours, and neighbours that come later are refused too. `docs/sandbox.md` says what that
means for commands, and what Landlock cannot do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from outrider.coding.access import Access
from outrider.coding.sandbox.sandbox import TEMPORARY, Confinement, Host, RuntimeFiles, check_doubts, is_inside
from outrider.coding.sandbox.seccomp import seccomp_filter
from outrider.coding.sandbox.secret_search import FoundSecrets, SecretSearch

_CREATE_RULESET, _VERSION = 444, 1
_LAUNCHER = Path(__file__).with_name("landlock_launcher.py")
_HIDDEN = ("/run", "/var/run", *TEMPORARY, "/dev")
_LONGEST_ARGUMENT = 30_000
"""Characters. The kernel takes 128 KiB, and a character has up to four bytes."""
_DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom"))
"""No terminals: a command could read what is typed in another one, and draw on it."""
_OWN_TERMINAL = "/dev/tty"
"""For a command with a terminal of its own: to every session, it is another one."""


_SINCE_SCOPES = 6
SIGNALS = (
    "the Landlock of this kernel (before Linux 6.12) does not stop a command from sending signals to your programs"
)
METADATA = "Landlock does not stop a command from changing modes, owners and times of your files outside the folder"


class Rules(msgspec.Struct, frozen=True):
    """What the launcher allows."""

    readable: tuple[str, ...]
    """Files that can be read and run, with everything below."""
    writable: tuple[str, ...]
    """Files that can also be changed, and folders in which entries can be made and removed."""
    devices: tuple[str, ...]
    """Devices that can be read and written."""
    internet: bool
    """Whether TCP connections are allowed."""
    filter: str
    """The file with the seccomp filter."""
    temporary: str
    """The value of TMPDIR."""


class Landlock:
    """Confine commands with Landlock rules and a seccomp filter."""

    def __init__(self, host: Host, python: str = sys.executable) -> None:
        machine = os.uname().machine
        self._host = host
        self._python = python
        self._search = SecretSearch()
        self._files = RuntimeFiles(
            {
                # Landlock does not cover owners, modes and times of files, so `read` loses the calls.
                "read": seccomp_filter(machine, internet=False, metadata=False, system_v=False) or b"",
                "write": seccomp_filter(machine, internet=False, system_v=False) or b"",
                "network": seccomp_filter(machine, system_v=False) or b"",
            }
        )

    @property
    def name(self) -> str:
        return "Landlock"

    def wrap(self, argv: Sequence[str], access: Access, places: Confinement) -> list[str]:
        """Return the arguments that run `argv` with an access level. TMPDIR is its own, /tmp is not there."""
        if access == "full":
            return list(argv)
        self._files.ensure()
        rules = msgspec.json.encode(self.rules(access, places)).decode()
        parts = [rules[at : at + _LONGEST_ARGUMENT] for at in range(0, len(rules), _LONGEST_ARGUMENT)]
        return [self._python, "-I", "-S", str(_LAUNCHER), str(len(parts)), *parts, str(places.cwd), *argv]

    def doubts(self, access: Access, places: Confinement) -> tuple[str, ...]:
        """Return what Landlock does not stop, and why commands may read secrets, as far as the last search knows."""
        found = self._search.last(places.folders, places.secrets, self._host.home)
        return () if access == "full" else _doubts(access, found)

    def rules(self, access: Access, places: Confinement) -> Rules:
        """Return what a command may touch with an access level. Raises DoubtError."""
        found = self._search.find(places.folders, places.secrets, self._host.home)
        check_doubts(_doubts(access, found), places)
        temporary = os.path.realpath(places.temporary)
        hidden = [path for path in (*_HIDDEN, *self._host.sockets) if os.path.exists(path)]
        closed = {*found.paths, *places.own.hidden, self._files.folder}
        readable = [*_around("/", {*hidden, *closed}), temporary]
        for root in (*places.roots, *places.own.shown, *places.shown(self._host.programs)):
            readable += _around(root, closed)
        writable = [temporary]
        if access != "read":
            for root in places.roots:
                writable += _around(root, {*places.protected, *closed})
        devices = (*_DEVICES, *([_OWN_TERMINAL] if places.has_terminal else []))
        return Rules(
            readable=tuple(readable),
            writable=tuple(writable),
            devices=tuple(filter(os.path.exists, devices)),
            internet=access == "network",
            filter=self._files.path(access),
            temporary=temporary,
        )


def _doubts(access: Access, found: FoundSecrets) -> tuple[str, ...]:
    signals = "" if landlock_version() >= _SINCE_SCOPES else SIGNALS
    return tuple(filter(None, (found.incomplete, signals, "" if access == "read" else METADATA)))


def landlock_version() -> int:
    """Return the version of Landlock in the kernel, or 0."""
    import ctypes

    try:
        call = ctypes.CDLL(None, use_errno=True).syscall
    except (OSError, AttributeError):
        return 0
    return max(0, int(call(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))))


def _around(folder: str, excluded: Iterable[str]) -> list[str]:
    """Return a folder, or the paths in it that together leave out the excluded ones."""
    inner = {path for path in excluded if is_inside(path, folder)}
    if not inner:
        return [folder]
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    found = []
    for path in (f"{folder.rstrip('/')}/{name}" for name in names):
        if path not in inner and not os.path.islink(path):
            found += _around(path, inner)
    return found
