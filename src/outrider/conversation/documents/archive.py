"""Read untrusted zip archives with XML: by name, in chunks, never onto the disk, with limits on everything."""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import BinaryIO, cast
from xml.etree.ElementTree import Element, ParseError, XMLParser

import msgspec

from outrider.conversation.documents.blocks import CHARACTERS, Budget, ExhaustedError
from outrider.errors import AttachmentError

DIRECTORY = 2 * 1024 * 1024
"""The limit on the archive's directory in bytes: about ten thousand members."""
PIECE = 512 * 1024
"""The number of bytes to unpack at once."""
_ENCRYPTED = 0x1
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
DEEPEST = 200
"""The limit on nested elements."""
LARGEST = 200_000
"""The limit on the elements of one tree: a table of thousands of rows."""


class Archive:
    """The members of a zip archive. Raises AttachmentError if it is damaged, encrypted or malicious."""

    def __init__(self, stream: BinaryIO, budget: Budget) -> None:
        self._zip = zipfile.ZipFile(cast("BinaryIO", _LimitedReads(stream)))
        self.budget = budget

    def __contains__(self, name: str) -> bool:
        return name in self._zip.NameToInfo

    def pieces(self, name: str) -> Iterator[bytes]:
        """Unpack a member in chunks."""
        try:
            member = self._zip.getinfo(name)
        except KeyError:
            raise AttachmentError(f"it has no part {name[:100]!r}") from None
        if member.flag_bits & _ENCRYPTED:
            raise AttachmentError("it is locked with a password")
        if member.compress_type not in _METHODS:  # other methods can be made to use any amount of memory
            raise AttachmentError("it uses a compression method that such documents do not use")
        with self._zip.open(member) as file:
            while piece := file.read(PIECE):
                self.budget.spend_bytes(len(piece))
                yield piece

    def read(self, name: str) -> bytes:
        """Return a complete member."""
        return b"".join(self.pieces(name))

    def close(self) -> None:
        """Release the directory; the stream stays open."""
        self._zip.close()


def resolve_name(base: str, target: str) -> str:
    """Return the name of the member that another member refers to.

    >>> resolve_name("ppt/slides/slide1.xml", "../media/a.png"), resolve_name("word/document.xml", "/word/styles.xml")
    ('ppt/media/a.png', 'word/styles.xml')
    """
    return posixpath.normpath(posixpath.join("/", posixpath.dirname(base), target)).lstrip("/")


class _LimitedReads:
    """A stream that limits each read: zipfile reads the whole directory, whatever size the file declares."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.seek, self.tell, self.seekable = stream.seek, stream.tell, stream.seekable

    def read(self, size: int = -1) -> bytes:
        if size > DIRECTORY:
            raise AttachmentError("it has too many parts")
        return self._stream.read(size if size >= 0 else DIRECTORY)

    def close(self) -> None:
        """Keep the stream open: the caller owns it."""


def trees(
    pieces: Iterable[bytes], budget: Budget, whole: Collection[str], openings: Collection[str] = ()
) -> Iterator[Element]:
    """Yield each outermost element whose tag is in `whole` with its content, as soon as it ends, and each element whose
    tag is in `openings` with its attributes only, when it starts. Names have no namespaces. Raise AttachmentError.

    >>> pages = trees([b"<a><b>1</b><c/><b>2</b></a>"], Budget(), {"b"})
    >>> [page.text for page in pages]
    ['1', '2']
    """
    return _parse(pieces, _TreeBuilder(budget, frozenset(whole), frozenset(openings)))


def tree(pieces: Iterable[bytes], budget: Budget) -> Element:
    """Parse a small XML file as a whole. Raise AttachmentError."""
    return next(_parse(pieces, _TreeBuilder(budget, frozenset(), frozenset(), all_of_it=True)))


def value(element: Element | None, path: str, name: str = "val") -> str:
    """Return an attribute of a descendant element; empty if it is missing."""
    found = element if element is None or not path else element.find(path)
    return "" if found is None else found.get(name, "")


def number(text: str, default: int = 0) -> int:
    """Parse a whole number of plausible size, or return the default.

    >>> number("12"), number("many"), number("9" * 100, 1)
    (12, 0, 1)
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else default


def nearest(element: Element, tag: str) -> Iterator[Element]:
    """Yield the descendants with a tag, but not those nested in one another."""
    for child in element:
        if child.tag == tag:
            yield child
        else:
            yield from nearest(child, tag)


def _parse(pieces: Iterable[bytes], builder: _TreeBuilder) -> Iterator[Element]:
    parser = XMLParser(target=builder)
    try:
        for piece in pieces:
            parser.feed(piece)
            yield from builder.pop_ready()
        parser.close()
    except ParseError:
        raise AttachmentError("its XML is damaged") from None
    yield from builder.pop_ready()


class _TreeBuilder:
    """The parser's target. Builds only the wanted trees."""

    def __init__(
        self, budget: Budget, whole: frozenset[str], openings: frozenset[str], *, all_of_it: bool = False
    ) -> None:
        self._budget = budget
        self._whole = whole
        self._openings = openings
        self._all_of_it = all_of_it
        self._depth = 0
        self._open: list[Element] = []
        """The path of open elements in the current tree, from its root."""
        self._ready: list[Element] = []
        self._names: dict[str, str] = {}
        self._elements = self._characters = 0
        """The size of the current tree."""
        self._text: list[str] = []
        """Text not yet attached to an element. It is joined once, because it may come in very many pieces."""

    def pop_ready(self) -> list[Element]:
        """Return the complete elements, each once."""
        ready, self._ready = self._ready, []
        return ready

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._budget.spend_element()
        self._depth += 1
        if self._depth > DEEPEST:
            raise AttachmentError("it is nested too deeply")
        tag = tag.rpartition("}")[2]
        if self._open:
            self._give_text()
            self._count(1, 0)
            element = self._element(tag, attributes)
            self._open[-1].append(element)
            self._open.append(element)
        elif self._all_of_it or tag in self._whole:
            self._elements = self._characters = 0
            self._open.append(self._element(tag, attributes))
        elif tag in self._openings:
            self._ready.append(self._element(tag, attributes))

    def end(self, tag: str) -> None:
        self._depth -= 1
        if self._open:
            self._give_text()
            ended = self._open.pop()
            if not self._open:
                self._ready.append(ended)

    def data(self, text: str) -> None:
        if self._open:
            self._count(0, len(text))
            self._text.append(text)

    def doctype(self, name: str, public: str | None, system: str | None) -> None:
        """Reject a DTD: no office program writes one, and it can declare entities that expand without limit."""
        raise AttachmentError("its XML has a document type declaration, which is not allowed")

    def close(self) -> None:
        """Do nothing at the end of the input."""

    def _give_text(self) -> None:
        if not self._text:
            return
        text, self._text = "".join(self._text), []
        parent = self._open[-1]
        if len(parent):
            parent[-1].tail = text
        else:
            parent.text = text

    def _count(self, elements: int, characters: int) -> None:
        self._elements += elements
        self._characters += characters
        if self._elements > LARGEST or self._characters > CHARACTERS:
            raise ExhaustedError

    def _element(self, tag: str, attributes: dict[str, str]) -> Element:
        return Element(tag, {self._attribute(name): value for name, value in attributes.items()})

    def _attribute(self, name: str) -> str:
        """Strip the namespace, which differs between versions of a format. Relationship ids get the prefix `r:`."""
        if name not in self._names:
            space, _, plain = name.rpartition("}")
            self._names[name] = f"r:{plain}" if space.endswith("/relationships") else plain
        return self._names[name]


class Relation(msgspec.Struct, frozen=True):
    """A reference from one part to another, or to an external URL."""

    kind: str
    """The last segment of its type: officeDocument, hyperlink, notesSlide."""
    target: str
    """The name of a part, or an external URL."""
    is_external: bool


def relations(archive: Archive, part: str) -> Mapping[str, Relation]:
    """Return the references of a part by id. The part "" is the archive itself."""
    folder, _, name = part.rpartition("/")
    listing = f"{folder}/_rels/{name}.rels".lstrip("/")
    if listing not in archive:
        return {}
    found: dict[str, Relation] = {}
    for each in tree(archive.pieces(listing), archive.budget).iter("Relationship"):
        outside = each.get("TargetMode") == "External"
        target = each.get("Target", "")
        kind = each.get("Type", "").rpartition("/")[2]
        found[each.get("Id", "")] = Relation(kind, target if outside else resolve_name(part, target), outside)
    return found


def main_part(archive: Archive, usual: str) -> str:
    """Return the main part of a document."""
    return part_of_kind(relations(archive, ""), "officeDocument") or usual


def part_of_kind(related: Mapping[str, Relation], kind: str) -> str:
    """Return the first part of a kind among the references; empty if there is none."""
    return next((each.target for each in related.values() if each.kind == kind and not each.is_external), "")
