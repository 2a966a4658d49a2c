"""The logins to MCP servers: tokens and client registrations, in one file for the owner alone."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from outrider.errors import McpError
from outrider.filesystem import open_lock, replace_private, try_lock
from outrider.struct_types import described

FILE = "mcp-logins.json"
_LOCK_SECONDS = 60.0
_LOCK_PAUSE = 0.02


class Registration(msgspec.Struct, frozen=True, omit_defaults=True):
    client_id: str
    client_secret: str = ""
    auth_method: str = ""
    """How the client authenticates at the token endpoint; empty to choose by what the server supports."""
    redirect_uri: str = ""  # the registered redirect; empty if any port of this machine is allowed
    issuer: str = ""  # the server that knows the client; empty for any

    def __repr__(self) -> str:
        return f"Registration({self.client_id!r})"


class Tokens(msgspec.Struct, frozen=True, omit_defaults=True):
    access_token: str
    refresh_token: str = ""
    expires_at: float | None = None
    scope: str = ""  # the scopes that were asked for, and granted as far as the server says

    def __repr__(self) -> str:
        return f"Tokens(scope={self.scope!r})"


class Login(msgspec.Struct, frozen=True, omit_defaults=True):
    issuer: str
    token_endpoint: str
    resource: str
    client: Registration
    tokens: Tokens | None = None


class TokenStore:
    """Logins by the address of the server, in a file of a folder. Sessions and processes share it."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE

    def read(self, url: str) -> Login | None:
        return self._read().get(url)

    def write(self, url: str, login: Login) -> None:
        self._write({**self._read(), url: login})

    def remove(self, url: str) -> bool:
        """Remove a login. Return whether there was one. Raises McpError."""
        logins = self._read()
        if url not in logins:
            return False
        self._write({each: login for each, login in logins.items() if each != url})
        return True

    @contextlib.asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Hold the file, so that no other process uses a refresh token at the same time. Raises McpError."""
        try:
            handle = open_lock(self._file.with_name(f"{FILE}.lock"))
        except OSError as error:
            raise McpError(f"The logins in {self._file} cannot be locked: {error.strerror}.") from None
        loop = asyncio.get_running_loop()
        until = loop.time() + _LOCK_SECONDS
        try:
            while not try_lock(handle):
                if loop.time() > until:
                    raise McpError(f"Another process holds {self._file}. End it, or try again.")
                await asyncio.sleep(_LOCK_PAUSE)
            yield
        finally:
            os.close(handle)

    def _read(self) -> dict[str, Login]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=described(dict[str, Login]))
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is damaged"
            raise McpError(
                f"The logins in {self._file} cannot be read: {reason}. Remove the file and log in again."
            ) from None

    def _write(self, logins: dict[str, Login]) -> None:
        try:
            replace_private(self._file, msgspec.json.format(msgspec.json.encode(logins)))
        except OSError as error:
            raise McpError(f"The login cannot be kept in {self._file}: {error.strerror}.") from None
