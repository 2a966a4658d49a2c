"""`/export`: who said what in the file that it writes."""

from __future__ import annotations

from pathlib import Path

from outrider import Message
from outrider.cli.chat.transcript_file import write_transcript
from outrider.prompts import prompt
from outrider.stores import MemoryStore

FAILED = prompt("goal_failed").replace("{goal}", "make").replace("{check}", "1").replace("{output}", "<b> is missing")
TALK = (
    Message.user("Do it."),
    Message.assistant("I did."),
    Message.user(FAILED),
    Message.user("[Sub-agent 01234567 (explore: Look) has finished. Not a message of the user.]\n\nIt is there."),
    Message.user(prompt("interrupted")),
)


def exported(tmp_path: Path, name: str) -> str:
    write_transcript(tmp_path / name, "Talk", TALK, MemoryStore())
    return (tmp_path / name).read_text()


def test_only_the_words_of_the_user_are_quoted_in_markdown(tmp_path: Path) -> None:
    text = exported(tmp_path, "talk.md")
    assert [line for line in text.splitlines() if line.startswith(">")] == ["> Do it."]
    assert "\n*The goal is not reached: `make` fails (check 1)*\n\n```\n<b> is missing\n" in text
    assert "(explore: Look) has finished. Not a message of the user.*\n\n```\nIt is there.\n```\n" in text
    assert text.endswith("\n*The reply above was interrupted here, before it was complete.*\n")


def test_only_the_words_of_the_user_are_marked_as_theirs_in_html(tmp_path: Path) -> None:
    page = exported(tmp_path, "talk.html")
    assert page.count('class="user"') == 1
    assert "<summary>The goal is not reached: `make` fails (check 1)</summary>\n<pre>&lt;b&gt; is missing" in page
    assert '<p class="note">The reply above was interrupted here, before it was complete.</p>' in page
