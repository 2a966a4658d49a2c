"""HTML of conversations whose text, names and files are hostile."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider import Agent, Attachment, Message, RunResult, Session, Usage
from outrider.conversation.html import LONGEST_TEXT, MOST_MESSAGES, conversation_html, message_html
from outrider.conversation.messages import (
    AttachmentBlock,
    ServerToolResultBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.events import (
    Notice,
    ReplyDiscarded,
    RunFinished,
    SubagentStarted,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from outrider.notebook import LiveView
from outrider.runtime.run_view import MOST_LINES, RunView
from outrider.stores import MemoryStore
from outrider.testing import ScriptedModel

TAGS = {"div", "b", "i", "p", "pre", "code", "details", "summary", "small", "br", "img", "strong", "em", "s", "a"}
TAGS |= {"h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "hr", "table", "thead", "tbody", "tr"}
TAGS |= {"th", "td"}
ATTRIBUTES = {"style", "open", "src", "alt", "href", "rel", "target", "start", "class"}
ATTACKS = [
    "<script>alert(1)</script>",
    "</pre></details><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "'><svg/onload=alert(1)>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1)) [y](data:text/html,<script>alert(1)</script>)",
    "![x](https://tracker.example/x.png)",
    "![x](javascript:alert(1)) [![a](http://t/p.png)](https://b)",
    '```x"><script>\n<b>\n```',
    "| a |\n|---|\n| <img src=x onerror=alert(1)> |",
    '<https://a.b/"onclick=alert(1)>',
    "&lt;script&gt; &#x3c;script&#x3e;",
    "\u202egnp.exe \ud800 \x00 \x1b[31m",
    "> " * 500 + "deep",
]


class Checker(HTMLParser):
    """Fails at anything that is not known to be harmless."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        for name, value in attrs:
            assert name in ATTRIBUTES, name
            if name == "src":
                assert (value or "").startswith(("data:image/png;base64,", "data:image/jpeg;base64,"))
            if name == "href":
                assert (value or "").startswith(("https://", "http://", "mailto:"))
            if name == "style":
                assert "url" not in (value or "")
        if tag not in ("br", "img", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag  # no text closes an element of ours


def check(html: str) -> None:
    checker = Checker()
    checker.feed(html)
    checker.close()
    assert checker.open == []
    assert not set(html) & set("\x00\x1b\u202e\u2066")
    html.encode()


def message_of(text: str) -> list[Message]:
    file = AttachmentBlock("0" * 64, text, 3, text, text, url="")
    blocks = (
        TextBlock(text),
        ThinkingBlock(text),
        ToolUseBlock("1", text, {text: [text]}),
        ServerToolResultBlock("2", text),
        file,
    )
    result = ToolResultBlock("1", (TextBlock(text), file), is_error=True)
    return [Message("user", (TextBlock(text), file)), Message("assistant", blocks), Message("user", (result,))]


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_are_shown_as_text(attack: str) -> None:
    messages = message_of(attack)
    check(conversation_html(messages, MemoryStore()))
    for message in messages:
        check(message_html(message))
    check(RunResult("error", attack, 1, Usage(), messages, attack)._repr_html_())
    check(Attachment(b"abc", attack, attack, attack)._repr_html_())
    check(Session(Agent(ScriptedModel([]), name=attack), messages[:1])._repr_html_())


_FRAGMENTS = st.lists(
    st.sampled_from([*ATTACKS, *"<>\"'&`[]()!*_#|\n \t=/:", "javascript:", "a"]) | st.text(), max_size=12
)


@given(_FRAGMENTS.map("".join))
def test_no_text_becomes_anything_else(text: str) -> None:
    check(conversation_html(message_of(text)))


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_live_view_shows_attacks_as_text(attack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import IPython.display

    class Handle:
        def update(self, html: IPython.display.HTML) -> None:
            shown.append(html.data)

    def display(html: IPython.display.HTML, display_id: bool) -> Handle:
        shown.append(html.data)
        return Handle()

    shown: list[str] = []
    monkeypatch.setattr("outrider.runtime.run_view.INTERVAL", 0)
    monkeypatch.setattr(IPython.display, "display", display)
    observer = LiveView().observe(Session(Agent(ScriptedModel([]))))
    block = ToolResultBlock("1", (TextBlock(attack),))
    for event in (
        ToolStarted("1", attack, {attack: attack}, "read"),
        SubagentStarted("1", "s", attack, attack),
        ToolProgress("1", attack),
        Notice(attack),
        ToolFinished("1", attack, block),
        TextDelta(attack),
        RunFinished("error", 1, Usage(), attack, attack),
    ):
        observer(event)
    assert len(shown) == 7
    for html in shown:
        check(html)


def test_a_file_that_only_claims_to_be_a_picture_is_not_sent_as_one() -> None:
    html = Attachment(b"<svg onload=alert(1)>", "image/svg+xml", name="x.svg")._repr_html_()
    assert "<img" not in html
    check(html)


def test_long_conversations_and_texts_are_shortened() -> None:
    html = conversation_html([Message.user("x" * 100_000)] * (MOST_MESSAGES + 5))
    assert "5 earlier messages" in html
    assert len(html) < MOST_MESSAGES * 25_000


def test_long_texts_and_files_elsewhere_are_shown_as_text() -> None:
    long = message_html(Message.assistant("**no** " * LONGEST_TEXT), None)
    assert "<strong>" not in long
    check(long)
    remote = Attachment.from_url("https://example.com/<b>.pdf", name="<i>a.pdf")._repr_html_()
    assert "<p>📎 &lt;i&gt;a.pdf <code>https://example.com/&lt;b&gt;.pdf</code></p>" in remote
    check(remote)


def test_a_live_view_has_the_newest_lines_and_no_text_of_a_discarded_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    view = RunView()
    shown: list[str] = []
    monkeypatch.setattr(view, "_show", lambda: shown.append(f"{view._text} {' '.join(view._lines)}"))
    for number in range(MOST_LINES + 1):
        view(ToolStarted(f"c{number}", "look", {}, "read"))
    view(TextDelta("half a wo"))
    view(ReplyDiscarded("torn"))
    assert (view._text, len(view._lines), "c0" in view._lines) == ("", MOST_LINES, False)
    view(RunFinished("done", 1, Usage(), "All.", ""))
    assert shown[-1].startswith("All. c1 c2")


def test_a_stored_picture_is_shown_and_one_that_is_missing_is_named() -> None:
    store = MemoryStore()
    picture = store.put(Attachment(b"\x89PNG\r\n\x1a\n", "image/png", name="a.png"))
    assert 'src="data:image/png;base64,iVBORw0KGgo=' in message_html(Message.user(picture), store)
    assert "is not in the attachment store" in message_html(Message.user(picture), MemoryStore())
