"""What scripts need of `outrider -p`: schemas from pipes, rules and prompts by flag, mentions, exit codes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from outrider.cli.prompt_output import PromptOutcome
from tests.cli.asking import ask, everywhere, in_shell
from tests.cli.program import outrider
from tests.modelserver import ModelServer
from tests.streams import Answer

REPORT = Answer('{"n": 4}')


@pytest.mark.long
async def test_a_schema_may_come_from_a_pipe() -> None:
    async with ModelServer([REPORT]) as server:
        script = "outrider -p 'What is 2+2?' --schema <(echo '{\"type\": \"array\"') 2>&1"
        assert b"is not JSON" in in_shell(script, **everywhere(server)).stdout
        script = "outrider -p 'What is 2+2?' --schema <(echo '3') 2>&1"
        assert b"is not a JSON Schema" in in_shell(script, **everywhere(server)).stdout
        script = "outrider -p 'What is 2+2?' --schema <(true) 2>&1"
        assert in_shell(script, **everywhere(server)).returncode == 2
        schema = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'
        script = f"outrider -p 'What is 2+2?' --schema <(sleep 0.3; echo '{schema}')"
        ended = await asyncio.to_thread(in_shell, script, **everywhere(server))
        assert (ended.returncode, ended.stdout) == (0, b'{"n":4}\n'), ended.stderr


def test_a_home_that_cannot_be_written_names_the_variable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = outrider("-p", "Hi", "--model", "demo", OUTRIDER_HOME=str(tmp_path / "file"))
    assert ended.returncode == 1
    assert "set OUTRIDER_HOME to a folder that you may write to" in ended.stderr


async def test_a_mentioned_file_is_attached_and_an_at_in_piped_input_is_not(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("print('the main file')")
    (tmp_path / "secret.txt").write_text("the secret")
    async with ModelServer([Answer("Seen.")] * 2) as server:
        await ask(server, "-p", "see @main.py", cwd=tmp_path, input=b"look at @secret.txt")
        body = server.requests[0].body
        assert b"the main file" in body
        assert b"look at @secret.txt" in body
        assert b"the secret" not in body
        ended = await ask(server, "-p", "see @missing.py", cwd=tmp_path)
    assert (ended.returncode, "no file missing.py" in ended.stderr) == (0, True)


async def test_a_rule_allows_calls_for_one_run(tmp_path: Path) -> None:
    steps = [Answer("", (("c1", "Bash", {"command": "touch made"}),)), Answer("Done.")]
    for flags, made in (((), False), (("--allow", "Bash(touch:*)"), True)):
        async with ModelServer([*steps]) as server:
            await ask(server, "-p", "Make it.", *flags, cwd=tmp_path)
        assert (tmp_path / "made").exists() is made
    ended = outrider("-p", "Hi", "--model", "demo", "--allow", "Bash(")
    assert (ended.returncode, "--allow" in ended.stderr) == (2, True)


async def test_the_system_prompt_is_replaced_or_extended(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    async with ModelServer([Answer("Yes.")] * 2) as server:
        await ask(server, "-p", "Hi", "--system-prompt", "You are a poet.", cwd=tmp_path)
        await ask(server, "-p", "Hi", "--append-system-prompt", "Rhyme.", cwd=tmp_path)
    replaced, extended = ("\n".join(block["text"] for block in each.json["system"]) for each in server.requests)
    assert replaced.startswith("You are a poet.")
    assert "Use tabs." in replaced
    assert "Rhyme." in extended
    assert extended.index("Use tabs.") < extended.index("Rhyme.")
    assert len(extended) > len(replaced) + 500


@pytest.mark.parametrize(
    ("reason", "code"), [("end", 0), ("refusal", 4), ("content_filter", 4), ("max_tokens", 5), ("context_exceeded", 5)]
)
def test_exit_codes_tell_a_refusal_and_a_cut_off_answer_from_a_whole_one(reason: str, code: int) -> None:
    assert PromptOutcome("done", stop_reason=reason).exit_code == code
    assert PromptOutcome("done", stop_reason=reason, has_schema=True, has_data=True).exit_code == 0
    assert PromptOutcome("error", stop_reason=reason).exit_code == 1
