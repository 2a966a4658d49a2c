"""A small MCP server over standard input and output. Its one tool draws figures as a bar chart and returns a PNG."""

from __future__ import annotations

import base64
import json
import struct
import sys
import zlib
from typing import Any

TOOL = {
    "name": "draw",
    "description": "Draw figures as a bar chart.",
    "inputSchema": {
        "type": "object",
        "properties": {"figures": {"type": "array", "items": {"type": "number"}}},
        "required": ["figures"],
    },
}
BAR, HEIGHT = 40, 120


def png(figures: list[float]) -> bytes:
    """Return a picture with a bar for each figure."""
    top = max(figures)
    rows = []
    for y in range(HEIGHT):
        filled = (b"\x1f\x77\xb4" if HEIGHT - y <= figure / top * HEIGHT else b"\xff\xff\xff" for figure in figures)
        rows.append(b"\0" + b"".join(colour * (BAR - 8) + b"\xff\xff\xff" * 8 for colour in filled))
    size = struct.pack(">IIBBBBB", BAR * len(figures), HEIGHT, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", size), (b"IDAT", zlib.compress(b"".join(rows))), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, data) for kind, data in parts)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of a request, or None for an unknown method."""
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "charts", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        figures = params["arguments"]["figures"]
        picture = {"type": "image", "data": base64.b64encode(png(figures)).decode(), "mimeType": "image/png"}
        return {"content": [{"type": "text", "text": f"A chart of {len(figures)} figures."}, picture]}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    result = answer(message["method"], message.get("params") or {})
    outcome = {"result": result} if result is not None else {"error": {"code": -32601, "message": "unknown method"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)
