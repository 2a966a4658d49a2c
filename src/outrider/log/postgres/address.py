"""The address of a Postgres database. Its password is for the connection alone: no message has it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from outrider.errors import LogError

SECRET_PARAMETERS = ("password", "sslpassword")
_FORM = "its form is postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with @ : / of a password as %40 %3A %2F"


class Address:
    """A `postgresql://` URL, split into what may be shown and the password.

    A URL without a password is complete: Postgres's own variables (`PGPASSWORD` and others) and password file apply.

    >>> Address("postgresql://ann:s3cret@db.example/log?sslmode=verify-full")
    postgresql://ann@db.example/log
    """

    def __init__(self, url: str) -> None:
        try:
            scheme, place, path, query, _ = urlsplit(url)
            parameters = parse_qsl(query, keep_blank_values=True)
        except ValueError:
            raise LogError(f"the URL of the log cannot be read; {_FORM}") from None
        login, at, hosts = place.rpartition("@")
        user, _, password = login.partition(":")
        if "@" in login:
            raise LogError("the URL of the log has more than one @: write an @ in the user or the password as %40")
        self.location = f"postgresql://{user}{at}{hosts}{path}"
        """The URL without its password and its parameters."""
        shown = [(name, value) for name, value in parameters if name not in SECRET_PARAMETERS]
        shown += [(name, value) for name, value in parameters if name == "sslpassword"]
        self.url = urlunsplit((scheme, f"{user}{at}{hosts}", path, urlencode(shown, quote_via=quote), ""))
        """The URL for the connection, which gets the password apart from it."""
        given = dict(parameters)
        self.password = unquote(password) or given.get("password")
        self.key_password = given.get("sslpassword")
        """The password of the client's TLS key."""
        self.complete_url = url
        """The URL as it was given, with its password: for connections of others, not for messages."""
        self._check_ports(hosts)

    def __repr__(self) -> str:
        return self.location

    @property
    def name(self) -> str:
        """A name for folders that belong to this database."""
        return hashlib.sha256(self.location.encode()).hexdigest()[:16]

    @property
    def has_password(self) -> bool:
        """Whether a password is given: here, in Postgres's variables, or in its password file."""
        given = self.password or os.environ.get("PGPASSWORD") or os.environ.get("PGPASSFILE")
        return bool(given) or os.path.exists(os.path.expanduser("~/.pgpass"))

    def conceal(self, text: str) -> str:
        """Return a text without the passwords, whoever put them there."""
        for secret in self._secrets():
            text = text.replace(secret, "***")
        return text

    def _secrets(self) -> Iterator[str]:
        for secret in (self.password, self.key_password):
            if secret:
                yield from {secret, quote(secret), quote(secret, safe="")}

    def _check_ports(self, hosts: str) -> None:
        for host in hosts.split(","):
            port = host.rpartition("]")[2].rpartition(":")[2] if ":" in host.rpartition("]")[2] else ""
            if port and not port.isdecimal():
                raise LogError(f"the port in the URL of the log is not a number; {_FORM}")
