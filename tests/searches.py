"""Streams of replies in which the API has searched the web and run code, as each API sends them."""

from __future__ import annotations

from typing import Any

import msgspec

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAQAAAAECAIAAAAmkwkpAAAAFElEQVR4nGM8ISfHAANMDEgANwcANHYBDK9qubUAAAAASUVORK5CYII="

USE = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "köln"}}
PAGE = {
    "type": "web_search_result",
    "url": "https://a.test",
    "title": "A",
    "encrypted_content": "c2Vj",
    "page_age": None,
}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [PAGE]}
CITED = {
    "type": "web_search_result_location",
    "url": "https://a.test",
    "title": "A",
    "encrypted_index": "aW5k",
    "cited_text": "Köln has a cathedral.",
}
RAN = {"type": "server_tool_use", "id": "srvtoolu_2", "name": "bash_code_execution", "input": {"command": "ls"}}
PRINTED = {
    "type": "bash_code_execution_tool_result",
    "tool_use_id": "srvtoolu_2",
    "content": {
        "type": "bash_code_execution_result",
        "stdout": "a.csv\n",
        "stderr": "",
        "return_code": 0,
        "content": [{"type": "bash_code_execution_output", "file_id": "file_1"}],
    },
}


def sse(*events: Any) -> bytes:
    return b"".join(b"data: %b\n\n" % msgspec.json.encode(event) for event in events)


def anthropic_stream(stop: str = "end_turn") -> bytes:
    def start(index: int, block: Any) -> Any:
        return {"type": "content_block_start", "index": index, "content_block": block}

    def delta(index: int, **fields: Any) -> Any:
        return {"type": "content_block_delta", "index": index, "delta": fields}

    def end(index: int) -> Any:
        return {"type": "content_block_stop", "index": index}

    usage = {"output_tokens": 9, "server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0}}
    return sse(
        {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}},
        *(start(0, USE | {"input": {}}), delta(0, type="input_json_delta", partial_json='{"query": "k')),
        *(delta(0, type="input_json_delta", partial_json='öln"}'), end(0), start(1, FOUND), end(1)),
        *(start(2, RAN | {"input": {}}), delta(2, type="input_json_delta", partial_json='{"command": "ls"}'), end(2)),
        *(start(3, PRINTED), end(3), start(4, {"type": "text", "text": ""})),
        *(delta(4, type="text_delta", text="Köln: "), end(4), start(5, {"type": "text", "text": "", "citations": []})),
        delta(5, type="citations_delta", citation=CITED),
        *(delta(5, type="text_delta", text="a cathedral."), end(5)),
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage},
        {"type": "message_stop"},
    )


SEARCHED = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "köln", "sources": [{"type": "url", "url": "https://a.test"}]},
}
COMPUTED = {
    "id": "ci_1",
    "type": "code_interpreter_call",
    "status": "completed",
    "code": "print(1)",
    "container_id": "cntr_1",
    "outputs": [{"type": "logs", "logs": "1\n"}, {"type": "image", "url": f"data:image/png;base64,{PNG}"}],
}
REASONING = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "eA=="}
ANNOTATION = {"type": "url_citation", "url": "https://a.test", "title": "A", "start_index": 6, "end_index": 18}


def responses_stream() -> bytes:
    part = {"type": "output_text", "text": "Köln: a cathedral.", "annotations": [ANNOTATION]}
    said = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    items = (REASONING, SEARCHED, COMPUTED, said)
    done = [{"type": "response.output_item.done", "output_index": at, "item": item} for at, item in enumerate(items)]
    usage = {"input_tokens": 5, "output_tokens": 9}
    delta = {"type": "response.output_text.delta", "output_index": 3, "delta": "Köln: a cathedral."}
    return sse(*done[:3], delta, done[3], {"type": "response.completed", "response": {"output": [], "usage": usage}})


def gemini_stream() -> bytes:
    def parts(*found: Any, **more: Any) -> Any:
        return {"candidates": [{"content": {"role": "model", "parts": list(found)}, **more}]}

    support = {"segment": {"startIndex": 7, "endIndex": 19, "text": "a cathedral."}, "groundingChunkIndices": [0, 9]}
    grounding = {
        "webSearchQueries": ["köln"],
        "groundingChunks": [{"web": {"uri": "https://a.test", "title": "A"}}],
        "groundingSupports": [support],
    }
    return sse(
        parts({"executableCode": {"language": "PYTHON", "code": "print(1)"}, "thoughtSignature": "c2ln"}),
        parts({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}}),
        parts({"text": "Köln: a "}),
        parts({"text": "cathedral."}, finishReason="STOP", groundingMetadata=grounding),
    )


STREAMS = {"anthropic": anthropic_stream(), "openai": responses_stream(), "gemini": gemini_stream()}
