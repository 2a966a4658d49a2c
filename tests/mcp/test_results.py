"""Content of servers as text and attachments."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from outrider.mcp.protocol import CallToolResult, GetPromptResult
from outrider.mcp.results import MOST_FILES, prompt_content, tool_result
from outrider.tools.result import ToolResult
from tests.mcp.starting import Pool, scripted

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PICTURE = base64.b64decode(PNG)


def result_of(**fields: Any) -> ToolResult:
    return tool_result(msgspec.json.decode(msgspec.json.encode(fields), type=CallToolResult), "shot")


def image(mime_type: str = "image/png", data: str = PNG) -> dict[str, Any]:
    return {"type": "image", "data": data, "mimeType": mime_type}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


async def test_each_kind_of_content_reaches_the_model() -> None:
    async with Pool(scripted()) as pool:
        shot = await pool.call("mcp__scripted__picture")
        links = await pool.call("mcp__scripted__links")
        failed = await pool.call("mcp__scripted__fail")
        await pool.call("mcp__scripted__progress")
    assert (shot.text, [(file.source, file.mime_type, file.name) for file in shot.attachments]) == (
        "A picture:",
        [(PICTURE, "image/png", "picture-1.png")],
    )
    assert links.text.splitlines() == [
        "[resource file:///a.txt a.txt (text/plain)]",
        "[memo://1]",
        "inside",
        "[A part of the result has a type that is not supported: hologram]",
    ]
    assert [(file.source, file.name, file.description) for file in links.attachments] == [
        (PICTURE, "p.png", "memo://p.png")
    ]
    assert (failed.text, failed.is_error) == ("it broke", True)
    assert pool.progress == ["step 1 (1/3)", "step 2 (2/3)", "step 3 (3/3)"]


def test_structured_content_replaces_the_text() -> None:
    both = result_of(content=[text('{ "sum": 3 }')], structuredContent={"sum": 3})
    assert (both.text, both.is_json) == ('{"sum":3}', True)


def test_text_is_kept_where_structured_content_only_wraps_it() -> None:
    wrapped = result_of(content=[text('say "hi"')], structuredContent={"result": 'say "hi"'})
    assert (wrapped.text, wrapped.is_json) == ('say "hi"', False)
    assert result_of(content=[text("3")], structuredContent={"result": 3}).text == "3"
    assert result_of(content=[text("[1,2]")], structuredContent={"result": [1, 2]}).text == "[1,2]"
    assert result_of(content=[text("three")], structuredContent={"result": 3}).text == '{"result":3}'


def test_an_error_keeps_its_text() -> None:
    failed = result_of(content=[text("no such row")], structuredContent={"code": 4}, isError=True)
    assert (failed.text, failed.is_error) == ("no such row", True)


def test_links_stay_with_structured_content() -> None:
    link = {"type": "resource_link", "uri": "file:///rows.csv", "name": "rows.csv"}
    both = result_of(content=[text('{"rows": 9}'), link], structuredContent={"rows": 9})
    data, said = both.text.split("\n", 1)
    assert data == '{"rows":9}'
    assert "file:///rows.csv" in said
    assert not both.is_json
    resource = {"type": "resource", "resource": {"uri": "file:///a.py", "text": "x = 1"}}
    assert "x = 1" in result_of(content=[resource], structuredContent={"path": "a.py"}).text


def test_files_stay_with_structured_content() -> None:
    both = result_of(content=[image()], structuredContent={"page": 1})
    assert both.text == '{"page":1}'
    assert len(both.attachments) == 1


def test_a_wrong_type_is_corrected_from_the_content() -> None:
    assert result_of(content=[image("image/jpeg")]).attachments[0].mime_type == ""
    assert result_of(content=[image("nonsense")]).attachments[0].mime_type == ""
    assert result_of(content=[image("image/png; q=1")]).attachments[0].mime_type == "image/png"


def test_audio_is_attached() -> None:
    wave = base64.b64encode(b"RIFF\x24\0\0\0WAVEfmt ").decode()
    heard = result_of(content=[{"type": "audio", "data": wave, "mimeType": "audio/wav"}])
    assert [(file.mime_type, file.name) for file in heard.attachments] == [("audio/wav", "shot-1.wav")]


def test_too_many_files_are_told() -> None:
    many = result_of(content=[image()] * (MOST_FILES + 2))
    assert len(many.attachments) == MOST_FILES
    assert many.text.count("was left out") == 2


def test_names_of_files_hold_no_folders() -> None:
    blob = {"type": "resource", "resource": {"uri": "file:///a/..%2F..%2Fetc%2Fpasswd", "blob": "aGk="}}
    assert "/" not in result_of(content=[blob]).attachments[0].name


def test_the_messages_of_a_prompt_become_one_text() -> None:
    said = [
        {"role": "user", "content": text("Hello.")},
        {"role": "assistant", "content": text("Hi!")},
        {"role": "user", "content": image()},
    ]
    prompt = prompt_content(msgspec.json.decode(msgspec.json.encode({"messages": said}), type=GetPromptResult))
    assert prompt.text == "Hello.\nAssistant:\nHi!"
    assert len(prompt.attachments) == 1
