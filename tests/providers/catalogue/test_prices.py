"""What a reply costs: as the price list says, quickly, and never at the price of the reply."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from genai_prices import Usage as ListedUsage
from genai_prices import calc_price
from genai_prices.data_snapshot import get_snapshot
from hypothesis import given
from hypothesis import strategies as st

from outrider import Log
from outrider.conversation.messages import Message
from outrider.conversation.usage import Usage
from outrider.log.entries import MessageEntry
from outrider.providers.catalogue import price_list, prices
from outrider.providers.catalogue.prices import context_tokens, rates_of, with_cost

OURS = {"anthropic": "anthropic", "openai": "openai", "google": "gemini"}
MODELS = [
    (OURS[provider.id], provider.id, model.id)
    for provider in get_snapshot().providers
    if provider.id in OURS
    for model in provider.models
    if model.is_match(model.id)
]


def listed_cost(owner: str, model: str, usage: Usage, at: datetime | None = None) -> float:
    """What the price list itself makes of a usage."""
    counts = ListedUsage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    return float(calc_price(counts, model, provider_id=owner, genai_request_timestamp=at).total_price)


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    cached, written, fresh = (draw(st.integers(0, 400_000)) for _ in range(3))
    output = draw(st.integers(0, 200_000))
    reasoning = draw(st.integers(0, output))
    return Usage(cached + written + fresh, output, cached, written, reasoning)


@given(st.sampled_from(MODELS), usages())
def test_every_model_costs_what_the_price_list_says(model: tuple[str, str, str], usage: Usage) -> None:
    ours, owner, name = model
    cost = with_cost(ours, name, usage).cost
    if cost is not None:
        assert cost == pytest.approx(listed_cost(owner, name, usage), rel=1e-9, abs=1e-12)


def test_the_figures_by_hand() -> None:
    usage = Usage(input_tokens=10_000, output_tokens=1_000, cached_tokens=6_000, cache_write_tokens=3_000)
    by_hand = (1_000 * 3 + 6_000 * 0.3 + 3_000 * 3.75 + 1_000 * 15) / 1_000_000
    assert with_cost("anthropic", "claude-sonnet-4-5", usage).cost == pytest.approx(by_hand)


def test_a_long_request_costs_its_higher_rate_for_all_of_its_tokens() -> None:
    short = with_cost("anthropic", "claude-sonnet-4-5", Usage(200_000, 1_000)).cost
    long = with_cost("anthropic", "claude-sonnet-4-5", Usage(200_001, 1_000)).cost
    assert short == pytest.approx(0.2 * 3 + 0.001 * 15)
    assert long == pytest.approx(0.200001 * 6 + 0.001 * 22.5)


def test_a_price_that_changes_on_a_date_is_that_of_the_day(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = Usage(1000, 100)
    for day in (datetime(2026, 7, 1, tzinfo=UTC), datetime(2026, 9, 1, tzinfo=UTC)):
        monkeypatch.setattr(time, "time", day.timestamp)
        expected = listed_cost("openai", "gpt-5.6-luna", usage, day)
        assert with_cost("openai", "gpt-5.6-luna", usage).cost == pytest.approx(expected)
    assert expected == pytest.approx(1000 * 0.2e-6 + 100 * 1.2e-6)


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("anthropic", "claude-unheard-of"),
        ("anthropic", ""),
        ("ollama", "gpt-oss:20b"),
        ("litellm", "ollama/llama3.3"),
        ("nobody", "gpt-5.6"),
        ("openai", "whisper-1"),
        ("openai", "\ud800"),
    ],
)
def test_a_model_without_a_known_price_leaves_the_usage_as_it_is(provider: str, model: str) -> None:
    usage = Usage(1000, 100)
    assert with_cost(provider, model, usage) is usage


@pytest.mark.parametrize(
    ("provider", "model", "same"),
    [
        ("openai-chat", "gpt-5.6", ("openai", "gpt-5.6")),
        ("litellm", "anthropic/claude-sonnet-4-5", ("anthropic", "claude-sonnet-4-5")),
        ("litellm", "gemini/gemini-3.8-flash", ("gemini", "gemini-3.8-flash")),
        ("anthropic", "claude-sonnet-4-5-20250929", ("anthropic", "claude-sonnet-4-5")),
    ],
)
def test_a_model_costs_the_same_by_another_way(provider: str, model: str, same: tuple[str, str]) -> None:
    assert rates_of(provider, model) == rates_of(*same) != ()


def test_a_cost_that_is_known_already_stays() -> None:
    usage = Usage(1000, 100, cost=0.5)
    assert with_cost("anthropic", "claude-sonnet-4-5", usage) is usage


def test_counts_that_cannot_be_right_still_give_a_cost_and_no_error() -> None:
    odd = Usage(input_tokens=100, output_tokens=10, cached_tokens=500, reasoning_tokens=50)
    cost = with_cost("openai", "gpt-5.6", odd).cost
    assert cost is not None
    assert cost > 0


@pytest.mark.parametrize("content", [None, b"", b'{"providers": [{"id": "anthropic", "models": [[5]]}]}'])
def test_a_price_list_that_is_broken_costs_no_reply(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "prices.json"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setattr(price_list, "FILE", file)
    caches = (price_list._providers, price_list._models, prices._listed, prices._rates)
    for cached in caches:
        cached.cache_clear()
    try:
        usage = Usage(1000, 100)
        assert with_cost("anthropic", "claude-sonnet-4-5", usage) is usage
        assert context_tokens("anthropic", "claude-sonnet-4-5") is None
    finally:
        for cached in caches:
            cached.cache_clear()


def test_context_sizes() -> None:
    assert context_tokens("anthropic", "claude-sonnet-4-5") == 200_000
    assert context_tokens("openai-chat", "gpt-5.4") == 1_050_000
    assert context_tokens("ollama", "qwen3") is None


def test_the_price_list_is_not_read_before_a_price_is_asked_for() -> None:
    code = (
        "import sys\nfrom outrider.conversation.usage import Usage\n"
        "from outrider.providers.catalogue.prices import with_cost\n"
        "with_cost('ollama', 'qwen3', Usage(1, 1))\n"
        "print('outrider.providers.catalogue.price_list' in sys.modules)\n"
        "print(with_cost('anthropic', 'claude-sonnet-4-5', Usage(1_000_000, 0)).cost)\n"
        "from outrider.providers.catalogue.price_list import _models\n"
        "print(_models.cache_info().currsize, 'pydantic' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["False", "6.0", "1", "False"], "one provider of the list is decoded"


def test_a_price_costs_little_once_it_was_looked_up() -> None:
    usage = Usage(12_345, 678, 9_000, 1_000)
    with_cost("anthropic", "claude-sonnet-4-5", usage)

    def thousand() -> float:
        started = time.process_time()
        for _ in range(1000):
            with_cost("anthropic", "claude-sonnet-4-5", usage)
        return time.process_time() - started

    per_call = min(thousand() for _ in range(5)) / 1000
    assert per_call < 100e-6, "looking the model up in the price list takes about 200 microseconds"


def test_costs_have_no_float_noise(tmp_path: Path) -> None:
    """The price of a reply, sums of replies, and the sums of the log."""
    priced = [with_cost("anthropic", "claude-sonnet-4-5", Usage(count, 77)) for count in range(1, 400)]
    costs = [each.cost for each in priced if each.cost is not None]
    assert max(len(str(cost)) for cost in costs) < 12
    total = sum(priced, Usage())
    assert len(str(total.cost)) < 12
    with Log(tmp_path) as log:
        journal = log.create()
        journal.write_now(MessageEntry(Message.user("Hi")))
        for each in priced[:30]:
            journal.write_now(MessageEntry(Message.assistant("x"), each))
        journal.close()
        [summary] = log.sessions()
    assert len(str(summary.usage.cost)) < 12
