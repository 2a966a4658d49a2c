"""`outrider wire`: show the exact request for a conversation, for any provider, without a key."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from outrider.cli.command_parser import add_tools_option, command_parser, stdin_bytes
from outrider.coding.stored_request import NOTHING_TO_SEND, pretty, reply_of_turn, sending_provider, session_request
from outrider.coding.tool_files import read_tools
from outrider.conversation.codec import from_json
from outrider.conversation.history import History
from outrider.conversation.messages import AttachmentBlock
from outrider.conversation.store import FolderStore, MemoryStore
from outrider.environment import LOG_HELP, data_folder
from outrider.errors import (
    AttachmentError,
    ConversationError,
    OutriderError,
    ToolDefinitionError,
    UnknownModelError,
    UnknownSessionError,
)
from outrider.providers.api import ApiProvider
from outrider.providers.base import Request
from outrider.providers.credentials.secrets import MASK
from outrider.providers.transport.network import without_password
from outrider.sync import default_log

DESCRIPTION = """\
Print the exact request that would be sent for a conversation, as JSON on standard output. No key is needed, and nothing
is sent. For a session, --turn prints the request of one of its replies as it was sent.

As before every request, the conversation is repaired first: for example, calls without a result get one, and blank
messages are dropped. A session is rendered with what the log says about its requests: system prompt, tools and
options, secrets in options apart (logs of 0.2 and before name only the built-in tools). Files are shortened to their
first bytes and size. With --full they are printed whole; then the output equals the request body, white space aside.
"""
EXAMPLES = """\
examples:
  outrider wire saved.json --as openai-chat/gpt-5.6
  outrider wire saved.json --as anthropic/powerful --tools tools.py --system "Be brief." --headers
  outrider wire saved.json --as http://localhost:8000/v1#qwen3
  outrider wire 3f2a91 --as openai/gpt-5.6
  outrider wire 3f2a91 --turn 4
  cat saved.json | outrider wire - --as gemini/gemini-4-argon --full | jq .contents

exit codes: 0 done, 1 the request cannot be built (for example, it is too large), 2 wrong usage or unreadable input
"""
WRONG_INPUT = (ConversationError, ToolDefinitionError, UnknownModelError, UnknownSessionError)
_ID = re.compile(r"(?!.*\.json$)[\w.-]{1,64}", re.ASCII)
"""The id of a session, or a prefix of one. A name of a file that is missing more probably ends with .json."""


def wire(arguments: list[str]) -> int:
    parser = make_parser()
    options = parser.parse_args(arguments)
    if not options.model and options.turn is None:
        parser.error("--as MODEL is required without --turn, as in --as anthropic/fast")
    try:
        _choose_turn(options)
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


def make_parser() -> argparse.ArgumentParser:
    parser = command_parser("wire", DESCRIPTION, EXAMPLES)
    parser.add_argument(
        "conversation", metavar="CONVERSATION", help="a file from dumps(), a session's id, or - for standard input"
    )
    parser.add_argument(
        "--as",
        dest="model",
        metavar="MODEL",
        default="",
        help="the provider and model to render the request for, as in anthropic/fast (default with --turn: the "
        "model of that reply)",
    )
    parser.add_argument("--turn", type=int, metavar="N", help="the request of a session's reply N, counted from 1")
    add_tools_option(
        parser,
        "FILE",
        "tools to offer: a Python file with @tool functions (the file is executed), or a JSON file with "
        '[{"name": …, "description": …, "parameters": {…}}]; may be repeated',
    )
    parser.add_argument("--log", metavar="PLACE", help=LOG_HELP)
    parser.add_argument("--system", default="", metavar="TEXT", help="the system prompt (default: the session's)")
    parser.add_argument("--full", action="store_true", help="print files whole, in base64")
    parser.add_argument(
        "--headers",
        action="store_true",
        help=f"also print the URL and the headers, on standard error; the key is shown as {MASK}",
    )
    return parser


def _choose_turn(options: argparse.Namespace) -> None:
    """Find the reply of a turn. Its model is that of the request, unless another is given."""
    options.reply = None
    if options.turn is not None:
        if not _is_session(options.conversation):
            raise ConversationError("--turn is for sessions: give the id of one, as `outrider sessions` lists them")
        with default_log() as log:
            options.reply, model = reply_of_turn(log, options.conversation, options.turn)
        options.model = options.model or model


def _request(options: argparse.Namespace) -> Request:
    system, tools = options.system, read_tools(options.tools)
    if _is_session(options.conversation):
        with default_log() as log:
            named, model = options.conversation, options.model
            return session_request(log, named, model, reply=options.reply, system=system, tools=tools)
    store = _Files()
    if not (sendable := History(from_json(_read(options.conversation), store)).sendable()):
        raise ConversationError(NOTHING_TO_SEND)
    return Request(sendable, store, system, tools)


def _is_session(named: str) -> bool:
    return named != "-" and bool(_ID.fullmatch(named)) and not Path(named).exists()


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


def _show_headers(provider: ApiProvider) -> None:
    url = without_password(provider.url())
    print(f"POST {url}" if "://" in url else url, file=sys.stderr)
    for name, value in provider.headers(MASK).items():
        print(f"{name}: {value}", file=sys.stderr)
