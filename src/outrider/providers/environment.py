"""Check keys, proxies and certificates in the environment. The value of a key never leaves this module."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable
from urllib.parse import urlsplit, urlunsplit

from outrider.providers.network import CA_VARIABLES


def set_among(names: Iterable[str]) -> list[str]:
    """Return the environment variables that have a value."""
    return [name for name in names if os.environ.get(name)]


def key_fault(name: str) -> str:
    """Return what is visibly wrong with the key in a variable, or ""."""
    value = os.environ.get(name, "")
    if value != value.strip():
        return "it starts or ends with white space"
    if not value.isascii() or not value.isprintable() or " " in value:
        return "it has invalid characters"
    return "it is in quotes" if value[:1] in ("'", '"') else ""


def proxies() -> dict[str, str]:
    """Return the proxies in the usual environment variables, by scheme, without their passwords."""
    from urllib.request import getproxies  # slow to import

    return {scheme: without_password(url) for scheme, url in sorted(getproxies().items())}


def certificate_faults() -> dict[str, str]:
    """Return the variables that name certificates, each with what is wrong with it, or ""."""
    return {name: _certificate_fault(os.environ[name]) for name in set_among(CA_VARIABLES)}


def without_password(url: str) -> str:
    """Return a URL without its user name and password.

    >>> without_password("http://me:secret@proxy.example:8080/v1")
    'http://…@proxy.example:8080/v1'
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an invalid URL"
    _, at, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"…@{host}")) if at else url


def _certificate_fault(path: str) -> str:
    try:
        ssl.create_default_context().load_verify_locations(cafile=path)
    except FileNotFoundError:
        return f"there is no file {path}"
    except (OSError, ssl.SSLError) as error:
        return f"{path} cannot be read: {error}"
    return ""
