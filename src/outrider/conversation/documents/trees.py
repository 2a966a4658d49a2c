"""XML read in pieces: small trees of the elements that matter, one at a time, with a limit on everything."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from xml.etree.ElementTree import Element, ParseError, XMLParser

from outrider.conversation.documents.budget import CHARACTERS, Budget, ExhaustedError
from outrider.errors import AttachmentError

DEEPEST = 200
"""Elements within elements."""
LARGEST = 200_000
"""Elements of one tree: a table of thousands of rows."""


def trees(
    pieces: Iterable[bytes], budget: Budget, whole: Collection[str], openings: Collection[str] = ()
) -> Iterator[Element]:
    """Each outermost element whose tag is in `whole`, with all that is in it, as soon as it ends; and each whose tag is
    in `openings`, with its attributes alone, when it begins. Names have no namespaces. Raises AttachmentError.

    >>> pages = trees([b"<a><b>1</b><c/><b>2</b></a>"], Budget(), {"b"})
    >>> [page.text for page in pages]
    ['1', '2']
    """
    return _grown(pieces, _Taker(budget, frozenset(whole), frozenset(openings)))


def tree(pieces: Iterable[bytes], budget: Budget) -> Element:
    """A small XML file as a whole. Raises AttachmentError."""
    return next(_grown(pieces, _Taker(budget, frozenset(), frozenset(), all_of_it=True)))


def value(element: Element | None, path: str, name: str = "val") -> str:
    """An attribute of an element below another one; empty if there is none."""
    found = element if element is None or not path else element.find(path)
    return "" if found is None else found.get(name, "")


def number(text: str, otherwise: int = 0) -> int:
    """A whole number that is not absurdly large; something else where the text is none.

    >>> number("12"), number("many"), number("9" * 100, 1)
    (12, 0, 1)
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else otherwise


def nearest(element: Element, tag: str) -> Iterator[Element]:
    """The elements of a tag below another one, and none that are within one of them."""
    for child in element:
        if child.tag == tag:
            yield child
        else:
            yield from nearest(child, tag)


def _grown(pieces: Iterable[bytes], taker: _Taker) -> Iterator[Element]:
    parser = XMLParser(target=taker)
    try:
        for piece in pieces:
            parser.feed(piece)
            yield from taker.taken()
        parser.close()
    except ParseError:
        raise AttachmentError("its XML is damaged") from None
    yield from taker.taken()


class _Taker:
    """Builds the trees that are wanted, and no others. Called by the parser."""

    def __init__(
        self, budget: Budget, whole: frozenset[str], openings: frozenset[str], *, all_of_it: bool = False
    ) -> None:
        self._budget = budget
        self._whole = whole
        self._openings = openings
        self._all_of_it = all_of_it
        self._depth = 0
        self._open: list[Element] = []
        """The elements of the tree that is being built, from its root to where it grows."""
        self._ready: list[Element] = []
        self._names: dict[str, str] = {}
        self._elements = self._characters = 0
        """What the tree has so far."""
        self._text: list[str] = []
        """Text that was not yet given to an element: joined once, for it may come in very many pieces."""

    def taken(self) -> list[Element]:
        """What is complete; each once."""
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
        """No office program writes one, and entities that grow without end are declared in it."""
        raise AttachmentError("its XML declares a type with entities of its own, which is not read")

    def close(self) -> None:
        """The parser has seen the end."""

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
        """A name without its namespace, which differs between versions of one format; ids of parts keep an `r:`."""
        if name not in self._names:
            space, _, plain = name.rpartition("}")
            self._names[name] = f"r:{plain}" if space.endswith("/relationships") else plain
        return self._names[name]
