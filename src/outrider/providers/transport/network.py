"""The network as the environment sets it: proxies, and certificates that are trusted."""

from __future__ import annotations

import os
import ssl
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from urllib.parse import urlsplit, urlunsplit

from outrider.errors import ProviderError

CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def tls_context() -> ssl.SSLContext:
    """Return a TLS context with the system's certificates and those in the usual environment variables."""
    named = {path: name for name in CA_VARIABLES if (path := os.environ.get(name))}
    if not named:
        from outrider.providers.transport.system_certificates import CONTEXT  # slow to import

        return CONTEXT
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    for path, name in named.items():
        try:
            context.load_verify_locations(cafile=path)
        except (OSError, ssl.SSLError) as error:
            raise ProviderError(f"the certificates in {name} ({path}) cannot be read: {error}") from None
    return context


def environment_proxies() -> dict[str, str]:
    """Return the proxies in the usual environment variables, by scheme."""
    if sys.platform not in ("darwin", "win32") and not any(name.lower().endswith("_proxy") for name in os.environ):
        return {}  # elsewhere the system has no settings of its own, and the module below is slow to import
    from urllib.request import getproxies

    return getproxies()


def proxy_for(url: str, proxies: Mapping[str, str]) -> str | None:
    if not proxies:
        return None
    from urllib.request import proxy_bypass

    parts = urlsplit(url)
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.hostname or ""):
        return None
    scheme, separator, _ = proxy.partition("://")
    if separator and scheme not in ("http", "https"):
        raise ProviderError(
            f"a {scheme} proxy is not supported (for {shown_host(url)}); set an HTTP proxy, or NO_PROXY"
        )
    return proxy if separator else f"http://{proxy}"


def shown_host(url: str) -> str:
    """Return the host and port, for messages, never a password. Return the whole text if it is not a URL."""
    try:
        host = urlsplit(url).netloc or url
    except ValueError:
        host = url
    return host.rpartition("@")[2]


@lru_cache(maxsize=64)
def host_name(url: str) -> str:
    """Return the name of the host, without its port. Return an empty text if this is not a URL."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def set_among(names: Iterable[str]) -> list[str]:
    return [name for name in names if os.environ.get(name)]


def shown_proxies() -> dict[str, str]:
    """Return the proxies in the usual environment variables, by scheme, without their passwords."""
    return {scheme: without_password(url) for scheme, url in sorted(environment_proxies().items())}


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
