"""Compactions as `outrider -p` and `outrider sessions` show them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from outrider.conversation.messages import Message, TextBlock, ToolResultBlock, ToolUseBlock
from outrider.conversation.usage import Usage
from outrider.log.entries import CallResult, CompactionEntry, Entry, MessageEntry, ResultsClearedEntry, SessionSettings
from outrider.sync import default_log
from tests.cli.asking import ask
from tests.cli.program import outrider
from tests.modelserver import Answer, ModelServer, Status

COMPACTED = re.compile(r"^Compacted: [\d,]+k? → [\d,]+k? tokens$", re.M)
SUMMARY = "## Goal\nCount the lines."
TOO_LONG = Status(
    400,
    body=b'{"type":"error","error":{"type":"invalid_request_error",'
    b'"message":"prompt is too long: 200123 tokens > 200000 maximum"}}',
)


def reading() -> list[Answer | Status]:
    """Replies that read a file three times, are then too long, are summarised, and end."""
    calls = [("Read", {"file_path": "big.txt", "offset": number}) for number in (1, 2, 3)]
    replies = [Answer(calls=((f"toolu_{number:020d}", *each),)) for number, each in enumerate(calls)]
    return [*replies, TOO_LONG, Answer(SUMMARY), Answer("Done.")]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "big.txt").write_text("".join(f"line {number}\n" for number in range(2000)))
    return tmp_path


async def test_text_has_one_line_on_standard_error(project: Path) -> None:
    async with ModelServer(reading()) as server:
        ended = await ask(server, "-p", "Count.", cwd=project)
        assert (ended.returncode, ended.stdout) == (0, "Done.\n"), ended.stderr
        assert len(COMPACTED.findall(ended.stderr)) == 1
        sent = json.loads(server.requests[-1].body)
        assert SUMMARY in str(sent["messages"][0]).replace("\\n", "\n")
        assert "Recall" in [tool["name"] for tool in sent["tools"]]
    async with ModelServer(reading()) as server:
        ended = await ask(server, "-p", "Count.", "--quiet", cwd=project)
        assert not ended.stderr


async def test_stream_json_has_the_events(project: Path) -> None:
    async with ModelServer(reading()) as server:
        ended = await ask(server, "-p", "Count.", "--output-format", "stream-json", cwd=project)
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    [started] = [each for each in events if each["type"] == "compaction_started"]
    [done] = [each for each in events if each["type"] == "compacted"]
    assert started["reason"] == done["reason"] == "too_long"
    assert done["tokens_before"] == started["tokens"] > 0
    assert done["tokens_after"] > 0
    assert SUMMARY in done["summary"]


def stored(*entries: Entry) -> str:
    with default_log() as log:
        journal = log.create(SessionSettings(model="anthropic/claude-sonnet-4-5"))
        journal.write_now(*entries)
        journal.close()
        return journal.id


def turn(number: int, tokens: int) -> list[Entry]:
    use = ToolUseBlock(f"c{number}", "Read", {"file_path": f"{number}.txt"})
    return [
        MessageEntry(Message.user(f"question {number}")),
        MessageEntry(Message.assistant(use), Usage(tokens, 1)),
        CallResult(ToolResultBlock(use.id, (TextBlock(f"content {number}. {'word ' * 200}"),))),
        MessageEntry(Message.assistant(f"answer {number}"), Usage(tokens, 10), model="anthropic/claude-sonnet-4-5"),
    ]


def test_a_stored_session_shows_its_context_and_its_compactions() -> None:
    name = stored(*turn(1, 50_000))
    shown = outrider("sessions", "show", name).stdout
    assert re.search(r"^  context   50k of (200k|1M) tokens \(\d+%\)$", shown, re.M)
    assert "compacted" not in shown
    compaction = CompactionEntry(Message.user("[summary]"), 1, "threshold", 171_000, 24_000)
    name = stored(*turn(1, 100_000), ResultsClearedEntry(2, 34_000, 12), *turn(2, 171_000), compaction)
    shown = outrider("sessions", "show", name).stdout
    assert re.search(r"^  context   24k of (200k|1M) tokens \(\d+%\)$", shown, re.M)
    assert re.search(r"^  cleared   12 old results, 34k tokens, \d{4}-\d\d-\d\d \d\d:\d\d, entry 7$", shown, re.M)
    assert re.search(r"^  compacted 171k → 24k tokens, \d{4}-\d\d-\d\d \d\d:\d\d, entry 12$", shown, re.M)
    assert re.search(r"^ +12  \S+  compacted  171k → 24k tokens$", shown, re.M)


def test_many_compactions_are_counted_and_only_the_newest_listed() -> None:
    compactions = [CompactionEntry(Message.user("[summary]"), 0, "manual", 1000 + number, 9) for number in range(8)]
    shown = outrider("sessions", "show", stored(*turn(1, 10), *compactions)).stdout
    assert "  shortened 8 times; the last 5:\n" in shown
    assert "1,002 → 9 tokens, " not in shown
    assert "1,003 → 9 tokens, " in shown


def test_wire_shows_what_is_sent_after_a_compaction() -> None:
    name = stored(*turn(1, 10), CompactionEntry(Message.user("[the summary]"), 0, "manual", 100, 9), *turn(2, 20))
    sent = json.loads(outrider("wire", name, "--as", "anthropic/claude-sonnet-4-5").stdout)
    assert "[the summary]" in str(sent["messages"][0])
    assert "question 1" not in str(sent["messages"])
    assert "question 2" in str(sent["messages"])
    assert [tool["name"] for tool in sent["tools"]] == ["Recall"]
