"""Servers with a Chat Completions API: vendors of `vendors.py` by name, others by URL: http://host:port/v1#model."""

from __future__ import annotations

import types
from functools import cache
from typing import Any, ClassVar
from urllib.parse import urlsplit

from outrider.errors import UnknownModelError
from outrider.providers.adapters.openai_chat import OpenAIChat
from outrider.providers.api import ApiProvider
from outrider.providers.catalogue.capabilities import capabilities_of
from outrider.providers.catalogue.vendors import VENDORS, Vendor


class _AskedServer(OpenAIChat):
    """A server that is asked about models that are not known. `name` is the URL with the model after a #."""

    can_look_up = True

    def __init__(self, model: str, name: str, **settings: Any) -> None:
        known = {"capabilities": capabilities_of(self.prefix, model, name)}
        super().__init__(model, **(known | settings))
        self._looked_up = self._looked_up or "capabilities" in settings


class HostedChat(_AskedServer):
    """A model of a vendor that is known by name. Each vendor has a class with the data of the table."""

    vendor: ClassVar[Vendor]

    def __init_subclass__(cls, *, vendor: Vendor, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        cls.vendor = vendor
        cls.prefix = vendor.prefix
        cls.label = vendor.label
        cls.key_variables = vendor.key_variables
        cls.base_variable = vendor.base_variable
        cls.default_base = vendor.base_url

    def __init__(self, model: str, **settings: Any) -> None:
        # The address of the vendor, not a proxy's: its limits apply there as well.
        super().__init__(model, f"{self.vendor.base_url}#{model}", **settings)

    def required_key(self) -> str:
        # A server that the user chose instead of the vendor's may need no key.
        return ApiProvider.required_key(self) if self.key or self.base_url == self.default_base else ""


@cache
def adapter_of(prefix: str) -> type[HostedChat]:
    vendor = VENDORS[prefix]
    return types.new_class(vendor.label, (HostedChat,), {"vendor": vendor})


class CompatibleServer(_AskedServer):
    """A model of vLLM, LM Studio, llama.cpp or another server with a Chat Completions API.

    The OpenAI key is not sent there. A server that needs a key gets the one in `OPENAI_COMPATIBLE_API_KEY`.
    """

    prefix = "openai-compatible"
    label = "the server"
    key_variables = ("OPENAI_COMPATIBLE_API_KEY",)
    base_variable = "OPENAI_COMPATIBLE_BASE_URL"
    default_base = "http://localhost:8000/v1"
    key_required = False

    def __init__(self, model: str, base_url: str, **settings: Any) -> None:
        name = f"{base_url.rstrip('/')}#{model}"
        super().__init__(model, name, base_url=base_url, **settings)
        self.name = name


def provider(url: str) -> CompatibleServer:
    """Return the adapter for a URL with the model name after a #."""
    base, _, model = url.partition("#")
    parts = urlsplit(base)
    if "@" in parts.netloc:
        raise UnknownModelError(
            "the URL of a server must not contain a password; put a key into OPENAI_COMPATIBLE_API_KEY"
        )
    if not (model and parts.hostname):
        raise UnknownModelError(f"{url!r} does not name a server and a model; write it as http://host:port/v1#model")
    return CompatibleServer(model, base)
