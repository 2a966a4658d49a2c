"""Which addresses are private: those of this machine, of its network, and reserved ones.

The launcher of the sandbox's proxy loads this file by itself, so it imports the standard library alone.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host, given its name and the port. Raises OSError."""

LOCAL_NAMES = ("localhost", "local", "internal", "home.arpa", "lan", "intranet")
"""Top-level names that exist only on private networks."""

# The tables are explicit because those of the standard library differ between versions.
_PRIVATE_V4 = {
    "0.0.0.0/8": "unspecified",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "shared by a provider's customers",
    "127.0.0.0/8": "this machine's own",
    "168.63.129.16/32": "a cloud's own",
    "169.254.0.0/16": "link-local",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "reserved",
    "192.0.2.0/24": "reserved",
    "192.88.99.0/24": "reserved",
    "192.168.0.0/16": "private",
    "198.18.0.0/15": "reserved",
    "198.51.100.0/24": "reserved",
    "203.0.113.0/24": "reserved",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
}
_PRIVATE_V6 = {
    "::/128": "unspecified",
    "::1/128": "this machine's own",
    "2001::/23": "reserved or the end of a tunnel",
    "2001:db8::/32": "reserved",
    "2002::/16": "the end of a tunnel",
    "3fff::/20": "reserved",
    "fc00::/7": "private",
    "fe80::/10": "link-local",
    "ff00::/8": "multicast",
}
_TABLE_V4 = [(ipaddress.IPv4Network(network), kind) for network, kind in _PRIVATE_V4.items()]
_TABLE_V6 = [(ipaddress.IPv6Network(network), kind) for network, kind in _PRIVATE_V6.items()]
_PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def why_private(address: str) -> str:
    """Return the kind of a private address, or "" if the address is public.

    >>> why_private("127.0.0.1"), why_private("::ffff:10.0.0.1"), why_private("1.1.1.1")
    ("this machine's own", 'private', '')
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "not one that can be understood"
    if isinstance(parsed, ipaddress.IPv6Address):
        # The IPv4 address to which packets for this address go.
        is_nat = parsed in _NAT64
        embedded = ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF) if is_nat else parsed.ipv4_mapped
        if embedded is None:
            known = next((kind for network, kind in _TABLE_V6 if parsed in network), "")
            return known or ("" if parsed in _PUBLIC_V6 else "reserved")
        parsed = embedded
    return next((kind for network, kind in _TABLE_V4 if parsed in network), "")


def literal_address(host: str) -> str:
    """Return the address that a host is, or "" for a name.

    >>> literal_address("127.1"), literal_address("::1"), literal_address("example.com")
    ('127.0.0.1', '::1', '')
    """
    host = host.rstrip(".")
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return str(ipaddress.IPv4Address(socket.inet_aton(host))) if host[:1].isdigit() else ""
    except (OSError, ValueError):
        return ""


def is_local_name(host: str) -> bool:
    """Return whether a name can only be local: one word, or below a reserved local name."""
    name = host.rstrip(".").lower()
    return "." not in name or name.endswith(tuple(f".{each}" for each in LOCAL_NAMES))


def public_socket(info: tuple[Any, ...]) -> socket.socket:
    """Create a socket, unless the address is private. The HTTP client calls it for every connection."""
    family, kind, protocol, _, (address, *_) = info
    if why := why_private(str(address)):
        raise OSError(f"{address} is {why}")
    return socket.socket(family, kind, protocol)


def system_resolver() -> Resolve:
    from outrider.tools.threads import Threads

    threads = Threads()  # a name server that never answers must not keep the process from ending

    async def resolve(host: str, port: int) -> Sequence[str]:
        found = await threads.run(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))

    return resolve
