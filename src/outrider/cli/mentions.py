"""`@path` in a message: the file is attached to the message."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from outrider.coding.mcp.server_offers import mentioned_resources
from outrider.coding.named_files import NamedFiles
from outrider.conversation.attachments import Attachment

_MENTION = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|(\S+))')
_PUNCTUATION = ".,;:!?)]}'\""


class Mentions:
    """The words after an @ in a text. Words that name nothing stay text."""

    def __init__(self, text: str, files: NamedFiles) -> None:
        """Look the words up. May block."""
        self._text, self._files = text, files
        found = _MENTION.findall(text)
        tried = [(quoted,) if quoted else (word, word.rstrip(_PUNCTUATION)) for quoted, word in found]
        names = list(dict.fromkeys(name for each in tried for name in each))
        kinds = dict(zip(names, files.kinds(names) if names else [], strict=True))
        self._tried = tried
        named = [next((name for name in each if kinds[name] == "file"), "") for each in tried]
        self.files = list({str(PurePath(name)): name for name in reversed(named) if name}.values())[::-1]
        """The files, each once."""
        self.folders = [each[-1] for each in tried if kinds[each[-1]] == "folder"]
        """The folders."""
        self._is_there = {each[-1] for each in tried if any(kinds[name] for name in each)}

    def missing(self, servers: Sequence[str] = ()) -> list[str]:
        """Return the words that look like paths but name no file, and no resource of these MCP servers."""
        resources = {f"{each.server}:{each.uri}" for each in mentioned_resources(self._text, servers)}
        words = [each[-1] for each in self._tried]
        missing = [word for word in words if ("." in word or "/" in word) and word not in self._is_there]
        return [word for word in missing if word.rstrip(_PUNCTUATION) not in resources]

    def attached(self) -> list[Attachment]:
        """Return the files as attachments. May block. Raises HandsError if one cannot be fetched."""
        return [self._files.attach(name) for name in self.files]
