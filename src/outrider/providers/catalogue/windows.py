"""Context windows of models, and estimates of what a request takes of them."""

from __future__ import annotations

from typing import Any

import msgspec

from outrider.conversation.messages import (
    AttachmentBlock,
    Block,
    Message,
    RawBlock,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.conversation.usage import Usage
from outrider.providers.base import Provider

BYTES_IN_TOKENS = 3.8  # bytes of English text and JSON for each token, as measured with the tokenizer of Qwen2.5-Coder
SMALL_WINDOW = 32_768  # tokens: the models of smaller windows are small themselves, mostly
UNKNOWN_WINDOW = 64_000  # tokens that the files of a model share half of, if its window is unknown
TOKEN_BYTES = 3
"""UTF-8 bytes of a token in a file. The number is low: tables of numbers and non-Latin scripts have short tokens."""
_encoder = msgspec.json.Encoder(enc_hook=str)
BLOCK_BYTES = 40  # bytes of JSON around a block, about
IMAGE_TOKENS = 1_500  # tokens of a picture: APIs scale large ones down to about this
FILE_TOKENS = 50_000  # tokens of any other file, at most: longer text is sent as an excerpt


def estimated_tokens(data: str | bytes) -> int:
    """Return about how many tokens a text or JSON has.

    >>> estimated_tokens("a" * 3800)
    1000
    """
    return round((_bytes(data) if isinstance(data, str) else len(data)) / BYTES_IN_TOKENS)


def json_tokens(value: Any) -> int:
    return round(_json_bytes(value) / BYTES_IN_TOKENS)


def message_tokens(message: Message) -> int:
    size = files = 0
    for block in message.content:
        for part in (block, *block.content) if type(block) is ToolResultBlock else (block,):
            if type(part) is AttachmentBlock:
                files += file_tokens(part)
            else:
                size += BLOCK_BYTES + _size(part)
    return round(size / BYTES_IN_TOKENS) + files


def file_tokens(file: AttachmentBlock) -> int:
    if file.mime_type.startswith("image/"):
        return IMAGE_TOKENS
    return min(FILE_TOKENS, round(file.size / BYTES_IN_TOKENS))


def room_for_file(context_tokens: int | None, taken: int) -> int:
    """Return the bytes for the next file, if the files before it have taken `taken` bytes.

    Half of the window is for the text of files. Each file may take half of what the files before it have left, so any
    number of them fits, and later files do not change the share of earlier ones.

    >>> room_for_file(200_000, 0), room_for_file(200_000, 150_000)
    (150000, 75000)
    """
    for_files = (context_tokens or UNKNOWN_WINDOW) * TOKEN_BYTES // 2
    return max(0, for_files - taken) // 2


def tells_context(reply: Message, usage: Usage) -> bool:
    """Return whether the usage of a reply says how long the conversation is.

    Logs before 0.3 have only the billed tokens: after calls of server tools, these are a sum of several requests.
    """
    if usage.input_tokens <= 0 or usage.context <= 0:
        return False
    return usage.context_tokens is not None or ServerToolUseBlock not in map(type, reply.content)


def _size(block: Block) -> int:
    if isinstance(block, ServerToolResultBlock):
        # The API gets back what it sent, which is longer than the text for people.
        return _json_bytes(block.state.data) if block.state else _bytes(block.text)
    if isinstance(block, RawBlock):
        return _json_bytes(block.state.data)
    if isinstance(block, TextBlock):
        return _bytes(block.text)
    if isinstance(block, ToolUseBlock | ServerToolUseBlock):
        raw = getattr(block, "invalid_input", None) or ""
        return len(block.name) + _json_bytes(block.input) + _bytes(raw)
    return _bytes(block.thinking) if isinstance(block, ThinkingBlock) else 0


def _json_bytes(value: Any) -> int:
    try:
        return len(_encoder.encode(value))
    except (TypeError, ValueError, RecursionError):  # such as a lone surrogate, which is cleaned before it is sent
        return len(repr(value))


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def window_of(provider: Provider) -> int | None:
    window = getattr(provider, "window", None)
    return window if isinstance(window, int) else None


def reply_tokens_of(provider: Provider) -> int | None:
    """Return the longest reply of a model in tokens if the agent sets no limit, or None if it is unknown."""
    longest = getattr(provider, "reply_tokens", None)
    return longest if isinstance(longest, int) else None
