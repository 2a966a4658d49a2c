"""Text from outside: every hidden character is shown as a mark, and nothing vanishes."""

from __future__ import annotations

import re
import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outrider.cli.chat.permission_prompt import _question_lines
from outrider.cli.styles import unstyled
from outrider.coding.permissions.question import Question
from outrider.coding.remote.questions import permission_body
from outrider.log.questions import Question as StoredQuestion
from outrider.text.visible import (
    HIDDEN,
    one_line,
    plain_text,
    revealed,
    revealed_line,
    safe_line,
    safe_lines,
    without_colours,
)
from outrider.web.hub import question_fields

VISIBLE_FORMAT = {0x600, 0x601, 0x602, 0x603, 0x604, 0x605, 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
"""Signs of Arabic, Syriac and Kaithi that Unicode calls format characters, and that are visible."""
NASTY = st.sampled_from(
    [
        *("\x1b", "\x1b]8;;", "\x1b[31m", "\x07", "\r", "\r\n", "\n", "\t", "\x9b", "\u202e", "\u200b", "\u200d"),
        *("\ufe0f", "\u2028", "\u3164", "\u2800", "\U000e0041", "\ud800", "\udfff", "\xa0", "\ue000", "⟨U+202E⟩"),
        *("⟨U+", "⟨ESC⟩", "⏎", "👩", "🚀", "1", "\u20e3", "می", "क्", "ab", " ", "\x00", "\x7f", "\uffff", "\U0010ffff"),
    ]
)
TEXTS = st.lists(st.one_of(NASTY, st.characters(), st.text(max_size=5)), max_size=30).map("".join)


def original(shown: str) -> str:
    """Read `revealed` backwards, as a person who knows the marks would."""
    names = {revealed(chr(code)).strip("⟨⟩"): chr(code) for code in (*range(9), *range(11, 32), 127)}
    pattern = f"⟨(?:U\\+([0-9A-F]+)|({'|'.join(names)}))⟩"
    return re.sub(pattern, lambda found: chr(int(found[1], 16)) if found[1] else names[found[2]], shown)


@given(TEXTS)
@example("⟨U+202E⟩")
@example("⟨ESC⟩")
def test_the_exact_form_can_be_read_back_so_no_two_texts_look_the_same(text: str) -> None:
    assert original(revealed(text)) == text
    assert original(revealed_line(text).replace("⏎", "\n")) == text


@given(TEXTS)
@example("cafe\u0301 caf\xe9")
@example("a\u0301\u0323 \u212b \u1100\u1161\u11a8 \u09c7\u09be \u2adc")
def test_the_exact_form_has_one_way_to_write_a_letter(text: str) -> None:
    """So texts that differ only in how their letters are composed do not look the same."""
    assert unicodedata.is_normalized("NFC", revealed(text))


def test_marks_that_a_script_needs_are_left_where_nothing_else_looks_the_same() -> None:
    for text in ("caf\xe9", "हिन्दी", "ภาษาไทย", "한국어", "x\u0323\u0302"):
        assert revealed(text) == text
    for form in ("NFD", "NFKD"):
        assert revealed(unicodedata.normalize(form, "é 한")) == "e⟨U+0301⟩ ᄒ⟨U+1161⟩⟨U+11AB⟩"
    assert revealed("हिन्दी cafe\u0301") == "हिन्दी cafe⟨U+0301⟩"


@given(TEXTS)
def test_the_exact_form_has_no_hidden_character(text: str) -> None:
    shown = revealed(text)
    assert not HIDDEN.search(shown)
    assert not [each for each in shown if each not in "\t\n " and unicodedata.category(each) in ("Zs", "Co", "Cs")]
    assert "\n" not in revealed_line(text)
    shown.encode()


@given(TEXTS)
def test_text_to_read_keeps_every_visible_character_in_order(text: str) -> None:
    shown = iter(safe_lines(text))
    visible = HIDDEN.sub("", text.replace("\r\n", "\n"))
    assert all(character in shown for character in visible)


@given(TEXTS)
def test_text_to_read_cannot_move_reorder_or_hide(text: str) -> None:
    shown = safe_lines(text)
    left = set(HIDDEN.findall(shown))
    assert all(
        each in "\u200c\u200d" or 0xFE00 <= ord(each) <= 0xFE0F or 0xE0100 <= ord(each) <= 0xE01EF for each in left
    )
    assert not re.search(f"{HIDDEN.pattern}{{3}}", shown)
    assert safe_lines(shown) == shown
    assert "\n" not in safe_line(text)
    shown.encode()


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert revealed(text) == safe_lines(text) == text


@given(TEXTS, st.integers(1, 40))
def test_short_forms_are_short(text: str, limit: int) -> None:
    assert len(one_line(text, limit)) <= limit
    assert len(plain_text(text, limit)) <= limit
    assert "\n" not in one_line(text, limit)


def test_the_table_has_all_that_unicode_calls_control_format_or_separator() -> None:
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    wanted = {code for code in range(0x110000) if unicodedata.category(chr(code)) in kinds} - VISIBLE_FORMAT - {9, 10}
    assert not [hex(code) for code in wanted if not HIDDEN.match(chr(code))]


@pytest.mark.parametrize(
    "text",
    ["👩\u200d👩\u200d👧", "❤\ufe0f\u200d🔥", "1\ufe0f\u20e3", "می\u200cخواهم", "क्\u200dष", "葛\U000e0100", "👍🏽"],
)
def test_emoji_and_scripts_stay_readable(text: str) -> None:
    assert safe_lines(text) == text


@pytest.mark.parametrize(
    "text", ["a\u200db", "a\ufe0f", "👍\ufe0f\ufe0f", "🏴\U000e0067", "\u200d👩", "pass\u200cword"]
)
def test_joiners_without_use_are_shown(text: str) -> None:
    assert "⟨U+" in safe_lines(text)


def test_colours_go_and_other_sequences_stay() -> None:
    assert safe_lines(without_colours("\x1b[01;34mdocs\x1b[0m \x1b]52;c;eA==\x07")) == "docs ⟨ESC⟩]52;c;eA==⟨BEL⟩"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("piece", ["a", "あ", "\x1b", "👩\u200d", "⟨U+", "\ufe0f", "\r\n"])
def test_time_grows_with_the_length(piece: str) -> None:
    for show in (revealed, safe_lines):
        began = time.process_time()
        show(piece * 200_000)
        assert time.process_time() - began < 10


@given(TEXTS.filter(lambda text: bool(text.strip())))
def test_a_question_shows_every_character_of_a_command_in_the_chat_and_on_the_page(command: str) -> None:
    question = Question("c1", "Bash", {"command": command, "run_in_background": True}, "a reason")
    wanted = re.sub(r"\s", "", revealed(command).replace("\n", ""))
    lines = [unstyled(line) for line in _question_lines(question, 60, Path("/work"))]
    chat = re.sub(r"\s", "", "".join(lines))
    assert wanted in chat.replace("⏎", "") or wanted.replace("⏎", "") in chat
    assert "runsinthebackground" in chat
    fields = question_fields(StoredQuestion("q", "s", "c1", 0.0, permission_body(question, Path("/work"), "ask")))
    assert fields["command"] == revealed(command)
    assert fields["facts"] == ["runs in the background, also after this call"]
    assert not HIDDEN.search(fields["command"] + fields["title"] + fields["input"])
