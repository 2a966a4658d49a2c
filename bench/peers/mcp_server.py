"""A minimal MCP server over standard input and output, without an SDK: the time that is measured is the client's."""

from __future__ import annotations

import json
import sys

RESULTS = {
    "server/discover": {
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "ttlMs": 0,
        "cacheScope": "private",
    },
    "tools/list": {
        "tools": [
            {
                "name": "echo",
                "description": "Return the text.",
                "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
            }
        ],
        "ttlMs": 3_600_000,
        "cacheScope": "private",
    },
    "tools/call": {"content": [{"type": "text", "text": "x" * 2_000}], "isError": False},
}
ANSWERS = {method: json.dumps({"resultType": "complete", **result}).encode() for method, result in RESULTS.items()}


def main() -> None:
    """Answer each request with the fixed result of its method."""
    output = sys.stdout.buffer
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "id" in request:
            number = json.dumps(request["id"]).encode()
            output.write(b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (number, ANSWERS[request["method"]]))
            output.flush()


if __name__ == "__main__":
    main()
