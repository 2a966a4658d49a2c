"""An HTTP proxy that connects to allowed hosts only: CONNECT, and plain http:// requests.

A name is looked up here, after it was found to be allowed, and the connection goes to an address that was checked: a
name server cannot give another address afterwards. The launcher loads this file by itself, so it imports the standard
library alone.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outrider.coding.sandbox.allowed_hosts import AllowedHosts

CONNECTIONS = 128
"""At once. More wait in the queue of the socket."""
LONGEST_HEAD = 65_536
SECONDS = 30.0
"""For the head of a request, and for a connection."""
MOST_NOTICES = 20
_SETTING = "sandbox.allow_hosts"
_HOP_FIELDS = (b"connection:", b"proxy-", b"keep-alive:", b"upgrade:", b"te:", b"host:")


class RefusedError(Exception):
    """Why a host is not reached: a sentence for the model."""


class HostProxy:
    """Answers the connections of one command."""

    def __init__(
        self,
        hosts: AllowedHosts,
        why_private: Callable[[str], str],
        resolve: Callable[[str, int], Sequence[str]],
        tell: Callable[[str], None],
    ) -> None:
        """`tell` gets each refusal once: most programs show only the number of a response."""
        self._hosts = hosts
        self._why_private = why_private
        self._resolve = resolve
        self._tell = tell
        self._told: set[str] = set()
        self._slots = threading.BoundedSemaphore(CONNECTIONS)

    def serve(self, listener: socket.socket) -> None:
        """Answer connections, each in a thread, until the listener is closed."""
        while True:
            self._slots.acquire()
            try:
                client = listener.accept()[0]
                threading.Thread(target=self._answer, args=[client], daemon=True).start()
            except (OSError, RuntimeError):
                self._slots.release()
                if listener.fileno() < 0:
                    return

    def _answer(self, client: socket.socket) -> None:
        try:
            with client, contextlib.suppress(OSError):
                client.settimeout(SECONDS)
                try:
                    self._forward(client)
                except RefusedError as error:
                    _reply(client, "403 Forbidden", str(error))
                except OSError as error:
                    _reply(client, "502 Bad Gateway", f"outrider: {error.strerror or error}")
                except ValueError:
                    _reply(client, "400 Bad Request", "outrider: this is no request that the proxy understands")
        finally:
            self._slots.release()

    def _forward(self, client: socket.socket) -> None:
        head, rest = _read_head(client)
        line, _, fields = head.partition(b"\r\n")
        method, target, version = line.decode("ascii").split(" ")
        if method == "CONNECT":
            with self.connect(*host_and_port(target)) as server:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                server.sendall(rest)
                _pump(client, server)
            return
        if not target.lower().startswith("http://"):
            raise ValueError(target)
        authority, slash, path = target[7:].partition("/")
        with self.connect(*host_and_port(authority, 80)) as server:
            kept = [each for each in fields.split(b"\r\n") if each and not each.lower().startswith(_HOP_FIELDS)]
            host = f"Host: {authority.rpartition('@')[2]}".encode()
            # One request for each connection: the next one may name another host.
            lines = [f"{method} {slash or '/'}{path} {version}".encode(), host, *kept, b"Connection: close"]
            server.sendall(b"\r\n".join(lines) + b"\r\n\r\n" + rest)
            _pump(client, server)

    def connect(self, host: str, port: int) -> socket.socket:
        """Return a connection to an allowed host. Raises RefusedError and OSError."""
        failure = OSError("the name has no address")
        for address in self._addresses(host, port):
            try:
                return socket.create_connection((address, port), SECONDS)
            except OSError as error:
                failure = error
        raise failure

    def _addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host that may be reached."""
        if address := _as_address(host):
            public = self._hosts.allows_public_addresses(port) and not self._why_private(address)
            if public or self._hosts.names_address(address, port):
                return [address]
            raise self._refusal(host, port)
        if not self._hosts.allows_name(host, port):  # not even looked up: a name can carry data to its name server
            raise self._refusal(host, port)
        found = self._resolve(host, port)
        allowed = [each for each in found if self._hosts.names_address(each, port) or not self._why_private(each)]
        if found and not allowed:
            kind = f"{found[0]}, which is {self._why_private(found[0])}"
            raise self._refused(f"{host} has the address {kind}: it is reached only if {_SETTING} names the address.")
        return allowed

    def _refusal(self, host: str, port: int) -> RefusedError:
        shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return self._refused(f"{shown} is not reached: the setting {_SETTING} does not name it.")

    def _refused(self, sentence: str) -> RefusedError:
        safe = "outrider: " + "".join(each if each.isprintable() and each.isascii() else "?" for each in sentence[:400])
        if safe not in self._told and len(self._told) < MOST_NOTICES:
            self._told.add(safe)
            self._tell(safe)
        return RefusedError(safe)


def system_addresses(host: str, port: int) -> list[str]:
    """Look a name up in the way of the system."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def host_and_port(authority: str, port: int | None = None) -> tuple[str, int]:
    """Return the parts of an authority. Raises ValueError."""
    written = authority.rpartition("@")[2]
    host, colon, number = written.rpartition(":")
    if not colon or number.endswith("]"):
        host, number = written, str(port or "")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not number.isascii() or not number.isdigit() or not 0 < int(number) < 65_536:
        raise ValueError(authority)
    return host, int(number)


def _as_address(host: str) -> str:
    """Return the usual form of an address, or "" for a name. Raises ValueError."""
    if ":" in host:
        return str(ipaddress.ip_address(host))
    try:
        return socket.inet_ntoa(socket.inet_aton(host))  # also 127.1 and 2130706433, which the system takes for one
    except OSError:
        return ""


def _read_head(client: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        part = client.recv(LONGEST_HEAD)
        data += part
        if not part or len(data) > LONGEST_HEAD:
            raise ValueError("the head of the request is incomplete or too long")
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def _reply(client: socket.socket, status: str, sentence: str) -> None:
    fields = f"Connection: close\r\nContent-Type: text/plain\r\nContent-Length: {len(sentence) + 1}"
    client.sendall(f"HTTP/1.1 {status}\r\n{fields}\r\n\r\n{sentence}\n".encode("ascii", "replace"))


def _pump(client: socket.socket, server: socket.socket) -> None:
    """Pass bytes on in both directions until both have ended."""
    for each in (client, server):
        each.settimeout(None)
    upwards = threading.Thread(target=_copy, args=[client, server], daemon=True)
    upwards.start()
    _copy(server, client)
    upwards.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
