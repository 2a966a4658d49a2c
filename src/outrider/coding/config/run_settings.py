"""The settings of runs: limits, retries, the context window, sub-agents and MCP servers."""

# No `from __future__ import annotations`: evaluating the annotations from strings takes twice as long.
from typing import Annotated

import msgspec

from outrider.coding.config.declaration import FREE, Setting, if_higher, if_on
from outrider.coding.config.value_types import seconds_up_to, up_to_one
from outrider.runtime.budget import Budget
from outrider.runtime.compaction import Compaction
from outrider.runtime.limits import Limits
from outrider.runtime.retry import Retry

_IF_LONGER = if_higher("a run may take longer, or cost more, than you have set")
_IF_COSTLIER = if_higher("requests may cost more in a day than you have set")
_LIMITS = Limits(max_turns=None)
"""People, and `-p`, work as long as the model makes progress: `max_repeats` stops it if it does not."""
_RETRY = Retry()
_COMPACTION = Compaction()


def _limit(name: str, help: str, flag: str = "") -> Setting:
    """Return the declaration of a limit. Its variable has its name."""
    return Setting(help, variable=f"OUTRIDER_{name.upper()}", flag=flag)


class LimitSettings(Limits, frozen=True):
    """The declarations of the settings for `Limits`, which has the defaults, but for `max_turns`."""

    max_turns: Annotated[
        int | None,
        _limit("max_turns", "replies of the model in one run; a task of a batch has 50 by default", flag="--max-turns"),
        _IF_LONGER,
    ] = None
    max_total_tokens: Annotated[
        int | None, _limit("max_total_tokens", "input and output tokens of one run"), _IF_LONGER
    ] = _LIMITS.max_total_tokens
    max_cost: Annotated[float | None, _limit("max_cost", "US dollars for one run", flag="--max-cost"), _IF_LONGER] = (
        _LIMITS.max_cost
    )
    max_seconds: Annotated[float | None, _limit("max_seconds", "wall time of one run"), _IF_LONGER] = (
        _LIMITS.max_seconds
    )
    max_repeats: Annotated[
        int | None, _limit("max_repeats", "turns in a row with the same calls and results as before"), _IF_LONGER
    ] = _LIMITS.max_repeats
    max_checks: Annotated[
        int | None, _limit("max_checks", "checks of the [goal](chat.md#goals) in one run"), _IF_LONGER
    ] = _LIMITS.max_checks
    max_subagents: Annotated[int | None, _limit("max_subagents", "sub-agents that one run starts"), _IF_LONGER] = (
        _LIMITS.max_subagents
    )
    tool_seconds: Annotated[
        float | None,
        _limit("tool_seconds", "wall time of one call, for tools without a limit of their own"),
        _IF_LONGER,
    ] = _LIMITS.tool_seconds
    result_characters: Annotated[
        int,
        Setting("characters of a result that the model reads; the whole is stored"),
        if_higher("results may be longer than you have set"),
    ] = _LIMITS.result_characters
    attachment_bytes: Annotated[
        int,
        Setting("the largest file that a tool or a person may attach"),
        if_higher("files may be larger than you have set"),
    ] = _LIMITS.attachment_bytes


class BudgetSettings(Budget, frozen=True):
    """The declarations of the settings for `Budget`. `Settings.budget` itself is a `Budget`."""

    day: Annotated[
        float | None,
        Setting("US dollars that all sessions may cost [in a day](costs.md#budgets), from midnight on"),
        _IF_COSTLIER,
    ] = None
    folder_day: Annotated[float | None, Setting("the same for the sessions in one folder"), _IF_COSTLIER] = None
    owner_day: Annotated[
        float | None, Setting("the same for the sessions of one owner, which programs name"), _IF_COSTLIER
    ] = None


class RetrySettings(Retry, frozen=True):
    """The declarations of the settings for `Retry`, which has the defaults. `Settings.retry` itself is a `Retry`."""

    seconds: Annotated[
        float,
        seconds_up_to(86_400),
        Setting(
            "seconds for which a failed request is [retried](failures.md); 0 for none",
            variable="OUTRIDER_RETRY_SECONDS",
        ),
        _IF_LONGER,
    ] = _RETRY.seconds
    idle_seconds: Annotated[
        float,
        Setting(
            "seconds without anything new in a stream after which it counts as broken", variable="OUTRIDER_IDLE_SECONDS"
        ),
        _IF_LONGER,
    ] = _RETRY.idle_seconds


class ContextSettings(msgspec.Struct, frozen=True):
    """When a conversation is shortened because the model's context window fills up."""

    compact_at: Annotated[
        float | None,
        up_to_one(optional=True),
        Setting(
            "the share of the [context window](context.md) at which the conversation is summarised; `none` waits "
            "until the API refuses a request",
            variable="OUTRIDER_COMPACT_AT",
        ),
        FREE,
    ] = _COMPACTION.threshold
    clear_at: Annotated[
        float | None,
        up_to_one(optional=True),
        Setting(
            "the share at which old results are replaced by one line each, if that saves a fifth of the window; "
            "`none` for never",
            variable="OUTRIDER_CLEAR_AT",
        ),
        FREE,
    ] = _COMPACTION.clear_threshold

    @property
    def compaction(self) -> Compaction:
        return Compaction(threshold=self.compact_at, clear_threshold=self.clear_at)


class SubagentSettings(msgspec.Struct, frozen=True):
    """How sub-agents work and answer."""

    at_once: Annotated[
        int,
        Setting("sub-agents that work at the same time, also those in the background; others wait"),
        if_higher("more sub-agents may work at the same time than you have set"),
        msgspec.Meta(ge=1),
    ] = 8

    result_characters: Annotated[
        int,
        Setting("characters of a sub-agent's answer that the model reads, at most `limits.result_characters`"),
        if_higher("answers of sub-agents may be longer than you have set"),
    ] = 10_000


class McpSettings(msgspec.Struct, frozen=True):
    """How MCP servers are used."""

    tools_share: Annotated[
        float,
        up_to_one(),
        Setting("the share of the context window for tools of MCP servers; above it the model searches for them"),
        if_higher("tools of MCP servers may take more of the context window than you have set"),
    ] = 0.05
    start_seconds: Annotated[
        float,
        seconds_up_to(600),
        Setting("seconds that `-p` waits for MCP servers to start; a chat waits at most one"),
        _IF_LONGER,
    ] = 10.0
    share: Annotated[
        bool,
        Setting("whether tasks of a batch share the MCP servers of a folder; off if each needs its own"),
        if_on("tasks of a batch may share MCP servers, which you have turned off"),
    ] = True
