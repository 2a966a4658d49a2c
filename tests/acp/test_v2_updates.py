"""Changes of calls in the words of version 2: the smallest that carry them, and patches that Git takes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.acp.calls import CANCELLED
from outrider.acp.updates.engine import Engine
from outrider.acp.updates.state import CallState, Diff, Location, Terminal, Text
from outrider.acp.v2.output import printed
from outrider.acp.v2.patches import diff_item, quoted
from outrider.acp.v2.updates import Updates
from outrider.coding.toolbox.files.diffs import diff_of
from outrider.conversation.messages import AttachmentBlock, TextBlock, ToolResultBlock
from tests.acp.official import check
from tests.acp.seen_v2 import SeenV2


class Told:
    """The calls of a session, and an editor that hears of them."""

    def __init__(self, *, full: bool = False, checks: bool = True) -> None:
        self.checks = checks
        self._seen = SeenV2()
        self._broken: BaseException | None = None
        self.sent: list[dict[str, Any]] = []
        self.updates = Updates(self._tell, _no_file, Path("/work"), full=full)
        self.engine = Engine(
            self.updates.tell,
            appending="chunks",
            full=full,
            keeps_cancelled=True,
            clock=lambda: 0.0,
            call_later=lambda _, __: _Never(),
        )

    @property
    def seen(self) -> SeenV2:
        """What the editor shows. What it could not make sense of is raised here: the engine would try again."""
        if self._broken:
            raise self._broken
        return self._seen

    def _tell(self, update: Any) -> int:
        line = msgspec.json.encode(update)
        try:
            self._take(json.loads(line))
        except AssertionError as error:
            self._broken = error
        return len(line)

    def _take(self, told: dict[str, Any]) -> None:
        if self.checks:
            check("SessionUpdate", told, 2)
        self.sent.append(told)
        self._seen.take(told)


class _Never:
    def cancel(self) -> None:
        pass


def _no_file(_: AttachmentBlock) -> bytes:
    raise AssertionError("no call has a file here")


def text(words: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": words}}


def test_a_change_of_status_is_the_id_and_the_status() -> None:
    told = Told()
    told.engine.announce(CallState("c", "Read(a)", "Read", "read", raw_input={"file_path": "a"}))
    told.engine.flush()
    told.engine.change("c", status="in_progress")
    told.engine.flush()
    assert told.sent[1:] == [{"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "in_progress"}]


def test_an_item_more_is_sent_alone_and_what_is_known_is_not_sent_again() -> None:
    told = Told()
    told.engine.announce(CallState("c", "Look", content=(Text("one"),), locations=(Location("/a", 3),)))
    told.engine.flush()
    told.engine.change("c", content=(Text("one"), Text("two")))
    told.engine.flush()
    told.engine.finish("c", "completed")
    assert told.sent[1:] == [
        {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c", "content": text("two")},
        {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"},
    ]


def test_what_is_not_there_any_more_is_cleared_with_null() -> None:
    told = Told()
    told.engine.announce(CallState("c", "Look", content=(Text("one"),), locations=(Location("/a"),)))
    told.engine.flush()
    told.engine.change("c", content=(), locations=())
    told.engine.flush()
    assert told.sent[1:] == [
        {"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": None, "locations": None}
    ]
    assert told.seen.calls["c"]["content"] == told.seen.calls["c"]["locations"] == []


def test_a_tool_that_prints_has_a_terminal_until_it_has_a_result() -> None:
    told = Told()
    told.engine.announce(CallState("c", "Build"))
    told.engine.append("c", "10 %\n")
    told.engine.flush()
    assert told.seen.calls["c"]["content"] == [{"type": "terminal", "terminalId": "c"}]
    assert told.seen.output("c") == b"10 %\n"
    told.engine.finish("c", "completed", content=(Text("Built."),))
    assert told.seen.calls["c"]["content"] == [text("Built.")]
    assert told.seen.terminals["c"]["exitStatus"] == {}


def test_a_command_that_a_signal_ended_says_which() -> None:
    told = Told()
    told.engine.announce(CallState("c", "Bash(x)", raw_input={"command": "x"}, content=(Terminal("c"),)))
    told.engine.finish("c", "failed", exit_code=-9)
    assert told.seen.terminals["c"]["exitStatus"] == {"signal": "SIGKILL"}


TERMINAL = {"type": "terminal", "terminalId": "c"}
_words = st.text("ab\né", max_size=5)
_items = st.lists(st.builds(Text, _words) | st.just(Terminal("c")), max_size=3, unique=True).map(tuple)
_places = st.lists(st.builds(Location, st.sampled_from(["/a", "/b"]), st.none() | st.integers(1, 3)), max_size=2)
_steps = st.lists(
    st.one_of(
        st.fixed_dictionaries({"content": _items}),
        st.fixed_dictionaries({"locations": _places.map(tuple), "title": st.sampled_from(["x", "y"])}),
        st.fixed_dictionaries({"status": st.just("in_progress"), "content": _items}),
        st.text("ab\né", min_size=1, max_size=5),
        st.none(),
    ),
    max_size=12,
)


@settings(max_examples=100, deadline=None)
@given(_steps, st.sampled_from(["completed", "failed", "cancelled"]), _items)
def test_whatever_happens_to_a_call_an_editor_ends_up_with_what_is_wanted(
    steps: list[Any], end: Any, content: tuple[Any, ...]
) -> None:
    told = Told(checks=False)
    told.engine.announce(CallState("c", "t"))
    output = ""
    for step in steps:
        if step is None:
            told.engine.flush()
        elif isinstance(step, str):
            told.engine.append("c", step)
            output += step
        else:
            told.engine.change("c", **step)
    wanted = told.engine.state("c")
    assert wanted
    told.engine.finish("c", end, content=content)
    call = told.seen.calls["c"]
    assert (call["status"], call["title"]) == (end, wanted.title)
    items = [text(item.text) if isinstance(item, Text) else TERMINAL for item in content]
    assert call["content"] == items or (output and not items and call["content"] == [TERMINAL])
    assert call["locations"] == [
        {"path": place.path} | ({"line": place.line} if place.line else {}) for place in wanted.locations
    ]
    assert told.seen.terminals.get("c", {"output": b""})["output"] == output.encode()


@pytest.mark.parametrize("name", ["plain.txt", "with space.txt", 'quo"ted\\.txt', "ümläut.txt", "tab\tnew\nline.txt"])
@pytest.mark.parametrize("before", [None, "", "one\ntwo\n", "one\r\ntwo\r\n", "no end"])
def test_a_patch_is_one_that_git_takes(name: str, before: str | None, tmp_path: Path) -> None:
    file, after = tmp_path / name, "one\nthree\nno end of line"
    if before is not None:
        file.write_bytes(before.encode())
    item = diff_item(Diff(str(file), after), None if before is None else diff_of(before, after, "file").text)
    assert item.changes[0].operation == ("modify" if before else "add")
    file.unlink() if before == "" else None  # an empty file is as good as none to the tool that made the change
    if before and "\r" in before:
        return  # how lines end is not shown
    patch = msgspec.to_builtins(item)["patch"]["text"]
    # Git wants paths inside of a repository: the root is taken for one.
    applied = subprocess.run(
        ["git", "apply", "--unsafe-paths", "-p0", f"--directory={tmp_path}", "-"],
        input=patch.replace(quoted(str(file)), quoted(name)).encode(),
        cwd=tmp_path,
        capture_output=True,
    )
    assert applied.returncode == 0, (applied.stderr.decode(), patch)
    assert file.read_text() == after


def test_what_a_file_has_is_not_shown_before_the_call_may_run(tmp_path: Path) -> None:
    secret = tmp_path / ".env"
    secret.write_text("KEY=abc123\n")
    for proposed in (Diff(str(secret), "KEY=\n"), Diff(str(secret), "x", "KEY"), Diff(str(secret), "x", "")):
        assert b"abc123" not in msgspec.json.encode(diff_item(proposed, None))


def test_a_change_is_shown_as_it_was_made_if_that_is_known(tmp_path: Path) -> None:
    path = str(tmp_path / "gone")
    made = diff_of("a\nb\nc\n", "a\nB\nc\n", "gone").text
    item = diff_item(Diff(path, "B", "b"), made)
    patch = f"diff --git {path} {path}\n--- {path}\n+++ {path}\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
    assert msgspec.to_builtins(item)["patch"]["text"] == patch
    unchanged = msgspec.to_builtins(diff_item(Diff(path, "B"), ""))
    assert "patch" not in unchanged, "a patch without a change is none"


def test_of_a_change_that_is_too_large_to_be_kept_only_what_is_known_is_shown(tmp_path: Path) -> None:
    path = str(tmp_path / "big")
    long = "".join(f"line {number}\n" for number in range(5_000))
    added = msgspec.to_builtins(diff_item(Diff(path, long), diff_of("", long, "big").text))
    assert added["changes"][0]["operation"] == "add"
    assert added["patch"]["text"].endswith("+line 4999\n"), "a new file is known as a whole"
    rewritten = msgspec.to_builtins(diff_item(Diff(path, long), diff_of("x\n", long, "big").text))
    assert rewritten["changes"][0]["operation"] == "modify"
    assert "patch" not in rewritten
    edited = msgspec.to_builtins(diff_item(Diff(path, "y", "x"), diff_of("x\n", long, "big").text))
    assert edited["patch"]["text"].endswith(
        "@@ -1,1 +1,1 @@\n-x\n\\ No newline at end of file\n+y\n\\ No newline at end of file\n"
    )


def result(words: str) -> ToolResultBlock:
    return ToolResultBlock("c", (TextBlock(words),))


@pytest.mark.parametrize(
    ("said", "details", "output", "remark"),
    [
        ("a\nb", {"bytes": 4, "exit_code": 0}, "a\nb\n", ""),
        ("a\nExit code 1.", {"bytes": 2, "exit_code": 1}, "a\n", ""),
        ("a\nExit code 1.", {"bytes": 1, "exit_code": 1}, "a", ""),
        ("a\nExit code 1.", {"bytes": 4, "exit_code": 1}, "a\n\n\n", ""),
        ("é\nIt took long.", {"bytes": 3, "exit_code": None}, "é\n", "It took long."),
        ("There was no output.\nExit code 1.", {"bytes": 0, "exit_code": 1}, "", ""),
        ("It runs in the background.", {"bytes": 0, "exit_code": None}, "", "It runs in the background."),
        (f"{CANCELLED}\na\nb\nThe command was stopped.", None, "a\nb\n", CANCELLED),
        (f"{CANCELLED}\nThere was no output.\nThe command was stopped.", None, "", CANCELLED),
        ("It was not run: no.", None, "", "It was not run: no."),
        ("red", {"bytes": 13, "exit_code": 0}, "red\n", ""),
        ("red\nExit code 1.", {"bytes": 13, "exit_code": 1}, "red\n", ""),
    ],
)
def test_what_a_command_printed_is_told_apart_from_what_is_said_about_it(
    said: str, details: Any, output: str, remark: str
) -> None:
    assert printed(result(said), details) == (output, remark)
