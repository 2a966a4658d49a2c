"""Reading TASKS.jsonl: every bad line is named, and nothing starts."""

from __future__ import annotations

import msgspec
import pytest

from outrider.batches.files import TaskFileError, read_tasks
from outrider.batches.task import Task, session_of

BAD_LINES = {
    b"hello": "not JSON",
    b"[1]": "a line is a JSON object",
    b"{}": "the prompt is missing",
    b'{"prompt": " "}': "the prompt is empty",
    b'{"prompt": 3}': "Expected `str`, got `int`",
    b'{"prompt": "x", "promt": "y"}': "there is no field 'promt'; a task has prompt, id,",
    b'{"prompt": "x", "limits": {"max_turn": 1}}': "there is no limit 'max_turn'; there are max_turns",
    b'{"prompt": "x", "limits": {"max_turns": 0}}': "max_turns",
    b'{"prompt": "x", "limits": {"max_turns": "many"}}': "limits: Expected `int | null`, got `str`",
    b'{"prompt": "x", "schema": {"type": "nothing"}}': "nothing",
    b'{"prompt": "x", "effort": "huge"}': "effort is 'huge'; it must be one of none, low",
    b'{"prompt": "x", "id": "first"}': "line 1 has the same id 'first'",
}


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_bad_line_is_named(line: bytes) -> None:
    good = b'{"id": "first", "prompt": "x"}'
    with pytest.raises(TaskFileError) as caught:
        read_tasks([good, b"\n", line, b'{"prompt": "fine"}'], "tasks.jsonl")
    ((number, problem),) = caught.value.problems
    assert number == 3
    assert BAD_LINES[line] in problem
    assert "tasks.jsonl:3: " in str(caught.value)
    assert "nothing was started" in str(caught.value)


def test_many_bad_lines_are_counted() -> None:
    with pytest.raises(TaskFileError, match="and 5 more bad lines") as caught:
        read_tasks([b"x"] * 15, "tasks.jsonl")
    assert [number for number, _ in caught.value.problems] == list(range(1, 16))


def test_lines_are_filled_with_defaults() -> None:
    lines = [
        b'\xef\xbb\xbf{"prompt": "a", "limits": {"max_turns": 3}}',
        b"",
        b'{"prompt": "b", "id": 7, "model": "demo", "schema": true}',
    ]
    defaults = {"model": "anthropic/fast", "limits": {"max_turns": 9, "max_cost": 1.5}}
    assert read_tasks(lines, "tasks.jsonl", defaults) == [
        Task("a", id="1", model="anthropic/fast", limits={"max_turns": 3, "max_cost": 1.5}),
        Task("b", id="7", model="demo", schema=True, limits={"max_turns": 9, "max_cost": 1.5}),
    ]


def test_the_session_of_a_task_is_the_same_for_every_attempt() -> None:
    assert session_of("b", "t") == session_of("b", "t")
    assert len({session_of("b", "t"), session_of("b", "u"), session_of("c", "t"), session_of("bt", "")}) == 4


def test_all_text_of_a_task_can_be_encoded() -> None:
    text = r'"x\ud800"'
    names = ("id", "model", "cwd", "system_prompt", "metadata")
    line = ", ".join([f'"{name}": {text}' for name in names]) + f', "allow": [{text}]'
    (task,) = read_tasks([f'{{"prompt": {text}, {line}}}'.encode()], "tasks.jsonl")
    again = msgspec.json.decode(msgspec.json.encode(task), type=Task)
    assert again == task
    assert (task.id, task.allow) == ("x\ufffd", ("x\ufffd",))
