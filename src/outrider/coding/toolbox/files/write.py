"""The Write tool: create a file, or replace one that the model has read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from outrider.coding.toolbox.files.diffs import change_details
from outrider.coding.toolbox.files.line_ranges import line_count
from outrider.coding.toolbox.files.regular_files import decode_lenient, encode_like, has_crlf, resolve_path, with_crlf
from outrider.coding.toolbox.files.versions import Version, save, stamp_of, version_or_none
from outrider.coding.toolbox.tool_errors import ToolCallError, os_error, printable
from outrider.coding.toolbox.workspace import Workspace
from outrider.conversation.documents import kinds
from outrider.conversation.encodings import Encoding, text_encoding
from outrider.conversation.mime_types import sniff
from outrider.text import clean, counted
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.tool import Tool, tool

MOST_LOST = 4
"""Lines of a file that a careful call may lose, even if they are more than half of it."""


def write(workspace: Workspace) -> Tool:
    @tool(name="Write", effect="write", concurrent=False)
    def write_file(file_path: str, content: str, context: ToolContext, careful: bool = False) -> ToolResult:
        """Write a file: create it, with its parent folders, or replace one of which you have read all.

        An existing file keeps its encoding, its line endings and its permissions. To change a part of a file, use Edit.

        Args:
            file_path: The file, absolute or relative to the working folder.
            content: The whole new content.
            careful: Refuse to lose most of a file. The lean form sets it.
        """
        try:
            return _write(workspace, file_path, clean(content), context, careful)
        except ToolCallError as failure:
            return ToolResult(str(failure), is_error=True)
        except OSError as error:
            return ToolResult(str(os_error(error, file_path, "written")), is_error=True)

    schema = write_file.parameters
    shown = {key: value for key, value in schema["properties"].items() if key != "careful"}
    return msgspec.structs.replace(write_file, shown=schema | {"properties": shown})


def _write(workspace: Workspace, name: str, content: str, context: ToolContext, careful: bool) -> ToolResult:
    path = resolve_path(workspace, name, "Write", context)
    before = version_or_none(workspace, path, name)
    old, data = _encode_like(before.data, content, name)
    if careful:
        _check_kept(old, content, name)
    same = before.stamp == stamp_of(data)
    if before.stamp and same and not before.unsaved:
        workspace.seen.add_written(context, path, before.stamp)
        return ToolResult(f"{printable(name)} has exactly this content already; nothing was written.")
    if before.data and sniff(before.data) in (kinds.ZIP, *kinds.ZIPPED):
        raise ToolCallError(
            f"{printable(name)} is a document or an archive, and writing text would destroy it. Write another file, "
            "or change it with a program."
        )
    if before.stamp and before.stamp.size and not same:
        workspace.seen.check(context, path, name, before.stamp, whole=True)
    note = save(workspace, path, name, data, before, context)
    return _result(path, name, old, content, before, note)


def _check_kept(old: str, content: str, name: str) -> None:
    """Refuse to lose most of a file: small models write the lines that they want to add, or take the wrong file."""
    lines = Counter(line.strip() for line in old.splitlines() if line.strip())
    kept = Counter(line.strip() for line in content.splitlines())
    lost, total = (lines - kept).total(), lines.total()
    if lost > MOST_LOST and lost > total / 2:
        raise ToolCallError(
            f"{printable(name)} was left as it is: Write replaces the whole file, and {lost} of its {total} lines "
            f'would be lost. To add this content at the end of {printable(name)}, call Edit with "" as old_string and '
            "the content as new_string. If it belongs into another file, call Write with the name of that file."
        )


def _encode_like(before: bytes | None, content: str, name: str) -> tuple[str, bytes]:
    """Return the old text, as far as it can be shown, and the new bytes in the old encoding and line endings."""
    encoding = text_encoding(before) if before else None
    if before is None or encoding is None:
        return "", Encoding().encode(content)
    old = decode_lenient(before, encoding)
    content = content.removeprefix("\ufeff") if encoding.mark else content
    return old, encode_like(encoding, with_crlf(content) if has_crlf(old) else content, name)


def _result(path: Path, name: str, old: str, content: str, before: Version, note: str) -> ToolResult:
    lines = counted(line_count(content), "line")
    text = f"Wrote {lines} to {printable(name)}." if before.stamp else f"Created {printable(name)} with {lines}."
    return ToolResult(f"{text} {note}".rstrip(), details=change_details(path, name, old, content))
