"""Azure OpenAI: "azure/DEPLOYMENT". The address is that of a resource: https://NAME.openai.azure.com.

With `AZURE_OPENAI_API_VERSION` or `OPENAI_API_VERSION`, requests go to the URL of the deployment with that api-version;
without, to the resource's v1 API, which needs none.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar

from outrider.errors import AuthenticationError, ProviderError
from outrider.providers.adapters.openai_chat import OpenAIChat
from outrider.providers.api import ApiProvider
from outrider.providers.catalogue.vendors import Quirks

VERSION_VARIABLES = ("AZURE_OPENAI_API_VERSION", "OPENAI_API_VERSION")


class Azure(OpenAIChat):
    """A deployment of Azure OpenAI, through the Chat Completions API."""

    prefix = "azure"
    label = "Azure OpenAI"
    key_variables: ClassVar[tuple[str, ...]] = ("AZURE_OPENAI_API_KEY", "AZURE_API_KEY")
    base_variable = "AZURE_BASE_URL"
    default_base = ""
    is_openai = True
    quirks = Quirks(tokens_field="max_completion_tokens")

    def __init__(self, model: str, *, api_version: str | None = None, **settings: Any) -> None:
        super().__init__(model, **settings)
        base = self.base_url or os.environ.get("AZURE_OPENAI_ENDPOINT", "").rstrip("/")
        self.base_url = base.removesuffix("/v1").removesuffix("/openai")
        self._version = api_version or next(filter(None, map(os.environ.get, VERSION_VARIABLES)), "")

    def url(self) -> str:
        if self._version:
            deployment = f"{self.base_url}/openai/deployments/{self.model}"
            return f"{deployment}/chat/completions?api-version={self._version}"
        return f"{self.base_url}/openai/v1/chat/completions"

    def headers(self, key: str) -> dict[str, str]:
        return {"content-type": "application/json", "api-key": key}

    @property
    def key(self) -> str:
        """The key that was passed, or the one in the environment."""
        return ApiProvider.key.fget(self)  # type: ignore[attr-defined, no-any-return]

    def required_key(self) -> str:
        if not self.base_url:
            raise AuthenticationError(
                f"there is no address for {self.label}; set {self.base_variable} to https://NAME.openai.azure.com"
            )
        return ApiProvider.required_key(self)

    def _classify(self, status: int, message: str) -> tuple[type[ProviderError], str]:
        kind, sentence = super()._classify(status, message)
        if status == 404:
            sentence = (
                f"{self.label} has no deployment {self.model} at {self.host} ({message}); check the name, "
                f"{self.base_variable} and {VERSION_VARIABLES[0]}"
            )
        return kind, sentence
