"""A server of the Model Context Protocol with one tool, which adds a line to the notebook."""

import json
import os
import sys

TOOL = {
    "name": "add_note",
    "description": "Add a line to the notebook.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def answer(method: str, params: dict) -> dict:
    if method == "initialize":
        about = {"name": "notebook", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        with open(os.environ["NOTEBOOK"], "a") as file:
            file.write(params["arguments"]["text"] + "\n")
        return {"content": [{"type": "text", "text": "noted in the notebook"}]}
    raise KeyError(method)


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    try:
        said = {"result": answer(message["method"], message.get("params", {}))}
    except KeyError:
        said = {"error": {"code": -32601, "message": "unknown"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}), flush=True)
