"""What MCP servers offer to the person: their states, resources that a prompt mentions, and prompts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from outrider.conversation.attachments import Attachment
from outrider.errors import McpError
from outrider.text import counted, shell_words
from outrider.text.visible import one_line

if TYPE_CHECKING:
    from outrider.mcp.pool import ServerPool
    from outrider.mcp.protocol import Prompt
    from outrider.mcp.running import RunningServers
    from outrider.mcp.supervision import ServerStatus
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
    for word in shell_words(rest):
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


_WORDS = {
    "starting": "starting",
    "ready": "ready",
    "restarting": "is started again",
    "failed": "failed",
    "closed": "closed",
}


def state_lines(statuses: Iterable[ServerStatus]) -> list[str]:
    """Return a line for each server: its name, its state, its tools, and why it failed."""
    every = list(statuses)
    width = max((len(status.name) for status in every), default=0)
    return [f"{status.name:{width}}  {_state(status)}" for status in every]


def _state(status: ServerStatus) -> str:
    tools = counted(status.tools, "tool") if status.tools else ""
    version = f"protocol {status.version}" if status.version and status.state == "ready" else ""
    return ", ".join(filter(None, (_WORDS[status.state], tools, version, status.error)))


_MENTION = re.compile(r"(?<!\S)@([A-Za-z0-9_.-]+):(\S+)")
_PUNCTUATION = ".,;!?)]}'\""
READ_SECONDS = 30.0
MOST_RESOURCES = 20


class Mention(msgspec.Struct, frozen=True):
    """A resource that a prompt names."""

    server: str
    uri: str


def mentioned_resources(text: str, servers: Sequence[str]) -> list[Mention]:
    """Return the resources of these servers that a text names, each once.

    >>> mentioned_resources("See @notes:memo://1, and @me:x", ["notes"])
    [Mention(server='notes', uri='memo://1')]
    """
    found = (Mention(server, uri.rstrip(_PUNCTUATION)) for server, uri in _MENTION.findall(text))
    return list(dict.fromkeys(each for each in found if each.server in servers))[:MOST_RESOURCES]


async def with_resources(parts: Sequence[str | Attachment], servers: RunningServers | None) -> list[str | Attachment]:
    """Return the parts of a prompt, with the resources that it mentions. Raises McpError if one cannot be read."""
    names = [server.name for server in servers.servers] if servers else []
    texts = [part for part in parts if isinstance(part, str)]
    mentions = dict.fromkeys(mention for text in texts for mention in mentioned_resources(text, names))
    if servers is None or not mentions:
        return list(parts)
    await servers.settled(READ_SECONDS)
    files: list[str | Attachment] = []
    for each in mentions:
        files += await _read(servers, each)
    return [*parts, *files]


async def _read(servers: RunningServers, mention: Mention) -> list[str | Attachment]:
    from outrider.mcp.results import resource_content

    async def read(pool: ServerPool) -> ToolResult:
        return resource_content(await pool.client(mention.server).read_resource(mention.uri))

    content = await servers.do(read)
    name = f"{mention.server}:{mention.uri}"
    text = [Attachment(content.text.encode(errors="replace"), "text/plain", name, mention.uri)] if content.text else []
    return [*text, *content.attachments]
