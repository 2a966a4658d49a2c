"""The entries of `sandbox.allow_hosts`: which hosts a command may reach.

An entry is a name (`pypi.org`), the names below one (`*.github.com`), every name (`*`), an address (`10.0.0.5`) or a
network (`10.0.0.0/8`). Each takes a port (`localhost:3000`, `[::1]:8080`); without one, it means the ports of the web.
A private address is reached only if an entry names the address, its network or `localhost`: what another name means is
decided by the name server of another person.

The launcher of the proxy loads this file by itself, so it imports the standard library alone.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import NamedTuple

WEB_PORTS = (80, 443)
EVERY_NAME = "*"
_NAME = re.compile(r"\*|(?:\*\.)?(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}")
_NUMBER = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)")
"""The last part of a name that the system would read as an address."""
_LOOPBACK = ("127.0.0.0/8", "::1/128")


class Entry(NamedTuple):
    """One entry, parsed."""

    name: str
    """A name or a pattern in lower case, or "" for an address."""
    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]
    """The addresses that it names."""
    ports: tuple[int, ...]


class AllowedHosts:
    """What the entries allow. Raises ValueError for a text that is no entry."""

    def __init__(self, entries: Iterable[str]) -> None:
        self._entries = [parse_entry(entry) for entry in entries]

    def allows_name(self, host: str, port: int) -> bool:
        """Return whether an entry covers a name. Its addresses must be checked as well."""
        name = host.lower().rstrip(".")
        return any(port in entry.ports and _matches(name, entry.name) for entry in self._entries)

    def names_address(self, address: str, port: int | None = None) -> bool:
        """Return whether an entry names this address, with the port or any: it is reached even if it is private."""
        parsed = ipaddress.ip_address(address)
        entries = [entry for entry in self._entries if port is None or port in entry.ports]
        return any(parsed in network for entry in entries for network in entry.networks)

    def allows_public_addresses(self, port: int) -> bool:
        """Return whether an entry allows every host."""
        return any(port in entry.ports and entry.name == EVERY_NAME for entry in self._entries)


def parse_entry(text: str) -> Entry:
    """Return the parts of an entry. Raises ValueError with the end of a sentence that begins with the entry."""
    host, port = _split(text.strip().lower())
    if port is not None and not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65_536):
        raise ValueError("has a port that is no number from 1 to 65535")
    ports = WEB_PORTS if port is None else (int(port),)
    try:
        return Entry("", (ipaddress.ip_network(host),), ports)
    except ValueError:
        if _NUMBER.fullmatch(host.split("/")[0].rpartition(".")[2]) or ":" in host:
            raise ValueError("is no address or network, such as 10.0.0.5 or 10.0.0.0/8") from None
    try:
        name = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        name = ""
    if not _NAME.fullmatch(name):
        raise ValueError("is no host: write a name without https:// and without a path, such as pypi.org or *.pypi.org")
    return Entry(name, tuple(map(ipaddress.ip_network, _LOOPBACK)) if name == "localhost" else (), ports)


def _split(text: str) -> tuple[str, str | None]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        return (host, rest[1:]) if rest.startswith(":") else (host if bracket and not rest else text, None)
    host, colon, port = text.partition(":")
    return (host, port) if colon and ":" not in port and not port.startswith("//") else (text, None)


def _matches(name: str, pattern: str) -> bool:
    if pattern == EVERY_NAME:
        return True
    return name.endswith(pattern[1:]) if pattern.startswith("*.") else bool(pattern) and name == pattern
