"""`WebFetch`: a page from the web as text, or a file from there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from outrider.coding.toolbox.pace import Pace
from outrider.coding.toolbox.refusals import RefusalError
from outrider.conversation.attachments import Attachment, sniff
from outrider.text import human_size
from outrider.tools.context import ToolContext
from outrider.tools.decorator import tool
from outrider.tools.result import ToolResult
from outrider.tools.threads import Threads
from outrider.tools.tool import Tool

if TYPE_CHECKING:
    from outrider.coding.toolbox.web.addresses import Resolve
    from outrider.coding.toolbox.web.fetching import Fetched

LONGEST_REFUSAL = 2000
"""Characters of the page that comes with an error."""
_HTML = ("text/html", "application/xhtml+xml")
_TEXT = re.compile(
    r"text/.*|.*[/+](json|xml|yaml|x-yaml|toml|javascript|ecmascript|x-javascript|x-sh|sql|graphql|x-ndjson|jsonl)"
)
_BEGINS_AS_HTML = re.compile(rb"\s*(?:<!--.{0,500}?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.S)


def web_fetch(*, private_addresses: bool = False, resolve: Resolve | None = None) -> Tool:
    """The tool that reads the web. Private addresses are refused unless they are allowed here."""
    threads = Threads()

    @tool(name="WebFetch", effect="read")
    async def fetch(url: str, context: ToolContext) -> ToolResult:
        """Read a page from the web as text. What is not text, such as a PDF or a picture, is given as a file.

        Args:
            url: The address, with http:// or https://.
        """
        from outrider.coding.toolbox.web.addresses import system_resolver
        from outrider.coding.toolbox.web.fetching import Fetcher

        fetcher = Fetcher(resolve or system_resolver(), private_addresses=private_addresses)
        try:
            fetched = await fetcher.fetch(url, Pace(context.progress))
        except RefusalError as refusal:
            return ToolResult(str(refusal), is_error=True)
        return await threads.run(_result, fetched)

    return fetch


def _result(fetched: Fetched) -> ToolResult:
    if fetched.status >= 400:
        said = f"{fetched.url} answered {fetched.status} {fetched.reason}".rstrip()
        text = _text(fetched)
        return ToolResult(f"{said}:\n{text[:LONGEST_REFUSAL]}" if text else f"{said}.", is_error=True)
    if not fetched.body:
        return ToolResult(f"The answer is empty ({fetched.status} {fetched.reason}).")
    text = _text(fetched)
    if text is None:
        file = Attachment(fetched.body, _mime_type(fetched), _name(fetched.url))
        return ToolResult(f"{file.name}: {human_size(len(fetched.body))}", [file])
    return ToolResult(text or "The page has no text; it may be made by scripts, which are not run.")


def _text(fetched: Fetched) -> str | None:
    """The text of an answer; None if it is something else."""
    from outrider.conversation.documents.charsets import decoded
    from outrider.conversation.documents.pages import read_page

    kind = _kind(fetched)
    if sniff(fetched.body[:64]):
        return None
    if kind in _HTML or (kind in ("", "text/plain") and _BEGINS_AS_HTML.match(fetched.body[:2000])):
        page = read_page(decoded(fetched.body, fetched.content_type, is_html=True), fetched.url)
        return f"{page.title}\n\n{page.text}".strip() if page.title not in page.text[:200] else page.text
    if _TEXT.fullmatch(kind) or (kind in ("", "application/octet-stream") and _looks_like_text(fetched.body)):
        return decoded(fetched.body, fetched.content_type)
    return None


def _kind(fetched: Fetched) -> str:
    return fetched.content_type.partition(";")[0].strip().lower()


def _looks_like_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in body


def _mime_type(fetched: Fetched) -> str:
    """What the content shows; the label only where that leaves it open, as it does for archives of all kinds."""
    found = sniff(fetched.body[:64])
    label = _kind(fetched) if "/" in _kind(fetched) else ""
    if found and found != "application/zip":
        return found
    return label if label and not label.startswith("image/") else found or "application/octet-stream"


def _name(url: str) -> str:
    parts = urlsplit(url)
    last = unquote(parts.path.rstrip("/").rpartition("/")[2]) or parts.hostname or "file"
    return re.sub(r"[^\w.() -]", "_", last)[-100:].lstrip(".") or "file"
