"""The vendors of `vendors.py`: one adapter, with the table's data as the attributes of a class for each vendor."""

from __future__ import annotations

import types
from functools import cache
from typing import Any, ClassVar

from outrider.providers.adapters.openai_chat import OpenAIChat
from outrider.providers.api import ApiProvider
from outrider.providers.catalogue.capabilities import capabilities_of
from outrider.providers.catalogue.vendors import VENDORS, Vendor


class HostedChat(OpenAIChat):
    """A model of a vendor that is known by name."""

    vendor: ClassVar[Vendor]
    can_look_up = True

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
        known = {"capabilities": capabilities_of(self.prefix, model, f"{self.vendor.base_url}#{model}")}
        super().__init__(model, **(known | settings))
        self._looked_up = self._looked_up or "capabilities" in settings

    def _required_key(self) -> str:
        # A server that the user chose instead of the vendor's may need no key.
        return ApiProvider._required_key(self) if self.key or self.base_url == self.default_base else ""


@cache
def adapter_of(prefix: str) -> type[HostedChat]:
    vendor = VENDORS[prefix]
    return types.new_class(vendor.label, (HostedChat,), {"vendor": vendor})
