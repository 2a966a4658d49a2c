"""A TLS context that parses the certificates of the system for its first connection."""

from __future__ import annotations

import ssl
from types import FunctionType, ModuleType
from typing import Any


class WaitingContext(ssl.SSLContext):
    """Verifies as any context does. A context whose certificates are missing would trust no server."""

    _is_waiting = False

    def set_default_verify_paths(self) -> None:
        """Parse the certificates of the system, later."""
        self._is_waiting = True

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """Begin a connection of an event loop."""
        self._stop_waiting()
        return super().wrap_bio(*args, **options)

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        """Begin a connection of a socket."""
        self._stop_waiting()
        return super().wrap_socket(*args, **options)

    def get_ca_certs(self, *args: Any, **options: Any) -> Any:
        """Return the certificates that are trusted."""
        self._stop_waiting()
        return super().get_ca_certs(*args, **options)

    def cert_store_stats(self) -> dict[str, int]:
        """Count the certificates that are trusted."""
        self._stop_waiting()
        return super().cert_store_stats()

    def _stop_waiting(self) -> None:
        if self._is_waiting:
            super().set_default_verify_paths()  # a second thread that comes meanwhile parses them as well: no harm
            self._is_waiting = False


def ssl_that_waits() -> Any:
    """Return a copy of Python's `ssl` module whose contexts wait."""
    names = vars(ssl) | {"SSLContext": WaitingContext}
    default = ssl.create_default_context
    made = FunctionType(default.__code__, names, default.__name__, default.__defaults__, default.__closure__)
    made.__kwdefaults__ = default.__kwdefaults__
    waiting = ModuleType("ssl")
    vars(waiting).update(names | {"create_default_context": made})
    return waiting
