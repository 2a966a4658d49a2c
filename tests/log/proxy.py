"""A TCP proxy in front of Postgres, which can lose what passes through it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


class Proxy:
    """A TCP proxy in front of a server. It can cut all connections, and lose a request or an answer."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self.is_open = True
        self.lost_request = b""
        """The next request that contains this does not arrive, and its connection ends."""
        self.unanswered = b""
        """The next request that contains this arrives, its answer does not, and its connection ends."""
        self.closes_then = False
        """Whether all connections end then, and none is accepted until `is_open` is set."""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if not self.is_open:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self._target))
                self._pairs.append((client, server))
                loses = threading.Event()
                for work in (self._send(client, server, loses), self._answer(server, client, loses)):
                    threading.Thread(target=self._copy, args=(client, server, work), daemon=True).start()

    def _send(self, client: socket.socket, server: socket.socket, loses: threading.Event) -> Iterator[None]:
        """Pass the requests of a client on, one at each step."""
        while data := client.recv(65536):
            if self.lost_request and self.lost_request in data:
                self.lost_request = b""
                if self.closes_then:
                    self.cut()
                return
            if self.unanswered and self.unanswered in data:
                self.unanswered = b""
                loses.set()
            server.sendall(data)
            yield

    def _answer(self, server: socket.socket, client: socket.socket, loses: threading.Event) -> Iterator[None]:
        while data := server.recv(65536):
            if loses.is_set():
                if self.closes_then:
                    self.cut()
                return
            client.sendall(data)
            yield

    def _copy(self, client: socket.socket, server: socket.socket, work: Iterator[None]) -> None:
        with contextlib.suppress(OSError):
            for _ in work:
                pass
        for each in (client, server):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """End all connections, and accept no more until `is_open` is set."""
        self.is_open = False
        for pair in self._pairs:
            for each in pair:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.cut()
        self._listener.close()
        for pair in self._pairs:
            for each in pair:
                each.close()
