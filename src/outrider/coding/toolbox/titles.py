"""Short titles of calls, for people who watch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_MAIN_ARGUMENT = {
    "Read": "file_path",
    "Write": "file_path",
    "Edit": "file_path",
    "Glob": "pattern",
    "Grep": "pattern",
    "Bash": "command",
    "WebFetch": "url",
    "Task": "description",
    "web_search": "query",
    "web_fetch": "url",
    "code_execution": "code",
    "bash_code_execution": "command",
}
"""The argument that describes a call best."""


def title(name: str, input: Mapping[str, Any], folder: Path | None = None) -> str:
    """Return the tool and its main argument in one line of any length. Paths inside the folder become relative.

    >>> title("Read", {"file_path": "src/a.py"})
    'Read(src/a.py)'
    >>> title("Bash", {"command": "1+1", "session": 2})
    'Bash(1+1) typed into session 2'
    >>> title("mcp__git__git_log", {"count": 3})
    'git: git_log(count=3)'
    >>> title("AskUser", {"questions": [{"question": "Which colour?", "header": "Colour"}]})
    'AskUser(Which colour?)'
    """
    if name == "Todo" or (name == "web_search" and not input):
        return name
    if name == "call_tool" and isinstance(real := input.get("name"), str) and isinstance(input.get("arguments"), dict):
        return title(real, input["arguments"], folder)
    main = input.get(_MAIN_ARGUMENT.get(name, ""))
    if name == "AskUser":
        main = _asked(input.get("questions"))
    if name == "ExitPlan" and isinstance(plan := input.get("plan"), str):
        main = next((line.strip("# ") for line in plan.splitlines() if line.strip("# ")), "")
    if name == "Recall":
        main = input.get("query") or input.get("reference")
    if not isinstance(main, str):
        server, _, tool = name.removeprefix("mcp__").partition("__")
        name = f"{server}: {tool}" if name.startswith("mcp__") and tool else name
        return f"{name}({', '.join(f'{key}={_short(value)}' for key, value in input.items())})"
    if name == "Task" and isinstance(input.get("subagent_type"), str):
        return f"Task({input['subagent_type']}: {main})"
    if name in ("Read", "Write", "Edit"):
        main = shown_path(main, folder)
    path = input.get("path")
    if name in ("Glob", "Grep") and isinstance(path, str):
        return f"{name}({main} in {shown_path(path, folder)})"
    return f"{name}({main}){_how(input) if name == 'Bash' else ''}"


def _how(input: Mapping[str, Any]) -> str:
    """Return how a command runs, where that is not as usual."""
    if session := input.get("session"):
        return f" typed into session {_short(session)}"
    access = input.get("access")
    level = f" with access {_short(access)}" if access not in (None, "read") else ""
    where = (
        " in the background" if input.get("run_in_background") else " in a terminal" if input.get("terminal") else ""
    )
    return f"{level}{where}"


def partial_title(name: str, input: Mapping[str, Any], folder: Path | None = None) -> str:
    """Return the title of a call whose arguments are not complete: its name until the main one is known.

    >>> partial_title("Write", {"content": "x"}), partial_title("Write", {"content": "x", "file_path": "a.py"})
    ('Write', 'Write(a.py)')
    """
    return title(name, input, folder) if _MAIN_ARGUMENT.get(name) in input else name


def shown_path(name: str, folder: Path | None) -> str:
    """Return a path relative to the folder if it is inside. A path with `..` stays as it is, because of links."""
    if folder and os.path.isabs(name) and ".." not in name.split("/"):
        inside = os.path.relpath(name, folder)
        if not inside.startswith(".."):
            return inside
    return name


def _asked(questions: Any) -> str:
    """Return the subjects of several questions, or the text of one. The arguments may be incomplete or not valid."""
    asked = [each for each in questions if isinstance(each, dict)] if isinstance(questions, list) else []
    names = ("header", "question") if len(asked) > 1 else ("question",)
    texts = (next((each[name] for name in names if each.get(name)), "") for each in asked)
    return ", ".join(text for text in texts if text and isinstance(text, str))


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
