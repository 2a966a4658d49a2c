"""The sandbox of macOS: a profile for `sandbox-exec`. The profile is tested as text; it was not run on a Mac."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from outrider.coding.access import Access
from outrider.coding.sandbox.sandbox import Confinement, Host, check_doubts, is_inside
from outrider.coding.sandbox.secret_search import SecretSearch

PROGRAM = "/usr/bin/sandbox-exec"

_BASE = """\
(version 1)
(deny default)
(allow process-exec process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read)
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.logger")
  (global-name "com.apple.cfprefsd.daemon")
  (global-name "com.apple.trustd.agent"))
(allow ipc-posix-shm ipc-posix-sem)
(allow file-read*)
(deny file-read* (regex #"^/dev/(tty|pty|ptmx|cu)"))
(allow file-write* (literal "/dev/null") (literal "/dev/zero"))
"""
_NETWORK = '(allow network-outbound (remote tcp "*:*") (remote udp "*:53"))\n(allow system-socket)\n'


class Seatbelt:
    """Confine commands with a profile of `sandbox-exec`."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._search = SecretSearch()

    @property
    def name(self) -> str:
        return "sandbox-exec"

    def wrap(self, argv: Sequence[str], access: Access, places: Confinement) -> list[str]:
        """Return the arguments that run `argv` with an access level. TMPDIR is its own."""
        if access == "full":
            return list(argv)
        temporary = os.path.realpath(places.temporary)
        return [PROGRAM, "-p", self.profile(access, places), "/usr/bin/env", f"TMPDIR={temporary}", *argv]

    def doubts(self, access: Access, places: Confinement) -> tuple[str, ...]:
        found = self._search.last(places.folders, places.secrets, self._host.home)
        return (found.incomplete,) if found.incomplete and access != "full" else ()

    def profile(self, access: Access, places: Confinement) -> str:
        """Return the profile of an access level. The last rule that matches a file decides."""
        found = self._search.find(places.folders, places.secrets, self._host.home)
        check_doubts([found.incomplete] if found.incomplete else [], places)
        parts = [_BASE, _rule("allow file-write*", [os.path.realpath(places.temporary)])]
        if access != "read":
            parts += [_rule("allow file-write*", places.roots), _rule("deny file-write*", places.protected)]
        if access == "network":
            parts.append(_NETWORK)
        parts += [_rule("deny file-read* file-write*", places.own.hidden), *self._shown(access, places)]
        parts += [_rule("deny file-read* file-write*", found.paths), _rule("deny network*", self._host.sockets)]
        return "".join(parts)

    def _shown(self, access: Access, places: Confinement) -> list[str]:
        """Return rules for the parts of Outrider's own places that commands need."""
        roots = [] if access == "read" else [root for root in places.roots if root in places.own.shown]
        deeper = [path for path in places.own.hidden if any(is_inside(path, each) for each in places.own.shown)]
        return [
            _rule("allow file-read*", places.own.shown),
            _rule("allow file-write*", roots),
            _rule("deny file-read* file-write*", deeper),
        ]


def _rule(rule: str, paths: Iterable[str]) -> str:
    places = "".join(f"\n  (subpath {_quoted(path)})" for path in paths)
    return f"({rule}{places})\n" if places else ""


def _quoted(path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
