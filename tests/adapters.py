"""The adapters under test, and the kinds of models that each is tried with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from outrider.providers.api import ApiProvider
from outrider.providers.base import Reply
from outrider.providers.catalogue.vendors import VENDORS
from outrider.providers.resolution import resolve
from outrider.providers.streams.stream import ReplyParser
from outrider.runtime.events import Delta


class Case(msgspec.Struct, frozen=True):
    """A model by the name that a user gives it."""

    prefix: str
    model: str

    @property
    def name(self) -> str:
        return f"{self.prefix}/{self.model}"

    @property
    def api(self) -> str:
        """The API that it is spoken to with; LiteLLM takes that of Chat Completions, and files in results besides."""
        return "openai-chat" if self.prefix in ("ollama", *VENDORS) else self.prefix

    def adapter(self, base_url: str | None = None, *, key: str | None = None, **options: Any) -> ApiProvider:
        """The adapter, aimed at a server."""
        kind: Any = type(resolve(self.name))
        made: ApiProvider = kind(self.model, base_url=base_url, api_key=key, **options)
        return made


ONE_EACH = (
    Case("anthropic", "claude-sonnet-4-5"),
    Case("openai", "gpt-5.6"),
    Case("openai-chat", "gpt-5.6"),
    Case("gemini", "gemini-3-pro"),
)
"""One model for each API."""

ALL = (
    *ONE_EACH,
    Case("anthropic", "unheard-of"),
    Case("openai", "unheard-of"),
    Case("openai-chat", "unheard-of"),
    Case("gemini", "gemini-2.5-pro"),
    Case("ollama", "llava"),
    Case("ollama", "llama3.2"),
    Case("litellm", "anthropic/claude-sonnet-4-5"),
    Case("litellm", "gemini/gemini-3-pro"),
    Case("litellm", "someone/unheard-of"),
    Case("mistral", "mistral-medium-3-5"),
    Case("openrouter", "google/gemini-3-pro"),
    Case("xai", "grok-4.3"),
)
"""Each API with every kind of model: one that is known, one that is not, one that sees and one that does not."""


def heard(provider: ApiProvider, *chunks: bytes) -> list[Delta | Reply]:
    """What the adapter makes of an answer: deltas, and the reply as the last."""
    parser = ReplyParser(provider.incoming(), provider.label)
    return [*(item for chunk in chunks for item in parser.feed(chunk)), *parser.finish()]


def each(*cases: Case) -> pytest.MarkDecorator:
    """A test for each of the cases, as its argument `case`."""
    return pytest.mark.parametrize("case", [parameter(case) for case in cases])


def each_at_length(*cases: Case) -> pytest.MarkDecorator:
    """A test for each of the cases; only one for each API is short."""
    marks = {case: () if case in ONE_EACH else (pytest.mark.long,) for case in cases}
    return pytest.mark.parametrize("case", [parameter(case, marks=marks[case]) for case in cases])


def parameter(*cases: Case, marks: Sequence[pytest.MarkDecorator] = ()) -> Any:
    """One or more cases as a parameter of a test."""
    return pytest.param(*cases, id="-to-".join(case.name.replace("/", ":") for case in cases), marks=marks)
