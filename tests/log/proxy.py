"""A proxy in front of Postgres that cuts connections and loses answers."""

from __future__ import annotations

import contextlib
import socket
import threading


class Proxy:
    """A TCP proxy in front of a server. It can cut all connections, and swallow what the server answers."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self.is_open = True
        self.swallows = False
        """Whether answers are lost: what is sent arrives, and then the connection ends."""
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
                threading.Thread(target=self._copy, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._copy, args=(server, client, True), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if is_answer and self.swallows:
                    self.swallows = False
                    break
                target.sendall(data)
        for each in (source, target):
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
