"""The sources of a reply in the terminal: numbered, as links where the terminal has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote

from outrider.cli.styles import fit
from outrider.conversation.messages import Citation
from outrider.text.visible import safe_line

LONGEST_LABEL = 100
_PROGRAMS = ("iTerm.app", "WezTerm", "ghostty", "vscode", "Hyper", "rio")
_VARIABLES = ("KITTY_WINDOW_ID", "WT_SESSION", "KONSOLE_VERSION", "DOMTERM")
_TERMS = ("xterm-kitty", "xterm-ghostty", "alacritty", "foot")
_PLAIN = ":/?#[]@!$&'()*+,;=%~-._"
"""Characters of an address, beside letters and digits, that stay as they are."""


def has_links(environment: Mapping[str, str]) -> bool:
    """Return whether the terminal is known to show links (OSC 8). A multiplexer may drop them."""
    term = environment.get("TERM", "")
    if environment.get("TMUX") or environment.get("STY") or term.startswith(("screen", "tmux")):
        return False
    vte = environment.get("VTE_VERSION", "")
    return (
        environment.get("TERM_PROGRAM") in _PROGRAMS
        or any(map(environment.get, _VARIABLES))
        or term.startswith(_TERMS)
        or (vte.isdecimal() and int(vte) >= 5000)
    )


def source_lines(sources: Iterable[Citation]) -> Iterator[str]:
    """Yield a line for each source: its number, title and address.

    >>> list(source_lines([Citation("https://a.test", "A"), Citation("https://b.test")]))
    ['[1] A — https://a.test', '[2] https://b.test']
    """
    for number, source in enumerate(sources, 1):
        label, address = safe_line(source.label), safe_line(source.url)
        shown = fit(label, LONGEST_LABEL) if label != address else address
        yield f"[{number}] {shown} — {address}" if address and label != address else f"[{number}] {shown}"


def linked_source_lines(sources: Iterable[Citation], width: int) -> Iterator[str]:
    """Yield a line for each source, whose title is a link to its address."""
    for number, source in enumerate(sources, 1):
        head = f"[{number}] "
        yield head + link(fit(safe_line(source.label), width - len(head)), source.url)


def link(text: str, url: str) -> str:
    """Return text as a link. Only an address on the web becomes one: a terminal may open others with any program."""
    if not url.lower().startswith(("https://", "http://")):
        return text
    return f"\x1b]8;;{quote(url, safe=_PLAIN)}\x1b\\{text}\x1b]8;;\x1b\\"
