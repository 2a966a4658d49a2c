"""The lines that an editor gets, as they are and by no schema: names in camelCase, no null, nothing twice."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cli.program import clean_environment, start

CAMEL_CASE = re.compile(r"_?[a-z]+([A-Z][a-z0-9]*)*")
OF_THE_TOOL = ("rawInput", "rawOutput")
"""What a tool takes and gives back has names of its own."""


def updates_of(folder: Path, *said: str) -> list[dict[str, Any]]:
    """What a real agent tells while it answers with the demo model; its questions are answered with yes."""
    told: list[dict[str, Any]] = []
    with start(
        "acp",
        env=clean_environment() | {"OUTRIDER_MODEL": "demo"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin
        assert process.stdout

        def say(number: int, **message: Any) -> None:
            line = json.dumps({"jsonrpc": "2.0", "id": number, **message}) + "\n"
            process.stdin.write(line.encode())  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]

        def ask(number: int, method: str, **params: Any) -> Any:
            say(number, method=method, params=params)
            for line in process.stdout:  # type: ignore[union-attr]
                message = json.loads(line)
                if message.get("method") == "session/request_permission":
                    say(message["id"], result={"outcome": {"outcome": "selected", "optionId": "once"}})
                elif "method" in message:
                    told.append(message["params"]["update"])
                elif message["id"] == number:
                    return message["result"]
            raise AssertionError(f"the agent ended before it answered {method}")

        ask(1, "initialize", protocolVersion=1, clientCapabilities={})
        session = ask(2, "session/new", cwd=str(folder), mcpServers=[])["sessionId"]
        for number, words in enumerate(said, 3):
            ask(number, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": words}])
        process.stdin.close()
        assert process.wait(60) == 0
    return told


def names_and_values(value: Any) -> Iterator[tuple[str, Any]]:
    """Each name in a message with its value, down to what belongs to the tool."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name, inner
            if name not in OF_THE_TOOL:
                yield from names_and_values(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from names_and_values(inner)


def test_names_are_camel_case_nothing_is_null_and_a_status_comes_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\n")
    updates = updates_of(tmp_path, "read notes.txt", "run `sleep 0.3; touch made`", "read missing.txt")
    for name, value in (pair for update in updates for pair in names_and_values(update)):
        assert CAMEL_CASE.fullmatch(name), name
        assert value is not None, name
    calls = [update for update in updates if "toolCallId" in update]
    assert {"rawInput", "toolCallId", "sessionUpdate"} <= {name for update in calls for name in update}
    # Before the question all is told that is known, so that the answer changes nothing but the status.
    (asked,) = (update["toolCallId"] for update in calls if update.get("title") == "Bash(sleep 0.3; touch made)")
    (begun,) = (update for update in calls if (update["toolCallId"], update.get("status")) == (asked, "in_progress"))
    assert begun.keys() == {"sessionUpdate", "toolCallId", "status"}
    ends = [update for update in calls if update.get("status") in ("completed", "failed")]
    assert [update["status"] for update in ends] == ["completed", "completed", "failed"]
    assert all("content" in update for update in ends)
    assert ends[0]["locations"] == [{"path": str(tmp_path / "notes.txt")}]
