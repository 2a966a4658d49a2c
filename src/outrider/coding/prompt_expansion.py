"""A prompt with what it calls by name: a command, a skill, or a prompt of an MCP server; and resources of servers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from outrider.coding.commands import PromptCommands
from outrider.coding.mcp.server_offers import is_prompt, prompt_parts, with_resources
from outrider.conversation.attachments import Attachment

if TYPE_CHECKING:
    from outrider.mcp.running import RunningServers


async def expand_prompt(
    parts: Sequence[str | Attachment], commands: PromptCommands, servers: RunningServers | None
) -> list[str | Attachment]:
    """Return the prompt with what it calls in place of the name. Raises ConfigError or McpError, with what to do."""
    first = parts[0] if len(parts) == 1 else None
    if servers and isinstance(first, str) and is_prompt(first, servers):
        return await prompt_parts(first, servers)
    return await with_resources(await commands.expanded(parts), servers)


def calls_by_name(text: str, commands: PromptCommands, servers: RunningServers | None) -> bool:
    """Return whether the text calls something that `expand_prompt` puts in place of the name."""
    return is_prompt(text, servers) or commands.has(text)


def looks_like_command(text: str) -> bool:
    """Return whether the text begins with `/name`; a path at the beginning of a sentence does not."""
    word = text.split(maxsplit=1)[0] if text else ""
    return word.startswith("/") and "/" not in word[1:] and not os.path.lexists(word)


def unknown_command(text: str, names: Iterable[str]) -> str:
    """Return what to do about a prompt that begins with a name that nothing has."""
    from difflib import get_close_matches

    name, known = text[1:].split(maxsplit=1)[0], sorted(names)
    close = get_close_matches(name, known, 1)
    meant = f"did you mean /{close[0]}? " if close else ""
    there = f"There are: {', '.join(f'/{each}' for each in known)}."
    return f"there is no command or skill /{name}; {meant}{there} To send it as text, put a space before it"
