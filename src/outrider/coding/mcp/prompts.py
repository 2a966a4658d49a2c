"""`/server:prompt ARGUMENTS`: a prompt of an MCP server becomes the message of the user."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from outrider.conversation.attachments import Attachment
from outrider.errors import McpError
from outrider.visible_text import one_line

if TYPE_CHECKING:
    from outrider.mcp.pool import ServerPool
    from outrider.mcp.protocol import Prompt
    from outrider.mcp.running import RunningServers
    from outrider.tools.result import ToolResult

START_SECONDS = 30.0
MOST_PROMPTS = 200
"""Prompts of one server that are shown."""


class ServerPrompt(msgspec.Struct, frozen=True):
    """A prompt of a server, for people."""

    name: str
    """`server:prompt`."""
    description: str
    usage: str
    """Its arguments, as in `WHO [STYLE]`."""


async def list_prompts(pool: ServerPool) -> list[ServerPrompt]:
    """Return the prompts of all servers that are ready. A server that fails has none."""
    found: list[ServerPrompt] = []
    for client in pool.ready():
        try:
            prompts = await client.list_prompts()
        except McpError:
            continue
        found += [
            ServerPrompt(
                f"{client.server.name}:{one_line(prompt.name, 100)}",
                one_line(prompt.description or prompt.title or prompt.name, 200),
                usage_of(prompt),
            )
            for prompt in prompts[:MOST_PROMPTS]
        ]
    return found


def is_prompt(text: str, servers: RunningServers | None) -> bool:
    """Return whether a line calls a prompt of one of these servers."""
    server, colon, name = text.removeprefix("/").partition(" ")[0].partition(":")
    known = servers is not None and any(each.name == server for each in servers.servers)
    return text.startswith("/") and bool(colon and name) and known


async def prompt_parts(text: str, servers: RunningServers) -> list[str | Attachment]:
    """Return the message that a line such as `/git:review a.py` stands for. Raises McpError, with what to do."""
    command, _, rest = text.removeprefix("/").partition(" ")
    server, _, name = command.partition(":")
    await servers.settled(START_SECONDS)

    async def get(pool: ServerPool) -> ToolResult:
        from outrider.mcp.results import prompt_content

        client = pool.client(server)
        found = next((each for each in await client.list_prompts() if each.name == name), None)
        if found is None:
            known = ", ".join(one_line(each.name, 80) for each in await client.list_prompts()) or "none"
            raise McpError(f"The MCP server {server} has no prompt {name!r}. Its prompts are: {known}.")
        return prompt_content(await client.get_prompt(name, arguments_of(found, rest)))

    content = await servers.do(get)
    return [*([content.text] if content.text.strip() else []), *content.attachments]


def arguments_of(prompt: Prompt, rest: str) -> dict[str, str]:
    """Return the arguments in a line: `name=value`, or values in the order of the prompt. Raises McpError.

    The last argument takes the rest of the line, so that a sentence needs no quotes.
    """
    names = [argument.name for argument in prompt.arguments or ()]
    given: dict[str, str] = {}
    plain: list[str] = []
    for word in _words(rest):
        name, equals, value = word.partition("=")
        if equals and name in names:
            given[name] = value
        else:
            plain.append(word)
    open_names = [name for name in names if name not in given]
    if plain and not open_names:
        raise McpError(f"The prompt takes no more arguments. {_usage(prompt)}")
    values = [*plain[: len(open_names) - 1], " ".join(plain[len(open_names) - 1 :])] if plain else []
    given |= {name: value for name, value in zip(open_names, values, strict=False) if value}
    missing = [argument.name for argument in prompt.arguments or () if argument.required and argument.name not in given]
    if missing:
        raise McpError(f"The prompt needs {', '.join(missing)}. {_usage(prompt)}")
    return given


def usage_of(prompt: Prompt) -> str:
    """Return the arguments of a prompt, as in `WHO [STYLE]`."""
    words = [(one_line(each.name, 40), each.required) for each in prompt.arguments or ()]
    return " ".join(name.upper() if required else f"[{name.upper()}]" for name, required in words)


def _usage(prompt: Prompt) -> str:
    return f"Write: /SERVER:{one_line(prompt.name, 80)} {usage_of(prompt)}".rstrip()


def _words(text: str) -> Sequence[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quote that does not close, as in a sentence with an apostrophe
        return text.split()
