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
    Defer               raised to let a decision, or the result of a call, come later from outside
    Hooks               async functions that a session calls at certain points: `Agent(hooks=Hooks(before_tool=check))`

Limits and results
    Limits              the limits of a run
    Retry               how long a request is retried
    Compaction          when a conversation is shortened because the context window fills up
    RunResult           the outcome of a run
    Usage               tokens and cost

Messages and files
    Message             a role and its blocks
    TextBlock, ToolUseBlock, ToolResultBlock
                        a text; a call of a tool; its result
    Attachment          a file for a model

Tools
    tool, Tool          the decorator that makes a tool from a function; the tool
    ToolContext         the context of a running tool call
    ToolResult          the result of a tool, when a string is not enough
    web_search, web_fetch, code_execution
                        tools that the model's API runs itself

Sub-agents
    with_subagents      give an agent the Task tool, which starts sub-agents
    Profile             a kind of sub-agent
    spawn               start a sub-agent from a tool of your own

The log
    Log                 the durable log of sessions
    default_log         the log of the terminal program

Errors
    OutriderError       the base class of all errors; help(outrider.errors) has the tree
    RunError            a run that did not come to its end
    ProviderError       a request that a model's API refused, or that failed

Modules
    outrider.batches    many tasks, each in a session of its own
    outrider.coding     the tools of the coding agent: files, search, commands, the web
    outrider.errors     all errors
    outrider.events     the events that observers of a session receive
    outrider.hooks      what hooks receive and return
    outrider.mcp        servers of the Model Context Protocol
    outrider.messages   all kinds of blocks
    outrider.notebook   a run in a notebook, while it goes on
    outrider.providers  the interface of a model, for models of your own; the adapters
    outrider.serve      the server of sessions as an ASGI app, for FastAPI and others
    outrider.stores     where the bytes of files are kept
    outrider.telemetry  spans and metrics for OpenTelemetry
    outrider.testing    models and contexts for tests of your own agents and tools
    outrider.types      the types in the signatures of these names, for annotations of your own
"""

from outrider.exports import lazy
from outrider.version import __version__ as __version__

TYPE_CHECKING = False  # as in typing, whose import takes longer than all that the program needs to handle signals
if TYPE_CHECKING:
    from outrider import batches as batches
    from outrider import coding as coding
    from outrider import errors as errors
    from outrider import events as events
    from outrider import hooks as hooks
    from outrider import mcp as mcp
    from outrider import messages as messages
    from outrider import notebook as notebook
    from outrider import providers as providers
    from outrider import serve as serve
    from outrider import stores as stores
    from outrider import telemetry as telemetry
    from outrider import testing as testing
    from outrider import types as types
    from outrider.conversation.attachments import Attachment as Attachment
    from outrider.conversation.messages import Message as Message
    from outrider.conversation.messages import TextBlock as TextBlock
    from outrider.conversation.messages import ToolResultBlock as ToolResultBlock
    from outrider.conversation.messages import ToolUseBlock as ToolUseBlock
    from outrider.conversation.usage import Usage as Usage
    from outrider.errors import OutriderError as OutriderError
    from outrider.errors import ProviderError as ProviderError
    from outrider.errors import RunError as RunError
    from outrider.log.log import Log as Log
    from outrider.runtime.agent import Agent as Agent
    from outrider.runtime.compaction import Compaction as Compaction
    from outrider.runtime.hooks import Hooks as Hooks
    from outrider.runtime.limits import Limits as Limits
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
    from outrider.tools.approval import Allow as Allow
    from outrider.tools.approval import Defer as Defer
    from outrider.tools.approval import Deny as Deny
    from outrider.tools.context import ToolContext as ToolContext
    from outrider.tools.result import ToolResult as ToolResult
    from outrider.tools.server_tool import code_execution as code_execution
    from outrider.tools.server_tool import web_fetch as web_fetch
    from outrider.tools.server_tool import web_search as web_search
    from outrider.tools.tool import Tool as Tool
    from outrider.tools.tool import tool as tool

_EXPORTED = {
    "outrider.conversation.attachments": "Attachment",
    "outrider.conversation.messages": "Message TextBlock ToolResultBlock ToolUseBlock",
    "outrider.conversation.usage": "Usage",
    "outrider.errors": "OutriderError ProviderError RunError",
    "outrider.log.log": "Log",
    "outrider.runtime.agent": "Agent",
    "outrider.runtime.compaction": "Compaction",
    "outrider.runtime.hooks": "Hooks",
    "outrider.runtime.limits": "Limits",
    "outrider.runtime.retry": "Retry",
    "outrider.runtime.run": "RunResult",
    "outrider.runtime.session": "Session",
    "outrider.runtime.turn": "Turn",
    "outrider.subagents.delegation": "with_subagents",
    "outrider.subagents.profile": "Profile",
    "outrider.subagents.task": "spawn",
    "outrider.sync": "ask default_log dumps loads run think",
    "outrider.tools.approval": "Allow Defer Deny",
    "outrider.tools.context": "ToolContext",
    "outrider.tools.result": "ToolResult",
    "outrider.tools.server_tool": "code_execution web_fetch web_search",
    "outrider.tools.tool": "Tool tool",
}
_MODULES = "batches coding errors events hooks mcp messages notebook providers serve stores telemetry testing types"

__all__ = ["__version__", *" ".join(_EXPORTED.values()).split()]

if not TYPE_CHECKING:  # a type checker would take __getattr__ to mean that every name exists
    __getattr__ = lazy(__name__, _EXPORTED, _MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)
