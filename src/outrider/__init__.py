"""Outrider: an agent runtime with one conversation model and one loop.

>>> think("What's 2+2?", model="demo")
'4'

Use help(outrider.think) for one name; docs/api.md has an example of each.

Scripts
    think               ask a model once; returns a string, or a Turn of a conversation
    run                 run a model with tools until it is done; returns a RunResult
    ask                 run a model with tools; returns text, or data of a type
    dumps, loads        convert a conversation to JSON and back
    Turn                one turn of a conversation, returned by think()
    __version__         the version

Agents and sessions
    Agent               a model with instructions, tools and limits
    Session             a conversation with an agent; streams events, can be cancelled and resumed
    Allow, Deny         decisions of an approver on whether a call may run

Messages and blocks
    Message             a role and its blocks
    TextBlock, ThinkingBlock, ToolUseBlock, ToolResultBlock, AttachmentBlock
    ServerToolUseBlock, ServerToolResultBlock
                        a call of a tool that the model's API runs, and its result
    Citation            a source of a text

Tools and results
    tool, Tool          the decorator that makes a tool from a function; the tool
    ToolContext         the context of a running tool call
    ToolResult          the result of a tool, when a string is not enough
    web_search, web_fetch, code_execution
                        tools that the model's API runs itself
    ServerTool          the type of these three

Hooks
    Hooks               async functions that a session calls at certain points: `Agent(hooks=Hooks(before_tool=check))`
    HookResult          what a hook wants: to block, to add context, to change the arguments of a call

MCP servers
    StdioServer         a server that is a program; `Agent(mcp=[StdioServer("time", "uvx", ["mcp-server-time"])])`
    HttpServer          a server at an address
    RunningServers      servers that several sessions share

Files
    Attachment          a file for a model
    MemoryStore, FolderStore
                        stores for the bytes of files

Sub-agents
    with_subagents      give an agent the Task tool, which starts sub-agents
    Profile             a kind of sub-agent
    spawn               start a sub-agent from a tool of your own

The log
    Log                 the durable log of sessions
    default_log         the log of the terminal program

Notebooks
    LiveView            what a run does, while it goes on; `await agent.run(…, observer=LiveView())`

Telemetry
    Telemetry           spans and metrics for OpenTelemetry; `agent.run(…, observer=Telemetry())`

Batches
    batch               run many tasks, each in a session of its own; yields their results
    BatchLimits         the budget and the pace of a batch
    Task, TaskResult    a task of a batch; what became of it

Limits and results
    Limits              the limits of a run
    Retry               how long a request is retried
    Compaction          when a conversation is shortened because the context window fills up
    ContextUsage        how much of the context window a session takes
    RunResult           the outcome of a run
    Usage               tokens and cost

Errors
    OutriderError       the base class of all errors; help(outrider.errors) has the tree
    RunError, AttachmentError, BudgetError, ConfigError, ConversationError, LogError, ProviderError, SchemaError,
    SessionBusyError, SessionCancelledError, SessionHeldError, ToolDefinitionError, UnknownModelError, ValidationError

Modules
    outrider.events     the events that observers of a session receive
    outrider.errors     all errors
    outrider.types      the types in the signatures of these names, for annotations of your own
    outrider.testing    models and contexts for tests of your own agents and tools
    outrider.runtime.hooks
                        the events that hooks receive
    outrider.providers.base
                        the interface of a provider, for models of your own
"""

from importlib import import_module

from outrider.version import __version__ as __version__

TYPE_CHECKING = False  # as in typing, whose import takes longer than all that the program needs to handle signals
if TYPE_CHECKING:
    from typing import Any

    from outrider import errors as errors
    from outrider import events as events
    from outrider import providers as providers
    from outrider import testing as testing
    from outrider import types as types
    from outrider.batches.batch import batch as batch
    from outrider.batches.queue import BatchLimits as BatchLimits
    from outrider.batches.task import Task as Task
    from outrider.batches.task import TaskResult as TaskResult
    from outrider.conversation.attachments import Attachment as Attachment
    from outrider.conversation.messages import AttachmentBlock as AttachmentBlock
    from outrider.conversation.messages import Citation as Citation
    from outrider.conversation.messages import Message as Message
    from outrider.conversation.messages import ServerToolResultBlock as ServerToolResultBlock
    from outrider.conversation.messages import ServerToolUseBlock as ServerToolUseBlock
    from outrider.conversation.messages import TextBlock as TextBlock
    from outrider.conversation.messages import ThinkingBlock as ThinkingBlock
    from outrider.conversation.messages import ToolResultBlock as ToolResultBlock
    from outrider.conversation.messages import ToolUseBlock as ToolUseBlock
    from outrider.conversation.messages import Usage as Usage
    from outrider.conversation.store import FolderStore as FolderStore
    from outrider.conversation.store import MemoryStore as MemoryStore
    from outrider.errors import AttachmentError as AttachmentError
    from outrider.errors import BudgetError as BudgetError
    from outrider.errors import ConfigError as ConfigError
    from outrider.errors import ConversationError as ConversationError
    from outrider.errors import LogError as LogError
    from outrider.errors import OutriderError as OutriderError
    from outrider.errors import ProviderError as ProviderError
    from outrider.errors import RunError as RunError
    from outrider.errors import SchemaError as SchemaError
    from outrider.errors import SessionBusyError as SessionBusyError
    from outrider.errors import SessionCancelledError as SessionCancelledError
    from outrider.errors import SessionHeldError as SessionHeldError
    from outrider.errors import ToolDefinitionError as ToolDefinitionError
    from outrider.errors import UnknownModelError as UnknownModelError
    from outrider.errors import ValidationError as ValidationError
    from outrider.log.log import Log as Log
    from outrider.mcp.running import RunningServers as RunningServers
    from outrider.mcp.servers import HttpServer as HttpServer
    from outrider.mcp.servers import StdioServer as StdioServer
    from outrider.runtime.agent import Agent as Agent
    from outrider.runtime.compaction import Compaction as Compaction
    from outrider.runtime.context import ContextUsage as ContextUsage
    from outrider.runtime.hooks import HookResult as HookResult
    from outrider.runtime.hooks import Hooks as Hooks
    from outrider.runtime.limits import Limits as Limits
    from outrider.runtime.live_view import LiveView as LiveView
    from outrider.runtime.retry import Retry as Retry
    from outrider.runtime.run import RunResult as RunResult
    from outrider.runtime.session import Session as Session
    from outrider.runtime.turn import Turn as Turn
    from outrider.subagents.delegation import with_subagents as with_subagents
    from outrider.subagents.profile import Profile as Profile
    from outrider.subagents.task import spawn as spawn
    from outrider.sync import ask as ask
    from outrider.sync import default_log as default_log
    from outrider.sync import dumps as dumps
    from outrider.sync import loads as loads
    from outrider.sync import run as run
    from outrider.sync import think as think
    from outrider.telemetry.telemetry import Telemetry as Telemetry
    from outrider.tools.approval import Allow as Allow
    from outrider.tools.approval import Deny as Deny
    from outrider.tools.context import ToolContext as ToolContext
    from outrider.tools.result import ToolResult as ToolResult
    from outrider.tools.server_tool import ServerTool as ServerTool
    from outrider.tools.server_tool import code_execution as code_execution
    from outrider.tools.server_tool import web_fetch as web_fetch
    from outrider.tools.server_tool import web_search as web_search
    from outrider.tools.tool import Tool as Tool
    from outrider.tools.tool import tool as tool

# The module of each public name. A name is imported on first use, so that a program that needs only the version or the
# help does not import the event loop.
_NAMES_OF_MODULES = {
    "batches.batch": ("batch",),
    "batches.queue": ("BatchLimits",),
    "batches.task": ("Task", "TaskResult"),
    "runtime.agent": ("Agent",),
    "conversation.attachments": ("Attachment",),
    "errors": (
        "RunError",
        "AttachmentError",
        "BudgetError",
        "ConfigError",
        "ConversationError",
        "LogError",
        "OutriderError",
        "ProviderError",
        "SchemaError",
        "SessionBusyError",
        "SessionCancelledError",
        "SessionHeldError",
        "ToolDefinitionError",
        "UnknownModelError",
        "ValidationError",
    ),
    "runtime.compaction": ("Compaction",),
    "runtime.context": ("ContextUsage",),
    "runtime.hooks": ("HookResult", "Hooks"),
    "runtime.limits": ("Limits",),
    "runtime.live_view": ("LiveView",),
    "log.log": ("Log",),
    "mcp.running": ("RunningServers",),
    "mcp.servers": ("HttpServer", "StdioServer"),
    "conversation.messages": (
        "AttachmentBlock",
        "Citation",
        "Message",
        "ServerToolResultBlock",
        "ServerToolUseBlock",
        "TextBlock",
        "ThinkingBlock",
        "ToolResultBlock",
        "ToolUseBlock",
        "Usage",
    ),
    "sync": ("ask", "default_log", "dumps", "loads", "run", "think"),
    "runtime.retry": ("Retry",),
    "runtime.run": ("RunResult",),
    "runtime.session": ("Session",),
    "runtime.turn": ("Turn",),
    "conversation.store": ("FolderStore", "MemoryStore"),
    "tools.result": ("ToolResult",),
    "tools.server_tool": ("ServerTool", "code_execution", "web_fetch", "web_search"),
    "subagents.delegation": ("with_subagents",),
    "subagents.profile": ("Profile",),
    "subagents.task": ("spawn",),
    "telemetry.telemetry": ("Telemetry",),
    "tools.approval": ("Allow", "Deny"),
    "tools.context": ("ToolContext",),
    "tools.tool": ("Tool", "tool"),
}
_MODULES = ("errors", "events", "providers", "testing", "types")
_MODULE_OF = {name: module for module, names in _NAMES_OF_MODULES.items() for name in names}

__all__ = ["__version__", *_MODULE_OF]


if not TYPE_CHECKING:  # a type checker would take __getattr__ to mean that every name exists

    def __getattr__(name: str) -> "Any":
        if name in _MODULES:
            return import_module(f"outrider.{name}")
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'outrider' has no attribute {name!r}")
        value = getattr(import_module(f"outrider.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
