"""Mask keys, so that none reaches a log, an error or an event."""

from __future__ import annotations

import os
import re
from typing import Any

from outrider.providers.catalogue.vendors import VENDORS
from outrider.providers.credentials.keys import stored_values

MASK = "…"
_SECRETS = ("_API_KEY", "_ACCESS_KEY", "_TOKEN", "_SECRET", "_PASSWORD")

MODEL_KEYS = (
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OLLAMA_API_KEY",
    "OPENAI_COMPATIBLE_API_KEY",
    *(name for vendor in VENDORS.values() for name in vendor.key_variables),
    *("AZURE_OPENAI_API_KEY", "AZURE_API_KEY", "AWS_BEARER_TOKEN_BEDROCK", "VERTEX_ACCESS_TOKEN"),
    *("ANTHROPIC_AUTH_TOKEN", "COHERE_API_KEY", "PERPLEXITYAI_API_KEY", "REPLICATE_API_KEY"),  # for LiteLLM
)
"""Environment variables that hold keys for models."""

_SECRET_NAME = re.compile(r"token|secret|passw|authori|credential|api[-_]?key|cookie", re.IGNORECASE)
# The keys of known vendors.
_KEYS = re.compile(
    r"(?:\b|(?<=\\[bfnrt]))(?:sk-ant-|sk-proj-|sk-or-|sk-|gsk_|xai-|pplx-|nvapi-|csk-|fw_|tgp_v1_|ABSK|r8_|hf_|AIza|ya29\.|ghp_|github_pat_|AKIA)[A-Za-z0-9_\-.*]{8,}"
)


def masked(text: str, *secrets: str) -> str:
    """Return the text without these secrets, plain or JSON-encoded, and without anything that looks like a key.

    >>> masked("bad key sk-ant-REDACTED", "hunter2")
    'bad key …'
    """
    import json  # escapes non-ASCII characters, as servers do

    forms = {form for secret in secrets for form in (secret, secret.strip(), json.dumps(secret.strip())[1:-1])}
    for secret in sorted(forms, key=len, reverse=True):  # one may be the start of another
        if len(secret) >= 4:
            text = text.replace(secret, MASK)
    return _KEYS.sub(MASK, text)


def without_secrets(value: Any, name: str = "") -> Any:
    """Return options of a request without keys: an API takes tokens for other servers in them."""
    match value:
        case dict():
            return {key: without_secrets(item, str(key)) for key, item in value.items()}
        case list() | tuple():
            return [without_secrets(item, name) for item in value]
        case str():
            return MASK if _SECRET_NAME.search(name) else masked(value)
    return value


def configured() -> list[str]:
    """Return the keys for models, stored ones as well, and variables whose names mark them as secret."""
    found = [value for name, value in os.environ.items() if name in MODEL_KEYS or name.upper().endswith(_SECRETS)]
    return [*found, *stored_values()]
