"""Requests that an API refuses because of a file, a URL or a new tool: send them again without it.

There is no status or code for it, so the text of the error is matched. The request is then sent without the files, with
their text, or with older versions of tools. If the API refuses that as well, they were not the cause: what was changed
is restored, and the error is raised.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Literal, Protocol, TypeAlias

import msgspec

from outrider.conversation.messages import files_in
from outrider.errors import ContextExceededError, ProviderError
from outrider.providers.base import Request
from outrider.providers.catalogue.capabilities import Capabilities, Kind, without_kind
from outrider.providers.rendering.shown_files import Omission, Room, ShownFile, surplus_files
from outrider.providers.rendering.transcript import Rendering
from outrider.providers.transport.api_errors import is_too_large
from outrider.providers.transport.http import Body

MAX_FILE_RETRIES = 4  # how often one request is sent again without files that the API refused
MAX_HALVINGS = 4  # how often a request that is too large keeps half of its files, before it has none
LEAST_SHARE = 0.1  # of a request that is too large: if its files are less than that, they are not the reason
_PLURALS: Mapping[Kind, str] = {"image": "images", "audio": "audio", "video": "videos", "document": "documents"}
Cause: TypeAlias = Literal["model", "file"]  # the model takes no files of the kind, or the API refused one file

REFUSALS = frozenset({400, 404, 415, 422})
BROKEN = frozenset({500, 501})  # local servers without support for a kind fail with these instead of refusing

# These are compiled when the first error is seen.
_SUBJECTS: Mapping[Kind, str] = {
    "image": r"(?:\bimages?\b|image_url|input_image|\bvision\b|\bpictures?\b|\bmulti-?modal\b)",
    "audio": r"(?:\baudios?\b|input_audio|\bmulti-?modal\b)",
    "video": r"(?:\bvideos?\b|video_url|input_video|\bmulti-?modal\b)",
    "document": r"(?:\bpdfs?\b|\bdocuments?\b|document_url|\bfiles?\b|file_data|file_url|input_file|\bmulti-?modal\b)",
}
_ONE_FILE = (
    r"format|media.?type|mime|file type|too (?:large|many|big|small|long)|exceed|at least|dimension|pixel|corrupt|"
    r"decod|base64|could not process|unable to process|invalid (?:image|audio|video|pdf|document|file)|"
    r"unsupported (?:image|audio|video|pdf|document|file)|download|\bpages?\b|password|encrypted"
)
_PLAIN_TEXT_ONLY = (
    r"not a multi-?modal model|unknown variant\W{0,3}(?:image|input_image|file|document|input_audio|video)|"
    r"unknown part type|content\b[^.;]{0,40}\b(?:must|should) be a (?:valid )?string|"
    r"input should be a valid string"
)
_NO_IMAGES = r"missing data required for image|at most 0 image"


def _none_taken(subject: str) -> str:
    """Return the pattern of an error that says that no such file is taken."""
    return (
        rf"{subject}[^.;]{{0,80}}(?:\bnot\b[^.;]{{0,20}}(?:support|enabled|allowed|accept|available)|unsupported|"
        rf"only supported|n't support)|"
        rf"(?:\bnot\b|n't|cannot|no endpoints)[^.;]{{0,40}}(?:support|accept|handle|take|have)[^.;]{{0,40}}{subject}"
    )


_URL_WORDS = r"\burls?\b|download|fetch|_url\b"  # words in the error of an API that could not fetch a file


def file_fault(status: int | None, message: str, sent: Collection[Kind]) -> tuple[Kind, Cause] | None:
    """Return which kind of the sent files an API refused, and why. None if no file is the cause.

    >>> file_fault(404, "No endpoints found that support image input", ["image"])
    ('image', 'model')
    >>> file_fault(400, "The PDF specified was not valid.", ["image", "document"])
    ('document', 'file')
    >>> file_fault(400, "max_tokens: 64000 > 32000", ["image"])
    """
    if status not in REFUSALS | BROKEN:
        return None
    one_file = re.search(_ONE_FILE, message, re.I)
    kinds = [kind for kind in _SUBJECTS if kind in sent]
    for kind in kinds:
        no_kind = f"{_none_taken(_SUBJECTS[kind])}|{_PLAIN_TEXT_ONLY}{f'|{_NO_IMAGES}' if kind == 'image' else ''}"
        if re.search(no_kind, message, re.I) and not one_file:
            return kind, "model"
    if status in REFUSALS:
        for kind in kinds:
            if re.search(_SUBJECTS[kind], message, re.I):
                return kind, "file"
    return None


class Model(Protocol):
    """What a fallback reads and changes of an adapter."""

    model: str
    name: str
    capabilities: Capabilities

    @property
    def label(self) -> str: ...

    def older_server_tools(self, error: ProviderError, request: Request) -> bool: ...


class PreparedRequest:
    """A request that is ready to send, and what was changed since it was refused."""

    __slots__ = ("_halvings", "_refused", "_undo", "body", "rendering")

    def __init__(self, body: Body, rendering: Rendering) -> None:
        self.body = body
        self.rendering = rendering
        self._undo: list[Callable[[], None]] = []
        self._refused: list[Kind] = []
        """The kind of the files of each refusal."""
        self._halvings = 0

    def fall_back(self, model: Model, error: ProviderError, request: Request) -> str:
        """Leave out what the API refused, for the next rendering. Return a notice, or "" if that is not the cause."""
        known = model.capabilities
        notice = _send_bytes(model, error, request) or self._send_less(model, error, request)
        notice = notice or self._send_texts(model, error) or self._drop_files(model, error, request)
        if not notice and model.older_server_tools(error, request):
            notice = f"{error}; retrying with older versions of its tools"
        if model.capabilities is not known:
            self._undo.append(partial(setattr, model, "capabilities", known))
        return notice

    def restore(self) -> None:
        """Restore what was left out, because leaving it out did not help."""
        for restore in reversed(self._undo):
            restore()

    def _send_less(self, model: Model, error: ProviderError, request: Request) -> str:
        """Leave out the oldest files, half of the bytes each time: a server may take less than its API."""
        rendering = self.rendering
        shown, size = rendering.transcript.shown, sum(file.size for file in rendering.transcript.shown)
        if not is_too_large(error) or size < len(self.body) * LEAST_SHARE:
            return ""
        room = Room(sum(file.images for file in shown), size // 2 if self._halvings < MAX_HALVINGS else 0)
        self._halvings += 1
        self._leave_out(
            surplus_files(shown, room, request.messages[-1]), Omission(f"{model.label} takes smaller requests")
        )
        return f"{error}; retrying with fewer files"

    def _send_texts(self, model: Model, error: ProviderError) -> str:
        """Send excerpts of documents instead, if they are most of a request that is longer than the window."""
        files = self.rendering.all_of("document")
        size = sum(file.size for file in files)
        if not isinstance(error, ContextExceededError) or size < len(self.body) // 2 or "document" in self._refused:
            return ""
        self._refused.append("document")
        self._leave_out(files, Omission(f"{model.label} has no room for all of it", as_text=True))
        return f"{error}; retrying with the text of documents"

    def _leave_out(self, files: Sequence[ShownFile], omission: Omission) -> None:
        self.rendering.leave_out(files, omission)
        self._undo.append(lambda: self.rendering.include(files))  # each request has a copy of the rendering

    def _drop_files(self, model: Model, error: ProviderError, request: Request) -> str:
        rendering = self.rendering
        sent = frozenset[Kind]().union(*(file.kinds for file in rendering.transcript.shown))
        if not sent or len(self._refused) >= MAX_FILE_RETRIES:
            return ""
        match file_fault(error.status, str(error).replace(model.model, ""), sent):
            case kind, "model":
                self._refused.append(kind)
                model.capabilities = without_kind(model.capabilities, kind)
                for name in [name for name, kept in request.memory.items() if kept is rendering]:
                    del request.memory[name]
                return f"{error}; retrying without {_PLURALS[kind]}, and {model.name} gets no more of them"
            case kind, _:
                # A limit on the pages of a request, or an older file at fault, is not met by the newest alone.
                is_first = kind not in self._refused
                self._refused.append(kind)
                files = rendering.newest(kind) if is_first else rendering.all_of(kind)
                self._leave_out(files, Omission(f"{model.label} refused it", as_text=kind == "document"))
                instead = "with the text of" if kind == "document" else "without"
                return f"{error}; retrying {instead} {'the newest' if is_first else 'all'} {_PLURALS[kind]}"
        return ""


def _send_bytes(model: Model, error: ProviderError, request: Request) -> str:
    has_urls = any(file.url for message in request.messages for file in files_in(message))
    cannot_fetch = error.status in (400, 404, 422) and re.search(_URL_WORDS, str(error), re.I)
    if not (has_urls and model.capabilities.url_types and cannot_fetch):
        return ""
    model.capabilities = msgspec.structs.replace(model.capabilities, url_types=())
    return f"{error}; retrying with the files themselves"
