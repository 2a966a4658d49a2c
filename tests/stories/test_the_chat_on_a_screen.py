"""The chat on screens of three sizes: nothing is cut where it matters, and pictures for docs/chat.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.chat.terminal import Terminal, answered_by
from tests.modelserver import Answer, Held, ModelServer
from tests.stories.picture import take_picture

MAIN = "def greet(name):\n    return 'Hello ' + name\n\n\nprint(greet('world'))\n"
EDIT = {"file_path": "main.py", "old_string": "'Hello ' + name", "new_string": 'f"Hello, {name}!"'}
SERVER = "echo Serving on port 8000; until [ -e stop ]; do sleep 0.1; done"
ANSWER = """I changed **one line** of `main.py`:

| file | change |
| --- | --- |
| `main.py` | an f-string instead of `+`, with a comma and an exclamation mark |

```python
def greet(name):
    return f"Hello, {name}!"
```

- The program prints `Hello, world!` now.
- The server runs in the background.
"""
SIZES = [(80, 24), (120, 40), (200, 50)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_a_task_a_queued_message_and_a_background_command(size: tuple[int, int], tmp_path: Path) -> None:
    columns, lines = size
    project = tmp_path / "project"
    project.mkdir()
    name = f"chat-{columns}x{lines}"
    (project / "main.py").write_text(MAIN)
    replies = [
        Answer("I look at it first.", (("c1", "Read", {"file_path": "main.py"}),)),
        Answer(calls=(("c2", "Edit", EDIT), ("c3", "Bash", {"command": "python3 main.py", "access": "full"}))),
        Answer(calls=(("c4", "Bash", {"command": SERVER, "run_in_background": True, "access": "full"}),)),
        Held(Answer(ANSWER, by_line=True)),
        Answer("With pleasure: 你好 is *hello* in Chinese."),
    ]
    async with (
        ModelServer(replies) as server,
        Terminal(
            "--permissions", "all", cwd=project, columns=columns, lines=lines, HOME=str(tmp_path), **answered_by(server)
        ) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Greet with an f-string, and start the server.")
        await server.held.wait()
        terminal.type("Then say hello in Chinese.\r")
        await terminal.wait_for("queued: Then say hello in Chinese.")
        if size == SIZES[0]:
            take_picture(name, terminal)
        server.release.set()
        await terminal.wait_for("你好")
        await terminal.wait_for_prompt()
        await terminal.wait_for("1 task")
        terminal.say("/tasks")
        await terminal.wait_for("   1  running")
        await terminal.wait_for_prompt()
        await terminal.wait_for(re.compile(r"all .* 1 task"))
        if size != SIZES[0]:
            take_picture(name, terminal)
        shown = terminal.transcript
        for once in ("I changed one line", "Hello, world!\n", "+    return f", "exclamation", "With pleasure"):
            assert shown.count(once) == 1, once
        assert all(len(row) <= columns for row in shown.split("\n"))
        (project / "stop").touch()
