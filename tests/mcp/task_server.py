"""An MCP server whose tools run as tasks, in the form of either era, with the standard library alone.

`TaskBook` answers messages; tests serve it over HTTP. As a program it speaks over standard input and output:
`python task_server.py '{"era": "legacy", …}'`. The arguments of a call say how its task goes, and how it misbehaves.
It is written from the specification, not from the client under test.
"""

from __future__ import annotations

import json
import sys
from typing import Any

Message = dict[str, Any]

ASKED = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
RELATED = "io.modelcontextprotocol/related-task"
EXTENSION = "io.modelcontextprotocol/tasks"


class TaskBook:
    """The tasks of a server. `received` has all messages of the client."""

    def __init__(self, era: str, **options: Any) -> None:
        self.era = era
        self.options = options
        self.received: list[Message] = []
        self.tasks: dict[str, Message] = {}
        self.waiting: Message | None = None
        """The request for a result that waits for an answer to a question."""

    def sent(self, method: str) -> list[Message]:
        return [message for message in self.received if message.get("method") == method]

    def receive(self, message: Message) -> list[Message]:
        """Return what the server sends after a message."""
        self.received.append(message)
        if "method" not in message:
            return self._answered(message)
        if "id" not in message:
            return []
        params = message.get("params") or {}
        match message["method"]:
            case "tools/call":
                return self._call(message, params)
            case "tasks/get" | "tasks/update" | "tasks/cancel" | "tasks/result" if params["taskId"] not in self.tasks:
                return [error(message, -32602, "Failed to retrieve task: Task not found")]
            case "tasks/get":
                return self._get(message, self.tasks[params["taskId"]])
            case "tasks/result" if self.era == "legacy":
                return self._result(message, self.tasks[params["taskId"]])
            case "tasks/update" if self.era == "modern":
                self.tasks[params["taskId"]]["answers"] = params["inputResponses"]
                return [response(message, {"resultType": "complete"})]
            case "tasks/cancel":
                task = self.tasks[params["taskId"]]
                task["status"] = "cancelled"
                return [response(message, self._shown(task))]
        found = self._plain(message["method"])
        return [response(message, found) if found is not None else error(message, -32601, "no such method")]

    def _plain(self, method: str) -> Message | None:
        capabilities: Message = {"tools": {}}
        match method:
            case "initialize" if self.era == "legacy":
                capabilities["tasks"] = {"cancel": {}, "requests": {"tools": {"call": {}}}}
                capabilities.update(self.options.get("capabilities", {}))
                info = {"name": "tasks", "version": "1"}
                version = self.options.get("version", "2025-11-25")
                return {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
            case "server/discover" if self.era == "modern":
                capabilities["extensions"] = {EXTENSION: {}}
                return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities}
            case "tools/list":
                support = {"work": "required", "either": "optional", "plain": "forbidden"}
                return {
                    "tools": [
                        {"name": name, "inputSchema": {"type": "object"}, "execution": {"taskSupport": value}}
                        for name, value in support.items()
                    ]
                }
        return None

    def _call(self, message: Message, params: Message) -> list[Message]:
        arguments = params["arguments"]
        if self.era == "modern":
            declared = params["_meta"]["io.modelcontextprotocol/clientCapabilities"].get("extensions", {})
            is_task = EXTENSION in declared and params["name"] != "plain"
        else:
            is_task = "task" in params
            if is_task == (params["name"] == "plain"):
                return [error(message, -32601, "this tool cannot be called so")]
        if not is_task or arguments.get("at_once"):
            return [response(message, text("at once"))]
        task = {"id": f"id-{len(self.tasks) + 1}", "status": "working", "polls": 0, "answers": None}
        task.update(arguments=arguments, token=params.get("_meta", {}).get("progressToken"))
        self.tasks[task["id"]] = task
        state = {**self._shown(task), **arguments.get("create", {})}
        answer = response(message, {**state, "resultType": "task"} if self.era == "modern" else {"task": state})
        note = {"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": {**state, "status": "completed"}}
        return [answer, note] if arguments.get("notify") else [answer]

    def _shown(self, task: Message) -> Message:
        arguments = task["arguments"]
        ttl, interval = ("ttlMs", "pollIntervalMs") if self.era == "modern" else ("ttl", "pollInterval")
        state = {"taskId": task["id"], "status": task["status"], "createdAt": "t", "lastUpdatedAt": "t"}
        state.update({ttl: arguments.get("ttl"), interval: arguments.get("interval", 10)})
        return state

    def _get(self, message: Message, task: Message) -> list[Message]:
        arguments = task["arguments"]
        task["polls"] += 1
        if task["status"] in ("working", "input_required"):
            is_asking = arguments.get("ask") and task["answers"] is None
            if is_asking:
                task["status"] = "input_required"
            elif task["polls"] >= arguments.get("polls", 2):
                task["status"] = arguments.get("end", "completed")
        state = {"resultType": "complete", **self._shown(task), "statusMessage": f"step {task['polls']}"}
        if arguments.get("silent"):
            del state["statusMessage"]
        if self.era == "modern":
            if task["status"] == "completed":
                state["result"] = arguments.get("result", text(json.dumps({"answers": task["answers"]})))
            if task["status"] == "failed":
                state["error"] = {"code": -32603, "message": "the disk is full"}
            if task["status"] == "input_required":
                state["inputRequests"] = {"who": {"method": "elicitation/create", "params": ASKED}}
        state.update(arguments.get("get", {}))
        notes: list[Message] = []
        if task["token"] and self.era == "legacy" and not arguments.get("silent"):
            told = {"progressToken": task["token"], "progress": task["polls"], "total": 9}
            notes.append({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})
        return [*notes, response(message, state)]

    def _result(self, message: Message, task: Message) -> list[Message]:
        if task["status"] == "input_required":
            self.waiting = message
            asked = {**ASKED, "_meta": {RELATED: {"taskId": task["id"]}}}
            return [{"jsonrpc": "2.0", "id": "ask", "method": "elicitation/create", "params": asked}]
        if task["status"] == "failed":
            return [error(message, -32603, "the disk is full")]
        default = text(json.dumps({"answers": task["answers"]}))
        return [response(message, task["arguments"].get("result", default))]

    def _answered(self, message: Message) -> list[Message]:
        if message.get("id") != "ask" or self.waiting is None:
            return []
        request, self.waiting = self.waiting, None
        task = self.tasks[request["params"]["taskId"]]
        task.update(status="completed", answers=message.get("result") or message.get("error"))
        return self._result(request, task)


def text(value: str) -> Message:
    return {"content": [{"type": "text", "text": value}]}


def response(message: Message, result: Any) -> Message:
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def error(message: Message, code: int, said: str) -> Message:
    return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": said}}


def main() -> None:
    options = json.loads(sys.argv[1])
    record = options.pop("record", None)
    book = TaskBook(**options)
    for line in sys.stdin:
        if record:
            with open(record, "a") as file:
                file.write(line)
        for answer in book.receive(json.loads(line)):
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
        if json.loads(line).get("method") == options.get("dies_after", ""):
            sys.exit(1)


if __name__ == "__main__":
    main()
