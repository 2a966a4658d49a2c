"""docs/providers has a page for each provider, with its keys, addresses, tiers and limits as they are in the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from outrider.providers.adapters.anthropic import Anthropic
from outrider.providers.adapters.azure import Azure
from outrider.providers.adapters.bedrock import BedrockChat
from outrider.providers.adapters.gemini import Gemini
from outrider.providers.adapters.hosted import CompatibleServer
from outrider.providers.adapters.litellm import LiteLLM
from outrider.providers.adapters.ollama import Ollama
from outrider.providers.adapters.openai_responses import OpenAIResponses
from outrider.providers.adapters.vertex import VertexGemini
from outrider.providers.catalogue.tiers import models_of
from outrider.providers.catalogue.vendors import VENDORS
from tests.cli.program import outrider

FOLDER = Path(__file__).parents[2] / "docs" / "providers"
CLASSES = {
    "anthropic": (Anthropic,),
    "openai": (OpenAIResponses,),
    "gemini": (Gemini,),
    "azure": (Azure,),
    "bedrock": (BedrockChat,),
    "vertex": (VertexGemini,),
    "litellm": (LiteLLM,),
}


@pytest.mark.parametrize("page", CLASSES)
def test_a_page_names_the_variables_and_tiers_of_its_provider(page: str) -> None:
    text = (FOLDER / f"{page}.md").read_text()
    for provider in CLASSES[page]:
        for name in (*provider.key_variables, provider.base_variable, f"{provider.prefix}/"):
            assert name in text
    for tier, model in models_of(page).items():
        assert f"`{page}/{tier}` is `{model}`" in text


def test_the_page_of_local_models_names_their_variables() -> None:
    text = (FOLDER / "local.md").read_text()
    for name in (*Ollama.key_variables, *CompatibleServer.key_variables, Ollama.base_variable, Ollama.default_base):
        assert name in text


@pytest.mark.parametrize("prefix", VENDORS)
def test_each_vendor_has_its_key_its_address_and_a_model(prefix: str) -> None:
    vendor = VENDORS[prefix]
    text = (FOLDER / ("openrouter.md" if prefix == "openrouter" else "vendors.md")).read_text()
    for name in (*vendor.key_variables, vendor.base_variable, f"{prefix}/{vendor.example}"):
        assert f"`{name}`" in text


@pytest.mark.parametrize("page", ["anthropic", "openai", "gemini"])
def test_the_limits_on_a_page_are_those_that_the_program_prints(page: str) -> None:
    (shown,) = re.findall(r"^```text\n(.*?)^```", (FOLDER / f"{page}.md").read_text(), re.M | re.S)
    printed = outrider("models", f"{page}/balanced").stdout.splitlines()
    assert [line for line in shown.splitlines() if line not in printed] == []
