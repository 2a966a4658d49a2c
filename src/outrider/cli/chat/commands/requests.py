"""Commands about the requests of a session: what they send, what fills them, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from outrider.cli.chat.commands.command import ChatCommand, CommandContext, Next, Work
from outrider.cli.styles import BOLD, CYAN, DIM, GREEN, RED, YELLOW, fit, styled
from outrider.coding import sentences
from outrider.text import dollars, thousands
from outrider.text.visible import safe_lines
from outrider.tools.threads import Threads

if TYPE_CHECKING:
    from outrider.providers.base import ToolSpec
    from outrider.runtime.context import ContextUsage


WIRE_LINES = 300


def _show_request(chat: CommandContext, model: str) -> None:
    from outrider.coding.stored_request import pretty, sending_provider
    from outrider.providers.base import Request

    session = chat.current.session
    messages = session.history.sendable() if session else []
    if session is None or not messages:
        chat.view.dim("There are no messages yet, so there is no request.")
        return
    provider = sending_provider(model or chat.current.model_name)
    served = session.server_tools if not model else ()
    agent = session.agent
    request = Request(
        *(messages, session.store, agent.system_prompt, session.specs),
        settings=agent.settings,
        server_tools=served,
        situation=agent.situation,
    )
    body = provider.render(request)
    lines = safe_lines(pretty(_without_tools(body, session.specs)).decode()).split("\n")
    if len(lines) > WIRE_LINES:
        chat.view.dim(f"… {len(lines) - WIRE_LINES} earlier lines")
    chat.view.write([fit(line, chat.view.region.width) for line in lines[-WIRE_LINES:]])


def _show_context(chat: CommandContext, wanted: str) -> None:
    session = chat.current.session
    lost = sentences.cache_lines(chat.current.log, session.id, wanted) if session else []
    lines = [] if wanted == "turns" else [*context_lines(chat.current.context, chat.view.region.width)]
    lines += ["", *(styled(line, YELLOW) for line in lost)] if lines and lost else lost
    chat.view.write([*(f"  {line}".rstrip() for line in lines), ""])
    if cached := sentences.cached_is(chat.current.usage):
        chat.view.dim(cached)


def _compact(chat: CommandContext, focus: str) -> Next:
    if chat.current.session:
        return Work(_summarise(chat, focus))
    chat.view.dim("There are no messages yet.")
    return None


async def _summarise(chat: CommandContext, focus: str) -> None:
    await chat.current.open().compact(focus)  # the view shows the event


def _show_cost(chat: CommandContext, _: str) -> Next:
    usage = chat.current.usage
    if usage is None:
        chat.view.dim("No tokens used yet.")
    else:
        chat.view.write(
            [
                f"  cost    {dollars(usage.cost) or 'unknown'}",
                f"  input   {usage.input_tokens:,} tokens, {usage.cached_tokens:,} of them cached",
                f"  output  {usage.output_tokens:,} tokens, {usage.reasoning_tokens:,} of them reasoning",
            ]
        )
    return Work(_show_budget(chat)) if chat.current.bench.settings.budget.parts else None


async def _show_budget(chat: CommandContext) -> None:
    """Show what today has cost against its budgets. Summing it blocks, so it runs in a thread."""
    spent = await Threads().run(lambda: list(chat.current.bench.spent_today(chat.current.log)))
    chat.view.write([f"  budget  {each.text}" for each in spent])


def _without_tools(body: bytes, specs: Sequence[ToolSpec]) -> bytes:
    """Return the request with tool names only; the schemas would fill the screen."""
    import msgspec

    request = msgspec.json.decode(body)
    if isinstance(request, dict) and "tools" in request:
        request["tools"] = f"… {', '.join(spec.name for spec in specs)} with their schemas"
    return msgspec.json.encode(request)


COMMANDS = (
    ChatCommand("wire", "show the next request; /wire MODEL shows it for another model", _show_request),
    ChatCommand("context", sentences.COMMANDS["context"], _show_context),
    ChatCommand("compact", f"{sentences.COMMANDS['compact']}; /compact WORDS says what to keep", _compact),
    ChatCommand("cost", sentences.COMMANDS["cost"], _show_cost),
)


WIDEST_BAR = 50
_STYLES = {"system prompt": CYAN, "tools": YELLOW, "files": RED, "conversation": GREEN, "free": DIM}
_FULL, _FREE = "█", "░"


def context_lines(usage: ContextUsage, width: int) -> Iterator[str]:
    """Yield how full the window is, a bar with the share of each part, and a table of the parts."""
    parts = sentences.context_parts(usage)
    total = usage.window or usage.used
    yield styled(sentences.context_is(usage), BOLD)
    if usage.window:
        yield _bar(parts, total, max(10, min(WIDEST_BAR, width - 2)))
    yield ""
    for name, tokens in parts.items():
        mark = styled(_FREE if name == "free" else _FULL, _STYLES[name])
        yield f"{mark} {name:<14} {thousands(tokens):>8} {tokens / max(1, total):>6.1%}"


def _bar(parts: dict[str, int], total: int, width: int) -> str:
    """Return the bar. Each part ends where its running total does, so that all parts together are exactly as long."""
    bar, before, end = "", 0, 0
    for name, tokens in parts.items():
        before += tokens
        start, end = end, width if name == "free" else min(width, round(before / total * width))
        bar += styled((_FREE if name == "free" else _FULL) * max(0, end - start), _STYLES[name])
    return bar
