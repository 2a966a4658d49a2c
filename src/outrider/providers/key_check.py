"""Check an API key: ask the provider for its list of models, which costs nothing."""

from __future__ import annotations

from typing import Any

from outrider.errors import AuthenticationError, ProviderError, UnknownModelError
from outrider.providers.api import ApiProvider
from outrider.providers.credentials.secrets import masked
from outrider.providers.resolution import PREFIXES, resolve
from outrider.providers.transport.http import ErrorResponse, Timeouts, Transport

TIMEOUTS = Timeouts(connect=10, read=20)
_LISTS = {"anthropic": "/v1/models", "gemini": "/v1beta/models"}
"""The path of the list after the base address; `/models` for all others."""


def provider_of(prefix: str, key: str) -> ApiProvider:
    """Return an adapter of a provider with this key. Raises UnknownModelError if the provider takes no key."""
    if prefix not in PREFIXES:
        raise UnknownModelError(f"there is no provider {prefix!r}; known: {', '.join(PREFIXES)}")
    known: Any = None if prefix == "demo" else resolve(f"{prefix}/none")
    if not isinstance(known, ApiProvider) or not known.key_variables:
        raise UnknownModelError(f"{prefix} takes no key")
    known._api_key = key or None
    return known


async def check_key(prefix: str, key: str) -> bool:
    """Return whether the provider accepts the key; False if it has no list to ask for. Raises ProviderError."""
    provider = provider_of(prefix, key)

    def explain(response: ErrorResponse) -> ProviderError:
        if response.status in (400, 401, 403):
            return AuthenticationError(f"{provider.label} does not accept this key; it was not kept")
        return ProviderError(
            f"{provider.label} cannot check the key now (status {response.status}); try again later, or set "
            f"{provider.key_variables[0]}",
            status=response.status,
        )

    transport = Transport(TIMEOUTS)
    try:
        await transport.get(f"{provider.base_url}{_LISTS.get(prefix, '/models')}", provider.headers(key), explain)
    except AuthenticationError:
        raise
    except ProviderError as error:
        if error.status == 404:
            return False
        raise ProviderError(masked(str(error), key)) from None
    finally:
        await transport.close()
    return True
