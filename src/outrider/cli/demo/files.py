"""The second story: a picture and a PDF from a tool, and in which form each API gets them."""

from __future__ import annotations

import asyncio
import json
import re
from base64 import b64encode
from pathlib import Path

from outrider.cli.demo.apis import APIS, LOCAL, Json, body_for, parts_of, results_of
from outrider.cli.demo.sample import read_file
from outrider.cli.demo.stage import Stage
from outrider.conversation.codec import from_json, to_json
from outrider.log.log import Log
from outrider.runtime.agent import Agent
from outrider.runtime.run import RunResult
from outrider.runtime.session import Session
from outrider.text import human_size

PROMPT = "Look at chart.png and report.pdf."
FILES = ("chart.png", "report.pdf")
_FILE_PARTS = ("image", "document", "input_image", "input_file", "image_url", "file", "inlineData")


def picture_from_a_tool(stage: Stage) -> str:
    """Two files, four APIs and a small model, and a history without bytes."""
    stage.about("each API gets the files in the form it takes")
    with Log(stage.folder) as log:
        agent = Agent(model=stage.model, tools=[read_file])
        with Session.open(log, agent=agent, cwd=stage.sample, observer=stage.screen.show) as session:
            stage.screen.question(PROMPT)
            stage.check(_promises(asyncio.run(session.run(PROMPT))))
            stage.rest()
            _show_forms(stage, session)
            _show_history(stage, session)
    return "A picture and a PDF reach every model in some form; the history has no bytes."


def _promises(ended: RunResult) -> dict[str, bool]:
    results = [block for message in ended.conversation for block in message.tool_results]
    kinds = [file.mime_type for block in results for file in block.attachments]
    return {
        f"the run ended as {ended.status!r}, not 'done'": ended.status == "done",
        f"a picture and a PDF were to come back, not {kinds}": kinds == ["image/png", "application/pdf"],
        "the answer does not speak of the picture": "640 × 400" in ended.text,
    }


def _show_forms(stage: Stage, session: Session) -> None:
    stage.say("", "The same conversation, as it would be sent to each of them:")
    stage.say("", f"  {'':<20} {FILES[0]:<28} {FILES[1]}")
    for api in (*APIS, LOCAL):
        body = body_for(api, session)
        forms = [form_of(body, stage.sample / name) for name in FILES]
        stage.say(f"  {api.name:<20} {forms[0]:<28} {forms[1]}")
        stage.check({f"{api.name} gets nothing of {name}": bool(form) for name, form in zip(FILES, forms, strict=True)})
        if api is not LOCAL:
            stage.check({f"{api.name} does not get the files themselves": all(map(_is_file, forms))})
    stage.say("", "  moved: into a user message after all results, labelled with its call.")


def form_of(body: Json, file: Path) -> str:
    """How a request carries a file, in a few words; empty if it does not."""
    encoded = b64encode(file.read_bytes()).decode()
    within = any(encoded in json.dumps(result) for result in results_of(body))
    for part in parts_of(body):
        kind = part.get("type") or next(iter(part), "")
        if kind in _FILE_PARTS and encoded in json.dumps(part):
            return f"{kind}, in the result" if within else f"{kind}, moved"
    said = json.dumps(body)
    if f"Text of {file.name}:" in said:
        return "converted to text"
    noted = re.search(rf"\[{re.escape(file.name)} \([^)]*\) cannot be shown: ", said)
    return "a note: it sees no pictures" if noted else ""


def _is_file(form: str) -> bool:
    return form.partition(",")[0] in _FILE_PARTS


def _show_history(stage: Stage, session: Session) -> None:
    saved = to_json(session.messages)
    reference = next(part for part in parts_of(json.loads(saved)) if part.get("type") == "attachment")
    stage.say("", f"In the history, {human_size(len(saved.encode()))} of JSON, a file is no more than this:")
    stage.show("  ", reference)
    stored = b"".join(path.read_bytes() for path in stage.folder.glob("*.db*"))
    stage.check(
        {
            "there is no history on disk": bool(stored),
            "the bytes of a file stand in the history": not any(
                _has_bytes(saved.encode(), stage.sample / name) or _has_bytes(stored, stage.sample / name)
                for name in FILES
            ),
            "the conversation does not read back equal": from_json(saved, session.store) == session.messages,
        }
    )


def _has_bytes(stored: bytes, file: Path) -> bool:
    data = file.read_bytes()
    return data[:64] in stored or b64encode(data)[:64] in stored
