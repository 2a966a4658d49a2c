"""The WebFetch tool: a page from the web as text, or a file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from outrider.coding.toolbox.throttle import ProgressThrottle
from outrider.conversation.attachments import Attachment
from outrider.conversation.mime_types import sniff
from outrider.text import human_size
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.threads import Threads
from outrider.tools.tool import Tool, tool

if TYPE_CHECKING:
    from outrider.providers.transport.addresses import Resolve
    from outrider.providers.transport.fetching import WebResponse

LONGEST_ERROR = 2000
"""Characters shown of an error page."""
_HTML = ("text/html", "application/xhtml+xml")
_TEXT = re.compile(
    r"text/.*|.*[/+](json|xml|yaml|x-yaml|toml|javascript|ecmascript|x-javascript|x-sh|sql|graphql|x-ndjson|jsonl)"
)
_BEGINS_AS_HTML = re.compile(rb"\s*(?:<!--.{0,500}?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.S)


def web_fetch(*, private_addresses: bool = False, resolve: Resolve | None = None) -> Tool:
    """Return the tool that fetches URLs. Private addresses are refused unless `private_addresses` allows them."""
    threads = Threads()

    @tool(name="WebFetch", effect="read")
    async def fetch(url: str, context: ToolContext) -> ToolResult:
        """Read a page from the web as text. Anything else, such as a PDF or a picture, is returned as a file.

        Args:
            url: The address, with http:// or https://.
        """
        from outrider.providers.transport.addresses import system_resolver
        from outrider.providers.transport.fetching import Fetcher, FetchError

        fetcher = Fetcher(resolve or system_resolver(), private_addresses=private_addresses)
        try:
            response = await fetcher.fetch(url, ProgressThrottle(context.progress).show)
        except FetchError as failure:
            return ToolResult(str(failure), is_error=True)
        return await threads.run(_result, response)

    return fetch


def _result(response: WebResponse) -> ToolResult:
    if response.status >= 400:
        summary = f"{response.url} answered {response.status} {response.reason}".rstrip()
        text = _text(response)
        return ToolResult(f"{summary}:\n{text[:LONGEST_ERROR]}" if text else f"{summary}.", is_error=True)
    if not response.body:
        return ToolResult(f"The response is empty ({response.status} {response.reason}).")
    text = _text(response)
    if text is None:
        file = Attachment(response.body, _mime_type(response), _name(response.url))
        return ToolResult(f"{file.name}: {human_size(len(response.body))}", [file])
    return ToolResult(text or "The page has no text; scripts, which are not run, may produce it.")


def _text(response: WebResponse) -> str | None:
    """Return the text of a response, or None if it is not text."""
    from outrider.conversation.documents.charsets import decoded
    from outrider.conversation.documents.pages import read_page

    kind = _kind(response)
    if sniff(response.body[:64]):
        return None
    if kind in _HTML or (kind in ("", "text/plain") and _BEGINS_AS_HTML.match(response.body[:2000])):
        page = read_page(decoded(response.body, response.content_type, is_html=True), response.url)
        return f"{page.title}\n\n{page.text}".strip() if page.title not in page.text[:200] else page.text
    if _TEXT.fullmatch(kind) or (kind in ("", "application/octet-stream") and _looks_like_text(response.body)):
        return decoded(response.body, response.content_type)
    return None


def _kind(response: WebResponse) -> str:
    return response.content_type.partition(";")[0].strip().lower()


def _looks_like_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in body


def _mime_type(response: WebResponse) -> str:
    """Return the type found in the content; use the label only if that is unclear, as for archives."""
    found = sniff(response.body[:64])
    label = _kind(response) if "/" in _kind(response) else ""
    if found and found != "application/zip":
        return found
    return label if label and not label.startswith("image/") else found or "application/octet-stream"


def _name(url: str) -> str:
    parts = urlsplit(url)
    last = unquote(parts.path.rstrip("/").rpartition("/")[2]) or parts.hostname or "file"
    return re.sub(r"[^\w.() -]", "_", last)[-100:].lstrip(".") or "file"
