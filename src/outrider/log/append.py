"""Entries on their way into a session, in the form that backends store, and what they change of its summary."""

from __future__ import annotations

import time
from collections.abc import Sequence

from outrider.conversation.messages import AttachmentBlock, Message
from outrider.conversation.usage import Usage
from outrider.conversation.user_messages import first_text
from outrider.log.chain import Chain
from outrider.log.entries import (
    AttachmentStored,
    AttemptFailed,
    CallResult,
    CompactionEntry,
    Entry,
    Intent,
    MessageEntry,
    ResultsClearedEntry,
    RewindEntry,
    RunStarted,
    RunStopped,
    SessionSettings,
    TitleEntry,
)
from outrider.log.rows import encode
from outrider.text import clean

TITLE_CHARACTERS = 80
NOTHING_USED = Usage()
_ONLY_COUNTED = (Intent, CallResult)
"""The most frequent entries, which change only the counts."""


class SummaryUpdate:
    """Accumulates the changes of a batch of entries."""

    def __init__(self, settings: SessionSettings | None = None) -> None:
        self.size = 0
        self.entries = 0
        self.turns = 0
        self.usage = NOTHING_USED
        self.model = ""
        """The model of the newest reply."""
        self.title = ""
        """The beginning of the first prompt."""
        self.files: list[str] = []
        """The hashes of the files that were added."""
        self.settings = settings or SessionSettings()
        self.settings_changed = False
        self.is_use = False
        """Whether the session was used: a run began or ended, or the user said something."""
        self.has_news = False
        """Whether there is more than settings, which are also written when a session is only opened or renamed."""

    @property
    def set_title(self) -> str | None:
        """The title that the user or a model has set; None if that did not change."""
        settings = self.settings
        title = settings.made_title if settings.title is None else settings.title
        return (title or None) if self.settings_changed else None

    def absorb(self, later: SummaryUpdate) -> None:
        """Add the changes of entries that come after these."""
        self.size += later.size
        self.entries += later.entries
        self.turns += later.turns
        self.usage += later.usage
        self.model = later.model or self.model
        self.title = self.title or later.title
        self.files = [*self.files, *later.files]
        self.is_use = self.is_use or later.is_use
        self.has_news = self.has_news or later.has_news
        if later.settings_changed:
            self.settings, self.settings_changed = later.settings, True

    def add(self, entry: Entry, size: int) -> None:
        """Add one entry."""
        self.size += size
        self.entries += 1
        self.has_news = self.has_news or not isinstance(entry, SessionSettings)
        if not isinstance(entry, _ONLY_COUNTED):
            self._take(entry)

    def _take(self, entry: Entry) -> None:
        match entry:
            case MessageEntry(message=message, usage=usage):
                if message.role == "assistant":
                    self.model = clean(entry.model) or self.model
                    self.turns += 1
                    self.usage += usage or Usage()
                else:
                    self.is_use = True
                    self.title = self.title or _title(message)
            case RunStarted() | RunStopped():
                self.is_use = True
            case AttemptFailed(usage=usage):
                self.usage += usage or Usage()
            case CompactionEntry() | ResultsClearedEntry():
                self.usage += getattr(entry, "usage", None) or Usage()
                self.settings = self.settings.merged(SessionSettings(abridged=True))
                self.settings_changed = True
            case TitleEntry(title=title, usage=usage):
                self.usage += usage or Usage()
                self.settings = self.settings.merged(SessionSettings(made_title=clean(title)))
                self.settings_changed = True
            case RewindEntry(conversation=True):
                self.settings = self.settings.merged(SessionSettings(rewound=True))
                self.settings_changed = True
            case AttachmentStored(attachment=attachment):
                self.files.append(attachment.sha256)
                self.size += attachment.size
            case SessionSettings(model=model):
                self.settings = self.settings.merged(entry)
                self.settings_changed = True
                self.model = model or self.model


def _title(message: Message) -> str:
    words = " ".join(clean(first_text(message))[: 4 * TITLE_CHARACTERS].split())
    if not words:
        words = next(
            (clean(block.label) for block in message.content if isinstance(block, AttachmentBlock)), "(no words)"
        )
    return words if len(words) <= TITLE_CHARACTERS else f"{words[: TITLE_CHARACTERS - 1]}…"


class Append:
    """Entries to append to a held session, all or none."""

    __slots__ = ("bodies", "chain", "fence", "last", "number", "time", "update")

    def __init__(
        self, number: int, fence: int, entries: Sequence[Entry], settings: SessionSettings, chain: Chain
    ) -> None:
        self.number, self.fence, self.chain = number, fence, chain
        """The session, the fence that its holder was given, and what links its entries."""
        self.time = time.time()
        self.bodies = [encode(entry) for entry in entries]
        """The kind and the body of each entry."""
        self.last = 0
        """The seq of its last entry, once it is appended."""
        self.update = SummaryUpdate(settings)
        for entry, (_, body) in zip(entries, self.bodies, strict=True):
            self.update.add(entry, len(body))
