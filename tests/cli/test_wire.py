"""`outrider wire`: the exact request, on standard output and nothing else there."""

from __future__ import annotations

import asyncio
import io
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from outrider import Agent, Attachment, Message, Session, ToolResultBlock, ToolUseBlock, dumps, loads
from outrider.cli.wire import wire
from outrider.coding.config.settings import Settings
from outrider.coding.stored_request import _abbreviated
from outrider.coding.workbench import Workbench
from outrider.conversation.messages import TextBlock
from outrider.providers.api import ApiProvider
from outrider.providers.base import Request, ToolSpec
from outrider.providers.resolution import resolve
from outrider.stores import FolderStore, MemoryStore
from outrider.sync import default_log
from outrider.testing import ScriptedModel
from tests.cli.program import outrider


def png() -> bytes:
    """A picture that is large enough to be abbreviated."""
    output = io.BytesIO()
    Image.frombytes("RGB", (32, 24), random.Random(1).randbytes(32 * 24 * 3)).save(output, "PNG")
    return output.getvalue()


PNG = png()
MODELS = [
    "anthropic/claude-sonnet-4-5",
    "openai/gpt-5.6",
    "openai-chat/gpt-5.6",
    "gemini/gemini-3.8-flash",
    "litellm/anthropic/claude-sonnet-4-5",
    "ollama/llava",
    "http://127.0.0.1:9/v1#qwen2.5-vl",
]
TOOLS = [{"name": "look", "description": "Look at it.", "parameters": {"type": "object", "properties": {"path": {}}}}]
PYTHON_TOOLS = '''
import neighbour
from outrider import tool

print("what a tools file prints")

@tool
def look(path: str) -> str:
    "Look at it."
    return path

@tool(name="see")
async def other(many: list[int], deep: bool = False) -> str:
    """See it.

    Args:
        many: Which ones.
    """
    return ""

def not_a_tool() -> None: ...

again = look
'''


@pytest.fixture
def conversation(tmp_path: Path) -> Path:
    """A question, a call, and its result with a picture, saved with the bytes along."""
    store = MemoryStore()
    picture = store.put(Attachment(PNG, "image/png", name="chart.png"))
    messages = [
        Message.user("Look at chart.png – naïve 🙂"),
        Message.assistant("I'll look.", ToolUseBlock("c1", "look", {"path": "chart.png"})),
        Message.user(ToolResultBlock("c1", (TextBlock("Here it is."), picture))),
    ]
    path = tmp_path / "saved.json"
    path.write_text(dumps(messages, inline=True, store=store), encoding="utf-8")
    return path


def rendered(model: str, conversation: Path, system: str = "", tools: tuple[ToolSpec, ...] = ()) -> Any:
    """What the adapter itself renders."""
    provider = resolve(model)
    assert isinstance(provider, ApiProvider)
    store = MemoryStore()
    return json.loads(provider.render(Request(loads(conversation.read_text(), store=store), store, system, tools)))


@pytest.mark.parametrize("model", MODELS)
def test_the_whole_request_is_what_the_adapter_sends(model: str, conversation: Path) -> None:
    ended = outrider("wire", str(conversation), "--as", model, "--full")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout) == rendered(model, conversation)


@pytest.mark.parametrize("model", MODELS)
def test_files_are_abbreviated_and_the_rest_is_not(model: str, conversation: Path) -> None:
    ended = outrider("wire", str(conversation), "--as", model)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout) == _abbreviated(rendered(model, conversation))
    assert re.search(r"iVBORw0KGgoAAAANSUhEUgAA… \(\d\.\d KiB of base64\)", ended.stdout)
    assert len(ended.stdout) < 6000
    assert "naïve 🙂" in ended.stdout, "text stays readable"


def test_a_conversation_from_standard_input(conversation: Path) -> None:
    ended = outrider("wire", "-", "--as", MODELS[0], "--full", input=conversation.read_bytes())
    assert ended.returncode == 0
    assert json.loads(ended.stdout) == rendered(MODELS[0], conversation)


def test_the_system_prompt_and_tools_from_json(conversation: Path, tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    ended = outrider(
        "wire",
        str(conversation),
        "--as",
        MODELS[1],
        "--system",
        "Be brief.",
        "--tools",
        "tools.json",
        "--full",
        cwd=tmp_path,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    spec = ToolSpec("look", "Look at it.", TOOLS[0]["parameters"])  # type: ignore[arg-type]
    assert json.loads(ended.stdout) == rendered(MODELS[1], conversation, "Be brief.", (spec,))


def test_tools_from_a_python_file_and_its_neighbour(conversation: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PYTHON_TOOLS)
    (tmp_path / "neighbour.py").write_text("")
    (tmp_path / "more.json").write_text('[{"name": "third"}]')
    ended = outrider(
        "wire",
        str(conversation),
        "--as",
        MODELS[0],
        "--tools",
        str(tmp_path / "mine.py"),
        "--tools",
        "more.json",
        cwd=tmp_path,
    )
    assert ended.returncode == 0, ended.stderr
    tools = json.loads(ended.stdout)["tools"]
    assert [tool["name"] for tool in tools] == ["look", "see", "third"]
    assert tools[1]["input_schema"]["properties"]["many"]["description"] == "Which ones."
    assert tools[1]["input_schema"]["required"] == ["many"]
    assert ended.stderr == "what a tools file prints\n", "standard output is for the request alone"


@pytest.mark.parametrize("model", [model for model in MODELS if not model.startswith("litellm")])
def test_the_headers_go_to_standard_error_without_the_key(model: str, conversation: Path) -> None:
    keys = dict.fromkeys(
        ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENAI_COMPATIBLE_API_KEY"), "sk-secret-of-mine"
    )
    ended = outrider("wire", str(conversation), "--as", model, "--headers", **keys)
    assert ended.returncode == 0
    first, *headers = ended.stderr.splitlines()
    assert first.startswith("POST http")
    assert "content-type: application/json" in headers
    assert "secret" not in ended.stderr + ended.stdout
    json.loads(ended.stdout)


def test_for_litellm_the_function_is_named_to_which_the_request_goes(conversation: Path) -> None:
    ended = outrider("wire", str(conversation), "--as", "litellm/anthropic/claude-sonnet-4-5", "--headers")
    assert (ended.returncode, ended.stderr) == (0, "litellm.acompletion\n")


def test_the_base_url_of_the_environment_is_shown_without_its_password(conversation: Path) -> None:
    ended = outrider(
        "wire",
        str(conversation),
        "--as",
        MODELS[0],
        "--headers",
        ANTHROPIC_BASE_URL="https://me:hunter22@proxy.example",
    )
    assert ended.stderr.splitlines()[0] == "POST https://…@proxy.example/v1/messages"


def test_a_history_that_cannot_be_sent_as_it_is_was_put_right_as_before_every_request(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(
        dumps([Message.user("Look"), Message.assistant(ToolUseBlock("c1", "look", {})), Message.user("Well?")])
    )
    ended = outrider("wire", str(tmp_path / "c.json"), "--as", "openai-chat/gpt-5.6")
    roles = [message["role"] for message in json.loads(ended.stdout)["messages"]]
    assert roles == ["user", "assistant", "tool", "user"]


def test_files_are_found_in_the_data_folder_and_nothing_is_written_there(tmp_path: Path, own_data_folder: Path) -> None:
    store = FolderStore(own_data_folder / "attachments")
    kept = store.put(Attachment(PNG, "image/png", name="kept.png"))
    brought = MemoryStore()
    other = brought.put(Attachment(PNG + b"\0", "image/png", name="brought.png"))
    text = json.loads(dumps([Message.user("One", kept)])) + json.loads(
        dumps([Message.user("Two", other)], inline=True, store=brought)
    )
    (tmp_path / "c.json").write_text(json.dumps(text))
    before = sorted(own_data_folder.rglob("*"))
    ended = outrider("wire", str(tmp_path / "c.json"), "--as", MODELS[0])
    assert ended.stdout.count("of base64") == 2
    assert sorted(own_data_folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file"),
        ("", "not valid JSON"),
        ('[{"role": "user"', "not valid JSON"),
        ("\ud800", "not"),
        ('{"role": "user", "content": "Hi"}', "a conversation is a list of messages"),
        ('[{"role": "system", "content": "Hi"}]', "message 1 has the role 'system'"),
        ("[]", "the conversation is empty"),
    ],
)
def test_a_conversation_that_cannot_be_read_is_one_sentence_and_2(
    content: str | None, said: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "c.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    ended = outrider("wire", "c.json", "--as", MODELS[0], cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr
    assert ended.stderr.startswith("outrider wire: ")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("claude", "did you mean 'anthropic/claude-"),
        ("nobody/x", "there is no model 'nobody/x'"),
        ("openai/", "names no model"),
        ("demo", "sends no request"),
    ],
)
def test_a_model_that_nothing_is_sent_to_is_one_sentence_and_2(model: str, said: str, conversation: Path) -> None:
    ended = outrider("wire", str(conversation), "--as", model)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.json", None, "t.json cannot be read: No such file"),
        ("t.py", None, "t.py cannot be read: there is no such file"),
        ("t.json", "[", "t.json is not a list of tools"),
        ("t.json", '{"name": "x"}', "t.json is not a list of tools"),
        ("t.json", '[{"type": "function", "function": {"name": "x"}}]', "t.json is not a list of tools"),
        ("t.json", '[{"name": "no good"}]', "'no good' is not a valid tool name"),
        ("t.json", '[{"name": "x", "parameters": {"type": "string"}}]', 'must have the type "object"'),
        ("t.json", '[{"name": "x", "parameters": {"type": "nonsense"}}]', "the parameters of x"),
        ("t.json", '[{"name": "x"}, {"name": "x"}]', "another tool has the name 'x'"),
        ("t.py", "def f(): ...", "t.py has no tools"),
        ("t.py", "1 / 0", "t.py failed: ZeroDivisionError"),
        ("t.py", "raise SystemExit(0)", "t.py failed: SystemExit"),
        ("t.py", "def (", "t.py failed: SyntaxError"),
    ],
)
def test_tools_that_cannot_be_read_are_one_sentence_and_2(
    name: str, content: str | None, said: str, conversation: Path, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    ended = outrider("wire", str(conversation), "--as", MODELS[0], "--tools", name, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_request_that_no_provider_takes_is_one_sentence_and_1(tmp_path: Path) -> None:
    messages = [Message.user("x" * 9_000_000) for _ in range(2)]
    spread = [each for message in messages for each in (message, Message.assistant("y" * 9_000_000))]
    (tmp_path / "c.json").write_text(dumps(spread))
    ended = outrider("wire", str(tmp_path / "c.json"), "--as", MODELS[0])
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "start a new conversation" in ended.stderr


@pytest.mark.parametrize("arguments", [(), ("c.json",), ("--as", "demo"), ("c.json", "--as", "demo", "--unheard-of")])
def test_wrong_usage_is_2_and_shows_the_usage(arguments: tuple[str, ...]) -> None:
    ended = outrider("wire", *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "usage: outrider wire" in ended.stderr


def test_help_tells_every_option() -> None:
    ended = outrider("wire", "--help")
    assert (ended.returncode, ended.stderr) == (0, "")
    for option in ("--as", "--tools", "--system", "--full", "--headers", "standard input", "exit codes"):
        assert option in ended.stdout


def test_only_what_is_base64_is_abbreviated() -> None:
    prose = "word " * 100
    assert _abbreviated(["short", prose, {"a": 1.5}, None, 2**70]) == ["short", prose, {"a": 1.5}, None, 2**70]
    assert (
        _abbreviated("data:image/png;base64," + "QUJD" * 100)
        == "data:image/png;base64,QUJDQUJDQUJDQUJDQUJDQUJD… (400 bytes of base64)"
    )


def test_a_session_has_its_prompt_and_its_tools(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    bench = Workbench(Settings(tools=("Read", "Grep")), tmp_path)
    with default_log() as log:
        session = bench.open(log, model="demo")
        asyncio.run(session.run("Hello"))
        session.close()
    bench.close()
    assert wire([session.id, "--as", "openai-chat/gpt-5.6"]) == 0
    body = json.loads(capsysbinary.readouterr().out)
    assert [tool["function"]["name"] for tool in body["tools"]] == ["Read", "Grep"]
    assert body["messages"][0]["role"] == "system"
    assert str(tmp_path) in body["messages"][1]["content"]


def told_twice() -> str:
    """A session whose second prompt was sent with another system prompt."""
    with default_log() as log:
        agent = Agent(model=ScriptedModel(["Hello.", "Good day."]), system="Be brief.")
        with Session.open(log, "case-17.b", agent, create=True) as session:
            asyncio.run(session.run("Hello"))
        with Session.open(log, session.id, agent.replace(system="Be polite.")) as session:
            asyncio.run(session.run("Hello again"))
    return session.id


def test_a_turn_of_a_session_is_shown_as_it_was_sent(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    session = told_twice()
    shown = []
    for turn in ("1", "2"):
        assert wire([session, "--turn", turn, "--as", "openai-chat/gpt-5.6"]) == 0
        shown.append(json.loads(capsysbinary.readouterr().out)["messages"])
    assert [len(messages) for messages in shown] == [2, 4]
    assert [messages[0]["content"] for messages in shown] == ["Be brief.", "Be polite."]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--turn", "3", "--as", "anthropic/fast"], "there is no turn 3: the session has 2 replies"),
        (["--turn", "1"], "there is no model 'scripted'"),
    ],
)
def test_a_turn_that_is_not_there_is_2(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert wire([told_twice(), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_turn_is_that_of_a_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "saved.json"
    saved.write_text("[]")
    assert wire([str(saved), "--turn", "1"]) == 2
    assert "--turn is for sessions" in capsys.readouterr().err
