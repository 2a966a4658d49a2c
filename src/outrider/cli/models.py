"""`outrider models`: list the providers, check that they are reachable, and describe a model."""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import msgspec

from outrider.cli.command_parser import command_parser
from outrider.errors import MissingKeyError, ProviderError, UnknownModelError, install_extra
from outrider.providers.api import ApiProvider
from outrider.providers.catalogue import tiers
from outrider.providers.catalogue.capabilities import Capabilities, Placement
from outrider.providers.catalogue.efforts import levels_of
from outrider.providers.catalogue.known_models import known_models
from outrider.providers.catalogue.prices import Rates, context_tokens, rates_of
from outrider.providers.catalogue.vendors import VENDORS
from outrider.providers.resolution import resolve
from outrider.providers.transport.http import ErrorResponse, Timeouts, Transport
from outrider.providers.transport.network import without_password
from outrider.struct_types import described
from outrider.text import counted, human_size

DESCRIPTION = """\
List the providers: whether their API keys are set, the URL of each, and the models of their tiers. Ollama is shown as
running or not. With MODEL, show what that model can do, its context size and its price.
"""
EXAMPLES = """\
examples:
  outrider models
  outrider models --check
  outrider models anthropic/claude-opus-5-5

exit codes: 0 done, 1 a provider with a key is not reachable (--check), 2 wrong usage
"""
HOSTED = ("anthropic", "openai", "openai-chat", "gemini")
OTHERS = (*VENDORS, "azure", "vertex", "bedrock")
"""Vendors without tiers."""
TIMEOUTS = Timeouts(connect=3.0, read=5.0, total=8.0)
NAMES_SHOWN = 8

_ENDPOINT = re.compile(r"/(?:messages|responses|chat/completions|models/[^/]*)$")
_PLACES: dict[Placement, str] = {
    "native": "in the tool result",
    "moved": "in a user message after the tool results",
    "text": "as text",
    "no": "not sent; a note replaces it",
}


def models(arguments: list[str]) -> int:
    options = make_parser().parse_args(arguments)
    if not options.model:
        return asyncio.run(_list(check=options.check))
    try:
        provider = resolve(options.model)
    except (UnknownModelError, MissingKeyError) as error:
        print(f"outrider models: {error}", file=sys.stderr)
        return 2
    print(provider.name)
    if not isinstance(provider, ApiProvider):
        _row("", "runs in this process; no key needed, free of charge")
        return 0
    if look_up := getattr(provider, "look_up_now", None):
        look_up()
    for name, text in _model_rows(provider):
        _row(f"  {name}", text)
    return asyncio.run(_show_check(provider)) if options.check else 0


def make_parser() -> argparse.ArgumentParser:
    parser = command_parser("models", DESCRIPTION, EXAMPLES)
    parser.add_argument("model", nargs="?", metavar="MODEL", help="provider and model, as in anthropic/fast")
    parser.add_argument(
        "--check",
        action="store_true",
        help="request the list of models from each provider that has a key; free of charge",
    )
    return parser


def _row(name: str, text: str) -> None:
    print(f"{name:<16} {text}")


# All providers


async def _list(*, check: bool) -> int:
    apis = [api_of(prefix) for prefix in (*HOSTED, *OTHERS)]
    asked = [api for api in apis if api.key] if check else []
    *answers, local = await asyncio.gather(*map(_ask, asked), _ask(api_of("ollama")))
    answered = dict(zip((api.prefix for api in asked), answers, strict=True))
    for api in apis:
        _row(api.prefix, f"{_key(api)}; {without_password(api.base_url) or f'set {api.base_variable}'}")
        if models_of_tiers := tiers.models_of(api.prefix):
            _row("", ", ".join(f"{tier}: {model}" for tier, model in models_of_tiers.items()))
        if api.prefix in answered:
            _row("", answered[api.prefix].sentence)
    stopped = f"not running ({local.sentence}); start it with: ollama serve"
    _row("ollama", f"running; {local.sentence}" if local.good else stopped)
    installed = "installed" if find_spec("litellm") else f"not installed: {install_extra('litellm')}"
    _row("litellm", f"any model of LiteLLM, as litellm/PROVIDER/MODEL; {installed}")
    _row("http://…", "an OpenAI-compatible server, as http://host:port/v1#model")
    _row("demo", "built in: a few rules, not an LLM; no key")
    print("\nAbilities, context size and price of a model: outrider models PROVIDER/MODEL")
    return 0 if all(answer.good for answer in answers) else 1


def api_of(prefix: str) -> ApiProvider:
    """Return a provider's adapter, for questions that do not concern one model."""
    provider = resolve(f"{prefix}/{tiers.models_of(prefix).get('balanced', 'any')}")
    assert isinstance(provider, ApiProvider)
    return provider


def _key(api: ApiProvider) -> str:
    if not api.key_variables:
        return "from the vendor's usual environment variable"
    return f"{' or '.join(api.key_variables)} is {'set' if api.key else 'not set'}"


# Whether an API answers


class _Answer(msgspec.Struct, frozen=True):
    good: bool
    sentence: str
    names: tuple[str, ...] = ()
    """The models listed in the answer; perhaps only the first page."""


class _Listed(msgspec.Struct):
    id: str = ""
    name: str = ""


class _List(msgspec.Struct):
    """A list of models; providers use either field."""

    data: list[_Listed] | None = None
    models: list[_Listed] | None = None


async def _ask(api: ApiProvider) -> _Answer:
    """Request the list of models, which needs the key and is free of charge."""
    url = _ENDPOINT.sub("/models", api.url().partition("?")[0])
    if "://" not in url:
        return _Answer(True, f"{api.label} cannot be checked without a request")

    def explain(response: ErrorResponse) -> ProviderError:
        if response.status == 404:
            return ProviderError(f"there is nothing at {without_password(url)}; check {api.base_variable}")
        return api.explain(response, api.key)

    try:
        answer = await Transport(TIMEOUTS).get(url, api.headers(api.key), explain)
        listed = msgspec.json.decode(answer, type=described(_List))
    except ProviderError as error:
        return _Answer(False, str(error))
    except ValueError:
        return _Answer(False, f"{without_password(url)} returned no list of models; check {api.base_variable}")
    names = [model.id or model.name.removeprefix("models/") for model in listed.data or listed.models or ()]
    shown = counted(len(names), "model") if len(names) > NAMES_SHOWN else ", ".join(names) or "no models"
    return _Answer(True, f"reachable: {shown}", tuple(names))


async def _show_check(api: ApiProvider) -> int:
    answer = await _ask(api)
    sentence = answer.sentence
    if {api.model, f"{api.model}:latest"} & set(answer.names):
        sentence = f"reachable; {api.model} is available"
    _row("  now", sentence)
    return 0 if answer.good else 1


# One model


def _model_rows(api: ApiProvider) -> Iterator[tuple[str, str]]:
    can = api.capabilities
    if not known_models().knows(api.prefix, api.model.lower()):
        yield "note", "not a known model: only formats that every model accepts are sent"
    yield "pictures", _pictures(can)
    yield "PDFs", _pdfs(can)
    yield "text files", _PLACES[can.text_file]
    yield "sound", _PLACES[can.audio]
    yield "effort", ", ".join(levels_of(can)) or "none"
    yield "tools", "called natively" if can.tools else "described in the prompt; the model has no native calls"
    yield "request", f"up to {human_size(can.request_bytes)}"
    window = context_tokens(api.prefix, api.model) or can.context_tokens
    yield "context", counted(window, "token") if window else "unknown"
    yield "price", _price(rates_of(api.prefix, api.model))
    yield "key", _key(api) if api.key_required or not api.key_variables else f"not needed; {_key(api)}"
    yield "URL", without_password(api.url())


def _pictures(can: Capabilities) -> str:
    if can.image not in ("native", "moved"):
        return _PLACES[can.image]
    kinds = ", ".join(kind.removeprefix("image/") for kind in can.image_types)
    limits = f"up to {human_size(can.image_bytes)} in base64, {can.pixels:,} pixels a side, {can.images:,} a request"
    return f"{_PLACES[can.image]} ({kinds}; {limits})"


def _pdfs(can: Capabilities) -> str:
    if can.pdf not in ("native", "moved"):
        return _PLACES[can.pdf]
    return f"{_PLACES[can.pdf]} (up to {human_size(can.pdf_bytes)} in base64, {counted(can.pdf_pages, 'page')})"


def _price(rates: tuple[Rates, ...]) -> str:
    """Describe the rates, those for the shortest requests first."""
    if not rates:
        return "unknown"
    first, *more = reversed(rates)
    longer = "".join(f"; above {each.above:,} input tokens: {_dollars(each)}" for each in more)
    return f"{_dollars(first)} per million tokens{longer}"


def _dollars(rates: Rates) -> str:
    kinds = {"in": rates.fresh, "cached": rates.cached, "written to the cache": rates.written, "out": rates.output}
    return ", ".join(
        f"${round(price * 1_000_000, 6):g} {kind}"
        for kind, price in kinds.items()
        if kind in ("in", "out") or price != rates.fresh
    )
