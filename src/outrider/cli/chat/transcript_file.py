"""`/export`: a conversation as a Markdown or an HTML file, with its pictures."""

from __future__ import annotations

import base64
import html
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from outrider.coding.toolbox.titles import title
from outrider.conversation.messages import AttachmentBlock, Message, ToolResultBlock
from outrider.conversation.store import AttachmentStore
from outrider.conversation.user_messages import is_from_user
from outrider.errors import AttachmentError, OutriderError
from outrider.text.visible import safe_lines

STYLE = """\
:root { color-scheme: light dark }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem }
pre { overflow-x: auto; padding: .75rem; border: 1px solid #8884; border-radius: 6px; white-space: pre-wrap }
.user { border-left: 4px solid #2a8; padding-left: 1rem; white-space: pre-wrap }
details { margin: .5rem 0 } summary { cursor: pointer; font-family: monospace } .error summary { color: #c33 }
.note { font-style: italic } .note pre { font-style: normal }
table { border-collapse: collapse } td, th { border: 1px solid #8886; padding: .25rem .5rem } img { max-width: 100% }
"""
# The page runs no script and loads nothing, whatever the conversation says.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def write_transcript(path: Path, heading: str, messages: Sequence[Message], store: AttachmentStore) -> None:
    """Write a conversation to a new file, for its owner alone: HTML if its name ends so, else Markdown.

    Raises OutriderError if the file exists or cannot be written.
    """
    is_page = path.suffix.lower() in (".html", ".htm")
    text = "".join((_page if is_page else markdown)(heading, messages, store))
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise OutriderError(f"{path} exists; give another name: /export NAME.md or /export NAME.html") from None
    except OSError as error:
        raise OutriderError(f"{path} cannot be written: {error.strerror}") from None


def markdown(heading: str, messages: Sequence[Message], store: AttachmentStore) -> Iterator[str]:
    results = _results(messages)
    yield f"# {heading}\n"
    for message in messages:
        if message.text.strip():
            yield f"\n{_markdown_text(message)}\n"
        for file in _files(message):
            yield f"\n{_markdown_file(file, store)}\n"
        for call in message.tool_calls:
            result = results.get(call.id)
            yield f"\n**{safe_lines(title(call.name, call.input))}**{' failed' if result and result.is_error else ''}\n"
            if result and result.text.strip():
                yield f"\n{_fenced(safe_lines(result.text))}\n"
            for file in result.attachments if result else ():
                yield f"\n{_markdown_file(file, store)}\n"


def _markdown_text(message: Message) -> str:
    text = _safe_text(message)
    if message.role == "assistant":
        return text
    if is_from_user(message):
        return _quoted(text)
    title, more = _note(text)
    return f"*{title}*\n\n{_fenced(more)}" if more else f"*{title}*"


def _page(heading: str, messages: Sequence[Message], store: AttachmentStore) -> Iterator[str]:
    from markdown_it import MarkdownIt

    renderer = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    results = _results(messages)
    name = html.escape(heading)
    yield f'<!doctype html>\n<html>\n<head>\n<meta charset="utf-8">\n<title>{name}</title>\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n<style>\n{STYLE}</style>\n</head>\n'
    yield f"<body>\n<h1>{name}</h1>\n"
    for message in messages:
        if message.text.strip():
            yield renderer.render(_safe_text(message)) if message.role == "assistant" else _html_text(message)
        yield from (_html_file(file, store) for file in _files(message))
        for call in message.tool_calls:
            result = results.get(call.id)
            kind = ' class="error"' if result and result.is_error else ""
            yield f"<details{kind}><summary>{html.escape(safe_lines(title(call.name, call.input)))}</summary>\n"
            yield f"<pre>{html.escape(safe_lines(result.text if result else '(no result)'))}</pre>\n</details>\n"
            yield from (_html_file(file, store) for file in (result.attachments if result else ()))
    yield "</body>\n</html>\n"


def _html_text(message: Message) -> str:
    """Return what the user said, or what the runtime told the model in the user's place."""
    if is_from_user(message):
        return f'<div class="user">{html.escape(_safe_text(message))}</div>\n'
    title, more = map(html.escape, _note(_safe_text(message)))
    if more:
        return f'<details class="note"><summary>{title}</summary>\n<pre>{more}</pre>\n</details>\n'
    return f'<p class="note">{title}</p>\n'


def _safe_text(message: Message) -> str:
    return safe_lines(message.text).strip()


def _note(text: str) -> tuple[str, str]:
    """Return the first line of what the runtime told the model, without its brackets, and what follows."""
    title, _, more = text.partition("\n")
    return title.strip("[]"), more.strip("\n")


def _results(messages: Sequence[Message]) -> dict[str, ToolResultBlock]:
    return {result.tool_use_id: result for message in messages for result in message.tool_results}


def _files(message: Message) -> list[AttachmentBlock]:
    return [block for block in message.content if isinstance(block, AttachmentBlock)]


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text.rstrip()}\n{fence}"


def _markdown_file(file: AttachmentBlock, store: AttachmentStore) -> str:
    label = safe_lines(file.label).replace("[", "(").replace("]", ")").replace("\n", " ")
    address = _data_address(file, store)
    return f"![{label}]({address})" if address else f"({label}, {file.mime_type})"


def _html_file(file: AttachmentBlock, store: AttachmentStore) -> str:
    label = html.escape(safe_lines(file.label))
    address = _data_address(file, store)
    return f'<p><img alt="{label}" src="{address}"></p>\n' if address else f"<p>{label}, {file.mime_type}</p>\n"


def _data_address(file: AttachmentBlock, store: AttachmentStore) -> str:
    """Return a picture as a data address; "" for another file, or if it cannot be read."""
    if file.mime_type not in ("image/png", "image/jpeg", "image/gif", "image/webp"):
        return ""
    try:
        return f"data:{file.mime_type};base64,{base64.b64encode(store.read(file)).decode()}"
    except AttachmentError:
        return ""
