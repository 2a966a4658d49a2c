"""The caption of a file for a model: its name, and the tool's description of it.

Both come from tools, servers and projects, so each is limited to one short line that shows its hidden characters. It
cannot look like a paragraph of the user or of the runtime.
"""

from __future__ import annotations

import msgspec

from outrider.conversation.messages import AttachmentBlock
from outrider.visible_text import one_line

LONGEST_NAME = 120
LONGEST_DESCRIPTION = 300


class Caption(msgspec.Struct, frozen=True):
    """A file's name and description, each one line.

    >>> str(Caption("before.png", "the page before the change"))
    'before.png (the page before the change)'
    """

    name: str
    description: str = ""

    @classmethod
    def of(cls, block: AttachmentBlock) -> Caption:
        """Return the caption of a file. A file without a name is called by its type and hash."""
        name = one_line(block.name, LONGEST_NAME) or one_line(f"{block.mime_type} {block.sha256[:12]}", LONGEST_NAME)
        description = one_line(block.description, LONGEST_DESCRIPTION)
        return cls(name, "" if description == name else description)

    def __str__(self) -> str:
        return f"{self.name} ({self.description})" if self.description else self.name
