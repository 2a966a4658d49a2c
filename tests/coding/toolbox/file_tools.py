"""The file tools of one workspace, called as the loop calls them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from outrider.coding.toolbox.files.edit import edit
from outrider.coding.toolbox.files.read import read
from outrider.coding.toolbox.files.write import write
from outrider.coding.toolbox.seen_files import SeenFile
from outrider.coding.toolbox.workspace import Workspace
from outrider.conversation.store import MemoryStore
from outrider.tools.context import CallRef, ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.threads import Threads
from outrider.tools.tool import Tool


class FileTools:
    """Read, Write and Edit in a folder."""

    def __init__(self, folder: Path) -> None:
        self.workspace = Workspace(folder)
        self.folder = self.workspace.folder
        self.store = MemoryStore()
        self.progress: list[Any] = []
        self.context = self.new_context()

    def new_context(self) -> ToolContext:
        self.context = ToolContext(CallRef("call"), self.folder, Threads(), self.progress.append, store=self.store)
        return self.context

    def close(self) -> None:
        """End what belongs to them."""

    def tools(self) -> list[Tool]:
        return [read(self.workspace), write(self.workspace), edit(self.workspace)]

    def read(self, file_path: str | Path, **arguments: Any) -> ToolResult:
        return self._called(read(self.workspace), file_path=str(file_path), **arguments)

    def write(self, file_path: str | Path, content: str) -> ToolResult:
        return self._called(write(self.workspace), file_path=str(file_path), content=content)

    def edit(self, file_path: str | Path, old: str, new: str, **arguments: Any) -> ToolResult:
        return self._called(edit(self.workspace), file_path=str(file_path), old_string=old, new_string=new, **arguments)

    def _called(self, tool: Tool, **arguments: Any) -> ToolResult:
        result = tool(context=self.context, **arguments)
        assert isinstance(result, ToolResult)
        if result.is_error:
            assert result.text, "an error says what is wrong"
            assert "Error" not in result.text, "the name of a class says nothing to a model"
            assert "Errno" not in result.text
        return result

    def seen(self, name: str | Path) -> SeenFile | None:
        """What the model has seen of a file."""
        return self.workspace.seen.of(self.context, self.folder / name)

    def leftovers(self) -> list[str]:
        """Temporary files that should not be there any more."""
        return [path.name for path in self.folder.rglob(".outrider-*")]


def shown_lines(text: str) -> list[str]:
    """The lines of a file as Read shows them, without their numbers and without the notes."""
    lines = text.split("\n")
    return [line.split("\t", 1)[1] for line in lines if line[:6].strip().isdigit() and line[6:7] == "\t"]
