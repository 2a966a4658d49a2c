"""`outrider wire`: show the exact request for a conversation, for any provider, without a key."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import msgspec

from outrider.cli.stdin import stdin_bytes
from outrider.coding.config.settings import Settings, WebSettings
from outrider.coding.tool_files import read_tools
from outrider.coding.toolbox import WEB_SEARCH
from outrider.coding.workbench import Workbench
from outrider.conversation.codec import from_json
from outrider.conversation.history import History
from outrider.conversation.messages import AttachmentBlock
from outrider.conversation.store import AttachmentStore, FolderStore, MemoryStore
from outrider.environment import data_folder
from outrider.errors import (
    AttachmentError,
    ConversationError,
    OutriderError,
    ToolDefinitionError,
    UnknownModelError,
    UnknownSessionError,
)
from outrider.log.resume import history_of
from outrider.prompts import prompt
from outrider.providers import resolve
from outrider.providers.api import ApiProvider
from outrider.providers.base import Request
from outrider.providers.environment import without_password
from outrider.providers.secrets import MASK
from outrider.runtime.agent import Agent
from outrider.runtime.agent_settings import cwd_of
from outrider.runtime.past import RememberedPast
from outrider.runtime.recall import recall_tool
from outrider.runtime.toolset import specs_of
from outrider.sync import default_log
from outrider.text import human_size

DESCRIPTION = """\
Print the exact request that would be sent for a conversation, as JSON on standard output. No key is needed, and nothing
is sent.

As before every request, the conversation is repaired first: for example, calls without a result get one, and blank
messages are dropped. A session is rendered with its system prompt and its built-in tools. Files are shortened to their
first bytes and size. With --full they are printed whole; then the output equals the request body, white space aside.
"""
EXAMPLES = """\
examples:
  outrider wire saved.json --as openai-chat/gpt-5.6
  outrider wire saved.json --as anthropic/powerful --tools tools.py --system "Be brief." --headers
  outrider wire saved.json --as http://localhost:8000/v1#qwen3
  outrider wire 3f2a91 --as openai/gpt-5.6
  cat saved.json | outrider wire - --as gemini/gemini-4-argon --full | jq .contents

exit codes: 0 done, 1 the request cannot be built (for example, it is too large), 2 wrong usage or unreadable input
"""
WRONG_INPUT = (ConversationError, ToolDefinitionError, UnknownModelError, UnknownSessionError)
_BASE64 = re.compile(r"(data:[^,]{1,100};base64,)?([A-Za-z0-9+/_-]{160,}={0,2})")
_ID = re.compile("[0-9a-f]{4,32}")
"""The id of a session, or a prefix of one."""
_SHOWN = 24


def wire(arguments: list[str]) -> int:
    """Print the request."""
    options = _parser().parse_args(arguments)
    try:
        provider = sending_provider(options.model)
        request = _request(options)
        body = provider.render(request)
    except OutriderError as error:
        print(f"outrider wire: {error}", file=sys.stderr)
        return 2 if isinstance(error, WRONG_INPUT) else 1
    if options.headers:
        _show_headers(provider)
    sys.stdout.buffer.write(pretty(body, full=options.full) + b"\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="outrider wire",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "conversation",
        metavar="CONVERSATION",
        help="a file from dumps(), a session's id, or - for standard input",
    )
    parser.add_argument(
        "--as",
        dest="model",
        metavar="MODEL",
        required=True,
        help="the provider and model to render the request for, as in anthropic/fast",
    )
    parser.add_argument(
        "--tools",
        action="append",
        default=[],
        metavar="FILE",
        help="tools to offer: a Python file with @tool functions (the file is executed), or a JSON file with "
        '[{"name": …, "description": …, "parameters": {…}}]; may be repeated',
    )
    parser.add_argument("--system", default="", metavar="TEXT", help="the system prompt (default: the session's)")
    parser.add_argument("--full", action="store_true", help="print files whole, in base64")
    parser.add_argument(
        "--headers",
        action="store_true",
        help=f"also print the URL and the headers, on standard error; the key is shown as {MASK}",
    )
    return parser


def sending_provider(model: str) -> ApiProvider:
    """Return the provider of that model. Raises UnknownModelError if it does not send requests."""
    provider = resolve(model)
    if not isinstance(provider, ApiProvider):
        raise UnknownModelError(
            f"{model!r} is {provider.name}, which runs in this process and sends no request; "
            "give another model, as in anthropic/fast"
        )
    return provider


def _request(options: argparse.Namespace) -> Request:
    history, store = _conversation(options.conversation)
    if not (sendable := history.sendable()):
        raise ConversationError("the conversation is empty; there is nothing to send")
    system, tools = options.system, read_tools(options.tools)
    if not _is_session(options.conversation):
        return Request(sendable, store, system, tools)
    recorded = _recorded(options.conversation, options.model)
    served = () if tools else recorded.server_tools
    own = [*recorded.tools]
    if history.is_abridged:
        own.append(recall_tool(RememberedPast(options.conversation, lambda: history.messages, store), store))
    return Request(sendable, store, system or recorded.instructions, tools or specs_of(own), server_tools=served)


def _is_session(named: str) -> bool:
    return bool(_ID.fullmatch(named)) and not Path(named).exists()


def _recorded(session: str, model: str) -> Agent:
    """Return the agent of a session: the prompt that the log has, and the built-in tools that it names."""
    with default_log() as log:
        settings = log.settings(session)
    system, names = settings.system or "", settings.tools or ()
    was_lean = system.startswith(prompt("agent_lean"))
    wanted = Settings(lean="on" if was_lean else "auto", web=WebSettings(search="on" if WEB_SEARCH in names else "off"))
    bench = Workbench(wanted, cwd_of(settings) or Path.cwd())
    try:
        agent = bench.agent(model=model)
    finally:
        bench.close()
    tools = [tool for tool in agent.tools if tool.name in names]
    return Agent(model=model, system=system, tools=tools, server_tools=agent.server_tools)


def _conversation(named: str) -> tuple[History, AttachmentStore]:
    """Return the conversation of a session or of a file, with its attachments."""
    if _is_session(named):
        with default_log() as log:
            return history_of(log.replay(named)), log.files(named)
    store = _Files()
    return History(from_json(_read(named), store)), store


def _read(path: str) -> bytes:
    try:
        return stdin_bytes().read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise ConversationError(f"{path} cannot be read: {error.strerror}") from None


class _Files(MemoryStore):
    """A store that looks in the conversation's own files first, then in the data folder."""

    def read(self, reference: AttachmentBlock) -> bytes:
        """Return the bytes of a file."""
        try:
            return super().read(reference)
        except AttachmentError:
            return FolderStore(data_folder() / "attachments").read(reference)


def pretty(body: bytes, *, full: bool = False) -> bytes:
    """Return an indented request body; files are shortened unless `full` is set."""
    if full:
        return msgspec.json.format(body, indent=2)
    return json.dumps(_abbreviated(json.loads(body)), indent=2, ensure_ascii=False).encode()


def _abbreviated(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _abbreviated(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_abbreviated(item) for item in value]
    if isinstance(value, str) and (found := _BASE64.fullmatch(value)):
        return f"{found[1] or ''}{found[2][:_SHOWN]}… ({human_size(len(found[2]))} of base64)"
    return value


def _show_headers(provider: ApiProvider) -> None:
    url = without_password(provider.url())
    print(f"POST {url}" if "://" in url else url, file=sys.stderr)
    for name, value in provider.headers(MASK).items():
        print(f"{name}: {value}", file=sys.stderr)
