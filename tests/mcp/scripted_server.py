"""A small MCP server over standard input and output, with the standard library alone.

It is run as a program: `python scripted_server.py '{"era": "modern", …}'`. The options say which era it speaks and how
it misbehaves. It is written from the specification, not from the client under test.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

OPTIONS: dict[str, Any] = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
ERA = OPTIONS.get("era", "modern")
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQIAAACAgA=="
TOOLS: list[dict[str, Any]] = [
    {
        "name": name,
        "description": f"Does {name}.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}, "count": {"type": "integer"}}},
    }
    for name in (
        "echo",
        "picture",
        "sound",
        "progress",
        "ask",
        "slow",
        "fail",
        "structured",
        "links",
        "grow",
        "sample",
        "state",
        "sign_in",
    )
]
TOOLS[0]["annotations"] = {"readOnlyHint": True}
TOOLS += [
    {
        "name": f"frobnicate_{number}",
        "description": f"Frobnicate the widget number {number}, as {'it is done ' * 20} in the whole company.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
    }
    for number in range(OPTIONS.get("more_tools", 0))
]
CAPABILITIES = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
}
META = {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1"}}

listening: Any = None
opened = 0
next_id = 1000


def instructions() -> str:
    """Return what the server says about itself; with `instructions_each`, something else each time it is started."""
    each = OPTIONS.get("instructions_each")
    if not each:
        return str(OPTIONS.get("instructions", "Be kind."))
    with open(OPTIONS["pid_file"]) as file:
        return str(each[min(len(file.readlines()), len(each)) - 1])


def write(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def read() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    message: dict[str, Any] = json.loads(line)
    if record := OPTIONS.get("record"):
        with open(record, "a") as file:
            file.write(line)
    return message


def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Send a request to the client, and wait for its answer (the old era)."""
    global next_id
    next_id += 1
    write({"id": next_id, "method": method, "params": params})
    while True:
        message = read()
        if message.get("id") == next_id and "method" not in message:
            return message


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}], **more}


def elicitation(arguments: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 7}}}
    schema = OPTIONS.get("form", schema)
    return {"mode": "form", "message": arguments.get("text", "Who?"), "requestedSchema": schema}


def tools_changed() -> None:
    params = {} if listening is None else {"_meta": {"io.modelcontextprotocol/subscriptionId": listening}}
    if ERA == "legacy" or listening is not None:
        write({"method": "notifications/tools/list_changed", "params": params})


def call(request: dict[str, Any]) -> dict[str, Any] | None:  # noqa: C901, PLR0912
    global opened
    params = request["params"]
    arguments = params.get("arguments") or {}
    match params["name"]:
        case str(name) if name == "echo" or name.startswith("frobnicate_"):
            return text(arguments.get("text", ""))
        case "picture":
            return {
                "content": [
                    {"type": "text", "text": "A picture:"},
                    {"type": "image", "data": PNG, "mimeType": "image/png"},
                ]
            }
        case "sound":
            return {"content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]}
        case "links":
            return {
                "content": [
                    {"type": "resource_link", "uri": "file:///a.txt", "name": "a.txt", "mimeType": "text/plain"},
                    {"type": "resource", "resource": {"uri": "memo://1", "text": "inside", "mimeType": "text/plain"}},
                    {"type": "resource", "resource": {"uri": "memo://p.png", "blob": PNG, "mimeType": "image/png"}},
                    {"type": "hologram", "data": "?"},
                ]
            }
        case "structured":
            return {**text('{"sum": 3}'), "structuredContent": {"sum": 3}}
        case "fail":
            return text("it broke", isError=True)
        case "progress":
            token = (params.get("_meta") or {}).get("progressToken")
            for step in range(1, 4):
                told = {"progressToken": token, "progress": step, "total": 3, "message": f"step {step}"}
                write({"method": "notifications/progress", "params": told})
            return text("done")
        case "ask" if ERA == "legacy":
            return text(json.dumps(ask("elicitation/create", elicitation(arguments)).get("result")))
        case "ask":
            answers = params.get("inputResponses")
            if answers is None:
                wanted = {"who": {"method": "elicitation/create", "params": elicitation(arguments)}}
                return {"resultType": "input_required", "inputRequests": wanted, "requestState": "s1"}
            return text(json.dumps({"answers": answers, "state": params.get("requestState")}))
        case "sample" if ERA == "legacy":
            return text(json.dumps(ask("sampling/createMessage", {"messages": [], "maxTokens": 1}).get("error")))
        case "sample":
            wanted = {"x": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}}
            return {"resultType": "input_required", "inputRequests": wanted}
        case "sign_in" if arguments.get("count", 0) > opened:
            page = {"mode": "url", "message": "Sign in", "url": "https://example.org/in", "elicitationId": "1"}
            error = {"code": -32042, "message": "Sign in first", "data": {"elicitations": [page]}}
            opened += 1
            write({"id": request["id"], "error": error})
            return None
        case "sign_in":
            return text("signed in")
        case "state":
            rounds = int(params.get("requestState") or 0)
            if rounds < arguments.get("count", 2):
                return {"resultType": "input_required", "requestState": str(rounds + 1)}
            return text(f"after {rounds} rounds")
        case "slow":
            while True:  # until it is cancelled
                message = read()
                if message.get("method") == "notifications/cancelled":
                    write({"method": "notifications/message", "params": {"level": "info", "data": "cancelled"}})
                    return None
                if "id" in message:
                    handle(message)
        case "grow":
            TOOLS.append({"name": f"new{len(TOOLS)}", "description": "", "inputSchema": {"type": "object"}})
            tools_changed()
            return text("grown")
    write({"id": request["id"], "error": {"code": -32602, "message": f"Unknown tool: {params['name']}"}})
    return None


def result_of(request: dict[str, Any]) -> dict[str, Any] | None:  # noqa: C901, PLR0912
    global listening
    params = request.get("params") or {}
    match request["method"]:
        case "initialize" if ERA != "modern":
            return {
                "protocolVersion": OPTIONS.get("version", "2025-06-18"),
                "capabilities": CAPABILITIES,
                "serverInfo": {"name": "scripted", "version": "1"},
                "instructions": instructions(),
            }
        case "server/discover" if ERA != "legacy":
            return {
                "supportedVersions": OPTIONS.get("versions", ["2026-07-28"]),
                "capabilities": CAPABILITIES,
                "instructions": instructions(),
                "_meta": META,
                "ttlMs": 0,
                "cacheScope": "private",
            }
        case "server/discover" if OPTIONS.get("silent"):
            return None
        case "server/discover" if OPTIONS.get("strict"):
            sys.exit("the first request must be initialize")
        case "subscriptions/listen" if ERA != "legacy":
            listening = request["id"]
            meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": listening}}
            acknowledged = {**meta, "notifications": params["notifications"]}
            write({"method": "notifications/subscriptions/acknowledged", "params": acknowledged})
            return None
        case "tools/list":
            size = OPTIONS.get("page", 100)
            start = int(params.get("cursor") or 0)
            page: dict[str, Any] = {"tools": TOOLS[start : start + size], "ttlMs": OPTIONS.get("ttl", 0)}
            return page if start + size >= len(TOOLS) else {**page, "nextCursor": str(start + size)}
        case "tools/call":
            return call(request)
        case "resources/list":
            return {"resources": [{"uri": "memo://1", "name": "memo"}, {"name": "no uri"}]}
        case "resources/templates/list":
            return {"resourceTemplates": [{"uriTemplate": "memo://{number}", "name": "memos"}]}
        case "resources/read":
            return {"contents": [{"uri": params["uri"], "mimeType": "text/plain", "text": f"text of {params['uri']}"}]}
        case "prompts/list":
            return {"prompts": [{"name": "greet", "arguments": [{"name": "who", "required": True}]}]}
        case "prompts/get":
            said = f"Greet {params['arguments']['who']}."
            return {"messages": [{"role": "user", "content": {"type": "text", "text": said}}]}
        case "completion/complete":
            values = [name for name in ("Ada", "Alan", "Grace") if name.startswith(params["argument"]["value"])]
            return {"completion": {"values": values, "hasMore": False}}
    write({"id": request["id"], "error": {"code": -32601, "message": f"Method not found: {request['method']}"}})
    return None


def handle(request: dict[str, Any]) -> None:
    meta = (request.get("params") or {}).get("_meta") or {}
    stateless = request["method"] not in ("initialize", "ping") and ERA == "modern"
    if stateless and meta.get("io.modelcontextprotocol/protocolVersion") != "2026-07-28":
        write({"id": request["id"], "error": {"code": -32602, "message": "no protocol version in _meta"}})
        return
    result = result_of(request)
    if result is not None:
        modern = {"resultType": "complete"} if ERA == "modern" else {}
        write({"id": request["id"], "result": {**modern, **result}})


def main() -> None:
    if delay := OPTIONS.get("delay"):
        time.sleep(delay)
    while (gate := OPTIONS.get("wait_for")) and not os.path.exists(gate):
        time.sleep(0.01)
    if pid_file := OPTIONS.get("pid_file"):
        with open(pid_file, "a") as file:
            file.write(f"{os.getpid()}\n")
    if gate := OPTIONS.get("ask_after"):
        threading.Thread(target=ask_by_itself, args=(gate,), daemon=True).start()
    while True:
        message = read()
        if "id" in message and "method" in message:
            handle(message)
        elif message.get("id") == "unasked":
            with open(OPTIONS["answer_file"], "w") as file:
                json.dump(message.get("result") or message.get("error"), file)


def ask_by_itself(gate: str) -> None:
    """Ask something that belongs to no call, once a file exists."""
    while not os.path.exists(gate):
        time.sleep(0.01)
    asked = {"message": "Are you there?", "requestedSchema": {"type": "object", "properties": {}}}
    write({"id": "unasked", "method": "elicitation/create", "params": asked})


if __name__ == "__main__":
    main()
