"""The output of a command that runs, for an editor without terminals: each line comes, and as plain text."""

from __future__ import annotations

from pathlib import Path

from tests.acp.editor import introduced
from tests.cli.asking import everywhere
from tests.modelserver import Answer, ModelServer

STEPS = 25
SLOW = f"""\
for step in $(seq {STEPS}); do
  echo "# step $step"
  until [ -e "seen.$step" ]; do sleep 0.02; done
done
"""
"""Each step waits until somebody has seen the one before: what is only shown at the end would never come."""


async def test_each_line_of_a_slow_command_is_seen_before_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "slow.sh").write_text(SLOW)
    replies = [Answer("", (("b", "Bash", {"command": "sh slow.sh"}),)), Answer("Done.")]
    async with (
        ModelServer(replies) as server,
        introduced("--permissions", "all", **everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        request = editor.say(session, "Run it")
        seen = editor.seen(session)

        def shown() -> str:
            content = seen.calls.get("b", {}).get("content", ())
            return content[0]["content"]["text"] if content else ""

        for step in range(1, STEPS + 1):
            await editor.until(lambda: f"# step {step}\n" in shown(), f"step {step}")  # noqa: B023
            assert seen.calls["b"]["status"] == "in_progress"
            assert shown() == "```\n" + "".join(f"# step {each}\n" for each in range(1, step + 1)) + "```"
            (tmp_path / f"seen.{step}").touch()
        assert await editor.answer(request) == {"stopReason": "end_turn"}
        assert f"# step {STEPS}\n```" in shown()


async def test_what_was_said_for_a_question_is_not_sent_with_each_line(tmp_path: Path) -> None:
    (tmp_path / "slow.sh").write_text(SLOW)
    command = "true '" + "a long command\n" * 300 + "'; sh slow.sh"
    replies = [Answer("", (("b", "Bash", {"command": command}),)), Answer("Done.")]
    for step in range(1, STEPS + 1):
        (tmp_path / f"seen.{step}").touch()

    def permit(params: dict[str, object]) -> dict[str, object]:
        assert "a long command\na long command" in str(params["toolCall"]).replace("\\n", "\n")
        return {"outcome": {"outcome": "selected", "optionId": "once"}}

    async with (
        ModelServer(replies) as server,
        introduced(handlers={"session/request_permission": permit}, **everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        await editor.prompt(session, "Run it")
        updates = editor.seen(session).of_call("b")
    with_output = [update for update in updates if "# step" in str(update.get("content"))]
    assert with_output
    assert not any("a long command" in str(update["content"]) for update in with_output)
