"""Tokens and costs."""

from __future__ import annotations

from outrider.conversation.items import PlainStruct


class Usage(PlainStruct, frozen=True, gc=False):
    """The tokens and the cost of a reply, a turn or a run."""

    input_tokens: int = 0
    """All input, including the cached part."""
    output_tokens: int = 0
    """All output, including the reasoning."""
    cached_tokens: int = 0
    """The part of the input that came from the provider's cache."""
    cache_write_tokens: int = 0
    """The part of the input that was written to the provider's cache."""
    reasoning_tokens: int = 0
    """The part of the output that was reasoning."""
    cost: float | None = None
    """US dollars; None if the price is unknown."""
    web_searches: int = 0
    """Searches that the model's API ran. Most APIs charge for each."""
    context_tokens: int | None = None
    """The tokens of the conversation after the reply, where they are not the billed ones: an API that runs tools itself
    bills the input of each of its steps. 0 if the API does not tell. A sum has none."""
    cache_write_1h_tokens: int = 0
    """The part of `cache_write_tokens` that is kept for an hour, which costs more."""

    def keys(self) -> tuple[str, ...]:
        """Return the names that `dict(…)` uses: the fields, the sum and the share."""
        return *super().keys(), "total_tokens", "cached_share"

    @property
    def cached_share(self) -> float | None:
        """The part of the input that came from the provider's cache, from 0 to 1; None if there was no input."""
        return round(self.cached_tokens / self.input_tokens, 4) if self.input_tokens else None

    @property
    def total_tokens(self) -> int:
        """Input and output together, as they are billed."""
        return self.input_tokens + self.output_tokens

    @property
    def context(self) -> int:
        """The tokens of the conversation after the reply; 0 if they are unknown."""
        return self.total_tokens if self.context_tokens is None else self.context_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.cost if other.cost is None else rounded_cost(other.cost + (self.cost or 0.0)),
            self.web_searches + other.web_searches,
            None,
            self.cache_write_1h_tokens + other.cache_write_1h_tokens,
        )


def rounded_cost(cost: float) -> float:
    """Return a cost in US dollars without the noise of binary fractions. A token costs far more than is cut off.

    >>> 0.1 + 0.2, rounded_cost(0.1 + 0.2)
    (0.30000000000000004, 0.3)
    """
    return round(cost, 12)
