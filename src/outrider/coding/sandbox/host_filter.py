"""Hold commands with access `network` to the hosts of `sandbox.allow_hosts`, or close the network for them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from outrider.coding.access import Access
from outrider.coding.sandbox.allowed_hosts import AllowedHosts
from outrider.coding.sandbox.available import trial_error
from outrider.coding.sandbox.bubblewrap import Bubblewrap
from outrider.coding.sandbox.sandbox import Confinement, Sandbox

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
