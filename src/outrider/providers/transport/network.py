"""The network as the environment sets it: proxies, and certificates that are trusted."""

from __future__ import annotations

import contextlib
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
            _load_certificates(context, path)
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
    parts = urlsplit(url)
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or _is_reached_directly(parts.hostname or "", parts.netloc.rpartition("@")[2], proxies.get("no", "")):
        return None
    scheme, separator, _ = proxy.partition("://")
    if separator and scheme not in ("http", "https"):
        raise ProviderError(
            f"a {scheme} proxy is not supported (for {shown_host(url)}); set an HTTP proxy, or NO_PROXY"
        )
    return proxy if separator else f"http://{proxy}"


def _is_reached_directly(host: str, authority: str, excepted: str) -> bool:
    """Whether NO_PROXY, or what the system has in its place, names a host: also with its port, or by its network."""
    from urllib.request import proxy_bypass

    if proxy_bypass(host) or proxy_bypass(authority):
        return True
    networks = [each.strip() for each in excepted.split(",") if "/" in each]
    return bool(networks) and _is_in(host, networks)


def _is_in(host: str, networks: Iterable[str]) -> bool:
    from ipaddress import ip_address, ip_network

    from outrider.providers.transport.addresses import literal_address

    address = literal_address(host)
    for network in networks if address else ():
        with contextlib.suppress(ValueError):  # this is no network
            if ip_address(address) in ip_network(network, strict=False):
                return True
    return False


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


def _load_certificates(context: ssl.SSLContext, path: str) -> None:
    if os.path.isdir(path):  # as of `c_rehash`
        context.load_verify_locations(capath=path)
    else:
        context.load_verify_locations(cafile=path)


def _certificate_fault(path: str) -> str:
    try:
        _load_certificates(ssl.create_default_context(), path)
    except FileNotFoundError:
        return f"there is no file {path}"
    except (OSError, ssl.SSLError) as error:
        return f"{path} cannot be read: {error}"
    return ""
