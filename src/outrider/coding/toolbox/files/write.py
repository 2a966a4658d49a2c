"""Write: a whole file, new or in the place of one that the model has read."""

from __future__ import annotations

from pathlib import Path

from outrider.coding.toolbox.files.changes import change
from outrider.coding.toolbox.files.line_ranges import line_count
from outrider.coding.toolbox.files.regular_files import located
from outrider.coding.toolbox.files.saving import save
from outrider.coding.toolbox.files.stamps import check_seen, stamp_of
from outrider.coding.toolbox.files.text_files import has_crlf, text_for_looking, with_crlf
from outrider.coding.toolbox.files.versions import Version, version_if_any
from outrider.coding.toolbox.refusals import RefusalError, refusal, shown
from outrider.coding.toolbox.workspace import Workspace
from outrider.conversation.attachments import sniff
from outrider.conversation.documents import kinds
from outrider.conversation.encodings import Encoding, encoding_of
from outrider.text import clean, counted
from outrider.tools.context import ToolContext
from outrider.tools.decorator import tool
from outrider.tools.result import ToolResult
from outrider.tools.tool import Tool


def write(workspace: Workspace) -> Tool:
    """The tool that writes files."""

    @tool(name="Write", effect="write", concurrent=False)
    def write_file(file_path: str, content: str, context: ToolContext) -> ToolResult:
        """Write a file: a new one, with the folders above it, or in the place of one that you have read.

        A file that is there keeps its encoding, its line endings and its permissions. To change a part of a file,
        use Edit.

        Args:
            file_path: The file, absolute or relative to the working folder.
            content: All of the new content.
        """
        try:
            return _written(workspace, file_path, clean(content), context)
        except RefusalError as refused:
            return ToolResult(str(refused), is_error=True)
        except OSError as error:
            return ToolResult(str(refusal(error, file_path, "written")), is_error=True)

    return write_file


def _written(workspace: Workspace, name: str, content: str, context: ToolContext) -> ToolResult:
    path = located(workspace, name)
    before = version_if_any(workspace, path, name)
    old, data = _in_the_form_of(before.data, content)
    same = before.stamp == stamp_of(data)
    if before.stamp and same and not before.unsaved:
        workspace.seen[path] = before.stamp
        return ToolResult(f"{shown(name)} has exactly this content already; nothing was written.")
    if before.data and sniff(before.data) in (kinds.ZIP, *kinds.ZIPPED):
        raise RefusalError(
            f"{shown(name)} is a document or an archive, which text in its place would destroy; write another file, or "
            "change it with a program."
        )
    if before.stamp and before.stamp.size and not same:
        check_seen(workspace, path, name, before.stamp)
    note = save(workspace, path, name, data, before, context)
    return _result(path, name, old, content, before, note)


def _in_the_form_of(before: bytes | None, content: str) -> tuple[str, bytes]:
    """The old text, as far as it can be shown, and the new one in bytes of the same encoding and line endings."""
    encoding = encoding_of(before) if before else None
    if before is None or encoding is None:
        return "", Encoding().encode(content)
    old = text_for_looking(before, encoding)
    content = content.removeprefix("\ufeff") if encoding.mark else content
    return old, encoding.encode(with_crlf(content) if has_crlf(old) else content)


def _result(path: Path, name: str, old: str, content: str, before: Version, note: str) -> ToolResult:
    lines = counted(line_count(content), "line")
    text = f"Wrote {lines} to {shown(name)}." if before.stamp else f"Created {shown(name)} with {lines}."
    return ToolResult(f"{text} {note}".rstrip(), details=change(path, name, old, content))
