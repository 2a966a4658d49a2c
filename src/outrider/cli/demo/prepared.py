"""Demo 8: a repository that was prepared for another agent, opened by an editor."""

from __future__ import annotations

import json
from pathlib import Path

from outrider.cli.demo.editor import Editor, calls_of, running_agent
from outrider.cli.demo.story import Json, Story, last_line
from outrider.processes.starting import run

FILES = {
    "CLAUDE.md": "Times are in minutes since midnight.\n",
    "times.txt": "540 600 660\n",
    ".claude/commands/check.md": "---\ndescription: Check a file\n---\nRead $1.\n",
    ".claude/skills/changelog/SKILL.md": "---\nname: changelog\ndescription: Write an entry.\n---\nUse verbs.\n",
    ".claude/settings.json": json.dumps(
        {
            "hooks": {
                "PreToolUse": [
                    {
                        "matcher": "Bash",
                        "hooks": [{"type": "command", "command": "echo 'Nothing is deleted here.' >&2; exit 2"}],
                    }
                ]
            }
        }
    ),
}
PROMPTS = ("/check times.txt", "Run `rm times.txt`")


def prepared_repository(story: Story) -> str:
    """Agree to the hooks, open the repository over ACP, and call its command. Its hook keeps the file."""
    story.heading("CLAUDE.md, a skill, a command and a hook of another agent")
    folder = story.folder / "ferry"
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / ".git").mkdir()
    story.print_lines("  $ outrider trust --yes")
    _run(story, folder, "trust", "--yes")
    with running_agent(story, "--model", "demo", "--permissions", "all", cwd=folder) as process:
        editor = Editor(process, story, shows=False)
        editor.ask("initialize", protocolVersion=1, clientCapabilities={"fs": {}})
        session = editor.ask("session/new", cwd=str(folder), mcpServers=[])["sessionId"]
        for prompt in PROMPTS:
            story.printer.question(prompt)
            ended = editor.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": prompt}])
    commands = [
        command["name"]
        for update in editor.updates
        if update["sessionUpdate"] == "available_commands_update"
        for command in update["availableCommands"]
    ]
    own = [f"/{name}" for name in commands if name in ("check", "changelog")]
    story.print_lines(f"  Of the repository, the editor has the commands {' and '.join(own)}.", "")
    calls = calls_of(editor.updates)
    for each in calls.values():
        story.print_lines(f"  {'✓' if each['status'] == 'completed' else '✗'} {each['title']:<25} {_text_of(each)}")
    shown = json.dumps([*calls.values()], ensure_ascii=False)
    story.check(
        {
            "the editor does not have the command and the skill": {"check", "changelog"} <= set(commands),
            "the command was not carried out": "540 600 660" in shown,
            "the hook did not refuse the command": "Nothing is deleted here." in shown,
            "the file was deleted": (folder / "times.txt").exists(),
            f"the stop reason is {ended['stopReason']!r}, not 'end_turn'": ended["stopReason"] == "end_turn",
        }
    )
    return "Repository of another agent: its command, skill and hook work in an editor."


def _text_of(call: Json) -> str:
    """Return the first line that a call shows."""
    texts = [item["content"]["text"] for item in call["content"] if item["type"] == "content"]
    lines = [line.strip("` ") for line in "\n".join(texts).splitlines() if line.strip("` ")]
    return lines[0] if lines else ""


def _run(story: Story, folder: Path, *arguments: str) -> None:
    command, env = story.command("outrider", *arguments)
    ended = run(command, environment=env, seconds=30, folder=folder)
    if ended.code:
        raise RuntimeError(f"outrider {arguments[0]} failed: {last_line(ended.errors.decode(errors='replace'))}")
