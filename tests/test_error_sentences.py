"""Every error class, raised as a user would: the message names the cause and the fix."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outrider import (
    Agent,
    Allow,
    Attachment,
    Hooks,
    Limits,
    Log,
    Session,
    ToolContext,
    Usage,
    ask,
    dumps,
    errors,
    loads,
    run,
    spawn,
    think,
    tool,
)
from outrider.batches import BatchLimits, batch
from outrider.coding.config.loading import load
from outrider.coding.consent.item import Consents
from outrider.coding.hands.requests import MoveRunning
from outrider.coding.hands.starter import ProgramStarter
from outrider.coding.mcp.server_files import find_servers
from outrider.coding.snapshots.folder import FolderSnapshots
from outrider.conversation.messages import Message
from outrider.errors import OutriderError
from outrider.hooks import HookResult
from outrider.log.entries import SessionRecovered
from outrider.mcp.client import Client
from outrider.mcp.oauth import OAuth
from outrider.mcp.servers import HttpServer, StdioServer
from outrider.mcp.tokens import TokenStore
from outrider.providers.adapters.anthropic import Anthropic
from outrider.providers.adapters.ollama import Ollama
from outrider.providers.adapters.openai_chat import OpenAIChat
from outrider.providers.adapters.openai_responses import OpenAIResponses
from outrider.providers.base import Reply
from outrider.runtime.budget import Budget
from outrider.runtime.retry import Retry
from outrider.stores import FolderStore
from outrider.testing import Cut, Delay, ScriptedModel, call, replay
from tests.cli.program import outrider
from tests.coding.hands.elsewhere import hands_of
from tests.coding.hands.test_protocol import HostileStarter
from tests.mcp.login_server import login_server
from tests.modelserver import Broken, ModelServer, Page, Status, Step
from tests.postgres import own_server, worker_role
from tests.streams import Answer

KEY = "sk-ant-api03-secret0123456789"
HELD = """
import sys
from outrider import Log, Session
with Session.open(Log(sys.argv[1]), sys.argv[2]):
    print("open", flush=True)
    sys.stdin.read()
"""
Provocation = Callable[[Path], object]


class Case(msgspec.Struct, frozen=True):
    """Something that a user does wrong, or that happens to them."""

    kind: type[OutriderError]
    provoke: Provocation
    culprit: str
    """A pattern: what the sentence says is wrong."""
    way_out: str
    """A pattern: what it says can be done."""


CASES: list[Case] = []


def provokes(kind: type[OutriderError], *, culprit: str, way_out: str) -> Callable[[Provocation], Provocation]:
    def add(provoke: Provocation) -> Provocation:
        CASES.append(Case(kind, provoke, culprit, way_out))
        return provoke

    return add


# Scripts that are wrong


@provokes(errors.OutriderError, culprit="has started 1 sub-agents", way_out=r"limits\.max_subagents")
def a_tool_sends_out_more_sub_agents_than_it_may(where: Path) -> object:
    failures: list[OutriderError] = []

    async def crowd(context: ToolContext) -> str:
        "Send out two."
        try:
            for _ in range(2):
                (await spawn(context, Agent(model="demo"))).close()
        except OutriderError as error:
            failures.append(error)
        return "done"

    run("Go.", tools=[crowd], limits=Limits(max_subagents=1), model=ScriptedModel([call("crowd"), "Done."]))
    raise failures[0]


@provokes(errors.ConversationError, culprit="message 2 has the role 'tool'", way_out="user message as a tool_result")
def a_conversation_has_the_roles_of_another_api(where: Path) -> object:
    return run([{"role": "user", "content": "Hi"}, {"role": "tool", "content": "4"}], model="demo")


@provokes(errors.ConversationError, culprit="not valid JSON.* line 1 column", way_out="Expecting value")
def a_saved_conversation_is_cut_off(where: Path) -> object:
    return loads(dumps([{"role": "user", "content": "Hi"}])[:9])


@provokes(errors.ConversationError, culprit="list of messages, not dict", way_out=r"put messages into \[…\]")
def a_saved_conversation_is_a_single_message(where: Path) -> object:
    return loads('{"role": "user", "content": "Hi"}')


@provokes(errors.ConversationError, culprit="list of messages, not str", way_out=r"outrider\.loads")
def a_saved_conversation_is_not_read_but_passed_on(where: Path) -> object:
    return think("And now?", conversation=dumps([]), model="demo")  # type: ignore[arg-type]


@provokes(errors.SchemaError, culprit='"strnig" is not a type', way_out="array, boolean, integer, null")
def a_schema_has_a_misspelt_type(where: Path) -> object:
    schema = {"type": "object", "properties": {"name": {"type": "strnig"}}}
    return ask("Who?", output=schema, model="demo")


@provokes(errors.SchemaError, culprit=r"not followed: https://example\.com/a\.json", way_out=r"under \$defs")
def a_schema_refers_to_the_web(where: Path) -> object:
    return ask("Who?", output={"$ref": "https://example.com/a.json"}, model="demo")


@provokes(errors.SchemaError, culprit=r"socket\.socket cannot be represented in JSON", way_out="use a type that can")
def a_type_has_no_form_in_json(where: Path) -> object:
    import socket

    return ask("Who?", output=socket.socket, model="demo")


@provokes(errors.ValidationError, culprit='count: "three" is not of type', way_out='"integer"')
def arguments_do_not_fit(where: Path) -> None:
    @tool
    def buy(count: int) -> str:
        "Buy some."
        return str(count)

    buy.check({"count": "three"})


@provokes(errors.ToolDefinitionError, culprit="parameter 'path' of read has no annotation", way_out="`path: str`")
def a_function_has_no_annotations(where: Path) -> object:
    def read(path):  # type: ignore[no-untyped-def]
        "Read."

    return run("Read it.", tools=[read], model="demo")


@provokes(errors.ToolDefinitionError, culprit="'read file' is not a valid tool name", way_out=r"@tool\(name=")
def a_tool_has_a_name_that_no_model_takes(where: Path) -> object:
    return tool(name="read file")(lambda: "")


@provokes(errors.ToolDefinitionError, culprit="tools must be a list", way_out=r"write tools=\[")
def a_tool_stands_where_a_list_should(where: Path) -> object:
    return run("Read it.", tools=print, model="demo")  # type: ignore[call-overload]


@provokes(errors.AttachmentError, culprit=r"/notes/gone\.png cannot be read", way_out="No such file")
def a_file_is_not_there(where: Path) -> object:
    return think([Attachment.from_path(where / "notes" / "gone.png")], model="demo")


@provokes(errors.AttachmentError, culprit=r"big\.txt has 11 bytes", way_out=r"limit is 10 bytes \(limits\.attachment_b")
def a_file_is_too_large(where: Path) -> object:
    agent = Agent(model="demo", limits=Limits(attachment_bytes=10))
    return asyncio.run(Session(agent).think([Attachment(b"hello world", name="big.txt")]))


@provokes(errors.AttachmentError, culprit=r"a\.png is labelled image/png but is application/pdf", way_out="its type")
def a_file_is_not_what_its_label_says(where: Path) -> object:
    return FolderStore(where).put(Attachment(b"%PDF-1.7", "image/png", name="a.png"))


@provokes(errors.UnknownModelError, culprit="no model 'gpt-oss:20b'", way_out="did you mean 'ollama/gpt-oss:20b'")
def a_model_has_no_provider(where: Path) -> object:
    return think("Hello", model="gpt-oss:20b")


@provokes(errors.UnknownModelError, culprit="'anthropic' names no model", way_out="as in 'anthropic/claude-")
def a_provider_has_no_model(where: Path) -> object:
    return think("Hello", model="anthropic")


@provokes(
    errors.ConfigError, culprit=r"\.outrider/config\.toml, line 2: .*\"limits\.turn\"", way_out="limits.max_turns"
)
def a_setting_is_misspelt(where: Path) -> object:
    (where / ".outrider").mkdir()
    (where / ".outrider" / "config.toml").write_text("[limits]\nturn = 5\n")
    return load(where, environment=os.environ)


@provokes(errors.RunError, culprit=r"without an answer \(max_turns\)", way_out=r"Limits\(max_turns=…\).*`result`")
def an_agent_runs_out_of_turns(where: Path) -> object:
    return ask("Go on.", limits=Limits(max_turns=1), model=ScriptedModel([call("look")]))


@provokes(errors.RunError, culprit="without an answer.*overloaded", way_out="try again later")
def an_agent_is_asked_and_its_model_fails(where: Path) -> object:
    return ask("Go on.", model=ScriptedModel([errors.ProviderError("overloaded; try again later")]))


@provokes(errors.BudgetError, culprit=r"budget of \$1 is used up", way_out="the same name and a larger budget")
def a_batch_costs_more_than_its_budget(where: Path) -> object:
    reply = Reply(Message.assistant("Done."), usage=Usage(cost=2.0))

    async def collect() -> object:
        with Log(where) as log:
            agent = Agent(ScriptedModel([reply]))
            running = batch(agent, ["Go on.", "Go on."], log=log, workers=1, limits=BatchLimits(budget=1))
            return [result async for result in running]

    return asyncio.run(collect())


# Sessions


@provokes(errors.SessionBusyError, culprit="still at work", way_out=r"wait for it, or cancel\(\)")
def a_session_is_asked_for_two_things_at_once(where: Path) -> object:
    async def twice() -> None:
        session = Session(Agent(model=ScriptedModel([Delay(60, "At last.")])))
        running = asyncio.create_task(session.run("One."))
        await asyncio.sleep(0)
        try:
            await session.run("Two.")
        finally:
            session.cancel()
            await running

    return asyncio.run(twice())


@provokes(errors.BudgetError, culprit=r"today's budget is used up: \$2\.00 of \$1\.00", way_out=r"raise budget\.day")
def a_day_costs_more_than_its_budget(where: Path) -> object:
    model = ScriptedModel([Reply(Message.assistant("Done."), usage=Usage(cost=2.0))])
    with Log(where) as log, Session.open(log, agent=Agent(model, budget=Budget(day=1.0))) as session:
        asyncio.run(session.run("Go on."))
        return asyncio.run(session.think("Go on."))


@provokes(errors.HandsError, culprit="/no/such/program cannot be started", way_out="check the place")
def a_place_that_cannot_be_reached(where: Path) -> object:
    return hands_of(ProgramStarter(["/no/such/program"], "the moon")).open()


@provokes(errors.HandsLostError, culprit="the hands in a hostile host was lost", way_out="check before")
def hands_that_end_while_a_call_runs(where: Path) -> object:
    hands = hands_of(HostileStarter(lambda _: [b"\xff\xff\xff\xff"]))
    try:
        return hands.connection.ask_now(MoveRunning(), type(None), repeats=False)
    finally:
        hands.close()


@provokes(errors.HookBlockedError, culprit=r"a hook blocked the prompt \(not today\)", way_out="change the prompt")
def a_hook_refuses_a_prompt(where: Path) -> object:
    async def refuse(_: object) -> HookResult:
        return HookResult(block="not today")

    return asyncio.run(Session(Agent("demo", hooks=Hooks(prompt_submitted=refuse))).think("Hello"))


@provokes(errors.AnsweredError, culprit="nobody asks the question 'q7' any more", way_out=r"log\.questions")
def a_question_that_nobody_asks_is_answered(where: Path) -> object:
    with Log(where) as log:
        return log.answer("q7", Allow())


@provokes(errors.SessionCancelledError, culprit="was cancelled", way_out="ask it again")
def a_session_is_cancelled_while_it_thinks(where: Path) -> object:
    async def cancelled() -> None:
        session = Session(Agent(model=ScriptedModel([Delay(60, "At last.")])))
        thinking = asyncio.create_task(session.think("One."))
        await asyncio.sleep(0)
        session.cancel()
        await thinking

    return asyncio.run(cancelled())


@provokes(errors.RewindConflictError, culprit="notes.txt", way_out="rewind with force to overwrite")
def a_file_was_changed_by_hand_before_a_rewind(where: Path) -> object:
    @tool
    def write() -> None:
        """Write the notes."""
        (where / "work/notes.txt").write_text("by the agent")

    async def rewound() -> None:
        (where / "work").mkdir()
        agent = Agent(ScriptedModel([call("write"), "Done."]), tools=[write])
        with Log(where / "log") as log:
            async with Session.open(log, agent=agent) as session:
                session.use_folder(FolderSnapshots(where / "work", log, session.id))
                await session.run("Write.")
                (where / "work/notes.txt").write_text("by hand")
                await session.rewind(1)

    return asyncio.run(rewound())


# The log


def stored(where: Path) -> tuple[Log, str]:
    """A log with a session in it, which nobody has open."""
    log = Log(where / "log")
    with Session.open(log, agent=Agent(model="demo")) as session:
        asyncio.run(session.run("What is 2+2?"))
    log.close()
    return log, session.id


def change(log: Log, statement: str) -> None:
    with closing(sqlite3.connect(log.folder / "log.db")) as connection, connection:
        connection.execute(statement)


@provokes(errors.LogError, culprit=r"/log\.db cannot be written: Not a directory", way_out="check its folder")
def a_log_is_put_where_a_file_is(where: Path) -> object:
    (where / "file").write_text("")
    return Session.open(Log(where / "file"), agent=Agent(model="demo")).now()


@provokes(errors.LogError, culprit="session was closed", way_out="open it again")
def a_closed_session_is_used(where: Path) -> object:
    with Session.open(Log(where), agent=Agent(model="demo")) as session:
        pass
    return asyncio.run(session.think("Hello"))


@provokes(errors.LogError, culprit="cannot be replayed: a part of it was lost", way_out="sessions show .* shows it")
def a_damaged_session_is_replayed(where: Path) -> object:
    journal = Log(where).create()
    journal.write_now(SessionRecovered((3,), 1))
    journal.close()
    return asyncio.run(replay(Log(where), journal.id))


@provokes(errors.UnknownSessionError, culprit="no session 'nonsense'", way_out="`outrider sessions` lists them")
def a_session_is_not_in_the_log(where: Path) -> object:
    return Session.open(stored(where)[0], "nonsense").now()


@provokes(
    errors.SessionHeldError, culprit=r"is open elsewhere: .*process \d+", way_out=r"Close it there.* sessions fork \w+`"
)
def two_processes_want_one_session(where: Path) -> object:
    log, session = stored(where)
    other = [sys.executable, "-c", HELD, str(log.folder), session]
    with subprocess.Popen(other, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(errors.SessionHeldError, match=f"process {holder.pid} ") as raised:
            Session.open(log, session).now()
    raise raised.value


@provokes(errors.SessionLostError, culprit="taken over by another process", way_out="open it again")
def another_machine_takes_a_session_over(where: Path) -> object:
    log, name = stored(where)
    with Session.open(log, name) as session:
        change(log, "UPDATE session SET fence = fence + 1")  # what it writes when it takes one over
        return asyncio.run(session.think("Still here?"))


@provokes(errors.NewerLogError, culprit=r"log\.db was written by a newer version", way_out="upgrade Outrider")
def a_log_comes_from_a_newer_version(where: Path) -> object:
    log, _ = stored(where)
    change(log, "PRAGMA user_version = 99")
    return log.sessions()


@provokes(errors.LogDeniedError, culprit="permission denied for table", way_out="the rights that docs/scale.md lists")
def a_role_lacks_a_right(where: Path) -> object:
    with own_server() as server, Log(server.url()) as log:
        log.create(id="a").close()
        with worker_role(server.url(), batches=False) as restricted, Log(restricted) as theirs:
            return theirs.delete("a")


@provokes(errors.DamagedLogError, culprit=r"log\.db is damaged", way_out="`outrider sessions recover`")
def a_log_is_overwritten(where: Path) -> object:
    log, _ = stored(where)
    (log.folder / "log.db").write_bytes(b"something else entirely " * 400)
    return log.sessions()


@provokes(errors.DamagedLogError, culprit="entry 1 .* missing or damaged", way_out="`outrider sessions recover`")
def an_entry_is_changed_on_disk(where: Path) -> object:
    log, session = stored(where)
    change(log, "UPDATE event SET body = replace(body, '2+2', '3+3')")
    return log.messages(session)


# Models


def asked(model: Callable[..., Any], *steps: Step, path: str = "", retry: float = 0) -> object:
    """A model behind a server that answers so."""

    async def ask_it() -> object:
        async with ModelServer(steps) as server:
            return await ask_at(f"{server.url}{path}")

    def ask_at(url: str) -> Coroutine[Any, Any, object]:
        return Session(Agent(model("m", base_url=url, api_key=KEY), retry=Retry(seconds=retry))).think("Hello")

    return asyncio.run(ask_it())


@provokes(errors.ProviderError, culprit="has 1 steps, and this is request 2", way_out="add one")
def a_script_is_too_short(where: Path) -> object:
    model = ScriptedModel(["Hello."])
    think("Hello", model=model)
    return think("Hello again", model=model)


@provokes(errors.ProviderError, culprit="a step is text, blocks, .* not int", way_out="a message or an error")
def a_script_has_a_step_that_is_none(where: Path) -> object:
    return think("Hello", model=ScriptedModel([3]))  # type: ignore[list-item]


@provokes(errors.ProviderError, culprit="OpenAI responded with a web page", way_out="check the URL and proxies")
def a_proxy_wants_a_login(where: Path) -> object:
    return asked(OpenAIResponses, Page())


@provokes(errors.MissingKeyError, culprit="no key for Anthropic", way_out="set ANTHROPIC_API_KEY")
def a_model_needs_a_key(where: Path) -> object:
    return think("Hello", model="anthropic/fast")


@provokes(errors.AuthenticationError, culprit=r"Anthropic does not accept the key", way_out="check ANTHROPIC_API_KEY")
def a_key_is_wrong(where: Path) -> object:
    body = f'{{"error": {{"message": "invalid x-api-key: {KEY}"}}}}'.encode()
    return asked(Anthropic, Status(401, body=body))


@provokes(errors.RequestRefusedError, culprit=r"OpenAI Chat does not know m \(no luck\)", way_out="check its name")
def a_model_is_not_known_to_its_provider(where: Path) -> object:
    return asked(OpenAIChat, Status(404), path="/v1")


@provokes(errors.RequestRefusedError, culprit="Anthropic refused the request: no luck", way_out="`outrider wire`")
def a_request_is_refused(where: Path) -> object:
    return asked(Anthropic, Status(400, {"request-id": "req_7"}))


@provokes(errors.ContextExceededError, culprit="210000 tokens > 200000 maximum", way_out="send less at once")
def a_conversation_is_too_long(where: Path) -> object:
    body = b'{"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}'
    return asked(Anthropic, Status(400, body=body))


@provokes(
    errors.ContextExceededError, culprit="prompt is too long: 9 tokens > 8 maximum", way_out="a larger context window"
)
def a_prompt_is_longer_than_the_window(where: Path) -> object:
    return asked(Anthropic, Status(400, body=b'{"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}'))


@provokes(
    errors.RateLimitedError, culprit="Anthropic received too many requests", way_out="tried 2 times, try again in 120 s"
)
def there_are_too_many_requests(where: Path) -> object:
    return asked(Anthropic, Status(429, {"retry-after": "0"}), Status(429, {"retry-after": "120"}), retry=60)


@provokes(errors.RateLimitedError, culprit="no quota left with OpenAI", way_out="check the plan and its billing")
def there_is_no_quota(where: Path) -> object:
    return asked(OpenAIResponses, Status(429, body=b'{"error": {"code": "insufficient_quota", "message": "pay"}}'))


@provokes(errors.UnavailableError, culprit=r"Anthropic is not available: 503", way_out="try again later")
def a_provider_is_down(where: Path) -> object:
    return asked(Anthropic, Status(503))


@provokes(
    errors.UnavailableError, culprit=r"127\.0\.0\.1:9 cannot be reached: Connection refused", way_out="check the addr"
)
def nobody_listens(where: Path) -> object:
    agent = Agent(Anthropic("m", base_url="http://127.0.0.1:9", api_key=KEY), retry=Retry(seconds=0))
    return asyncio.run(agent.session().think("Hello"))


@provokes(errors.UnavailableError, culprit=r"127\.0\.0\.1:9 cannot be reached", way_out="`ollama serve`.*OLLAMA_HOST")
def ollama_does_not_run(where: Path) -> object:
    agent = Agent(Ollama("m", base_url="http://127.0.0.1:9"), retry=Retry(seconds=0))
    return asyncio.run(agent.session().think("Hello"))


@provokes(
    errors.IncompleteStreamError, culprit="reply of Anthropic ended before it was complete", way_out="try again later"
)
def a_reply_ends_in_the_middle(where: Path) -> object:
    return asked(Anthropic, Broken(Answer("Hello"), "first delta", "end"))


@provokes(errors.IncompleteStreamError, culprit=r"response of 127\.0\.0\.1:\d+ was cut off", way_out="try again later")
def a_connection_breaks(where: Path) -> object:
    return asked(Anthropic, Broken(Answer("Hello"), "first delta", "reset"))


@provokes(
    errors.IncompleteStreamError, culprit="reply of scripted ended before it was complete", way_out="try again later"
)
def a_model_of_ones_own_breaks_off(where: Path) -> object:
    agent = Agent(ScriptedModel([Cut("Hel")]), retry=Retry(seconds=0))
    return asyncio.run(agent.session().think("Hello"))


# Servers


def connect(*argv: str, startup_timeout: float = 60) -> object:
    async def both() -> None:
        client = Client(StdioServer("files", *argv[:1], argv[1:], env={"KEY": KEY}, startup_timeout=startup_timeout))
        try:
            await client.connect()
        finally:
            await client.close()

    return asyncio.run(both())


@provokes(errors.McpError, culprit="server files cannot start: the program 'no-such-program'", way_out="Install it, or")
def a_server_is_not_installed(where: Path) -> object:
    return connect("no-such-program")


@provokes(errors.McpClosedError, culprit=r"server files ended \(exit code 0\)", way_out="Run its command in a terminal")
def a_server_ends_at_once(where: Path) -> object:
    return connect("true")


@provokes(errors.McpClosedError, culprit=r"server files ended \(exit code 3\)", way_out="It said: the key … is wrong")
def a_server_says_why_it_ends(where: Path) -> object:
    return connect("sh", "-c", 'echo "the key $KEY is wrong" >&2; exit 3')


@provokes(errors.McpTimeoutError, culprit="server files did not answer initialize", way_out="set its startup_timeout")
def a_server_does_not_answer(where: Path) -> object:
    return connect("sleep", "600", startup_timeout=0.2)


@provokes(errors.McpLoginError, culprit="server files", way_out="Log in with `outrider mcp login files`")
def a_server_wants_a_login(where: Path) -> object:
    async def both() -> None:
        async with login_server() as server:
            description = HttpServer("files", f"{server.address}/mcp")
            client = Client(description, authorization=OAuth(description, TokenStore(where)))
            try:
                await client.connect()
            finally:
                await client.close()

    return asyncio.run(both())


@provokes(errors.McpRefusedError, culprit="MCP server files", way_out="outrider trust")
def a_server_is_not_what_the_user_agreed_to(where: Path) -> object:
    (where / "server.py").write_text("1")
    (where / ".mcp.json").write_text('{"mcpServers": {"files": {"command": "python3", "args": ["server.py"]}}}')
    Consents(where / "data").give(find_servers(where, {"OUTRIDER_HOME": str(where / "data")}).waiting)
    (server,) = find_servers(where, {"OUTRIDER_HOME": str(where / "data")}).servers
    (where / "server.py").write_text("2")

    async def start() -> None:
        client = Client(server)
        try:
            await client.connect()
        finally:
            await client.close()

    return asyncio.run(start())


# The tests


@pytest.mark.parametrize("case", CASES, ids=[f"{case.kind.__name__}-{case.provoke.__name__}" for case in CASES])
def test_an_error_names_the_culprit_and_the_way_out(case: Case, tmp_path: Path) -> None:
    with pytest.raises(OutriderError) as raised:
        case.provoke(tmp_path)
    sentence = str(raised.value)
    assert type(raised.value) is case.kind, sentence
    assert re.search(case.culprit, sentence)
    assert re.search(case.way_out, sentence)
    assert KEY not in sentence
    internal = r"Traceback|<\w+[ .]|object at 0x|\w(Error|Exception)\(|outrider\.\w+\.|\bNone\b|\(\)'|\n"
    assert not re.search(internal, sentence), sentence


def test_every_error_class_is_provoked_above() -> None:
    known = {kind for kind in vars(errors).values() if isinstance(kind, type) and kind.__module__ == errors.__name__}
    assert known == {case.kind for case in CASES}


def test_a_damaged_log_of_ones_own_is_recovered_as_its_sentence_says(tmp_path: Path) -> None:
    log, session = stored(tmp_path)
    change(log, "UPDATE event SET body = replace(body, '2+2', '3+3') WHERE seq = 3")
    ended = outrider("sessions", "recover", str(log.folder))
    assert ended.returncode == 0, ended.stderr
    assert "lost 1 of its entries" in ended.stdout
    assert log.messages(session)[-1].text == "4"
