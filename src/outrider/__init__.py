"""Outrider: an agent runtime with one conversation model and one loop.

>>> think("What's 2+2?", model="demo")
'4'

help(outrider.think) explains a name; docs/api.md has an example of each.

Scripts
    think               asks a model once: a string, or a Turn of a conversation
    run                 lets a model work with tools until it is done: a RunResult
    ask                 gets an answer as data of a type
    dumps, loads        a conversation as JSON, and back
    Turn                what think() gives of a conversation
    __version__         the version

Agents and sessions
    Agent               who answers: a model, its instructions, tools and limits
    Session             a conversation with an agent that goes on; streams events, can be cancelled
    Allow, Deny         the answers of an approver, which decides whether a call may run

Messages and blocks
    Message             a role and its blocks
    TextBlock, ThinkingBlock, ToolUseBlock, ToolResultBlock, AttachmentBlock

Tools and results
    tool, Tool          makes a tool of a function; what it makes
    ToolContext         what a running tool knows of its call
    ToolResult          what a tool gives back when a string is not enough

Files
    Attachment          a file on its way to a model
    MemoryStore, FolderStore
                        where the bytes of files are kept

Sub-agents
    with_subagents      an agent that sends out others
    Profile             a kind of sub-agent
    spawn               a session for a sub-agent of your own tool

The log
    Log                 sessions that outlive their process
    default_log         the log of the terminal program

Models
    ScriptedModel       says what it is told to, for tests; all others go by name: "anthropic/fast", "demo"

Limits and results
    Limits              where a run stops
    RunResult           how it ended
    Usage               tokens and cost

Errors
    OutriderError       catches them all; help(outrider.errors) has the tree
    RunError, AttachmentError, ConfigError, ConversationError, LogError, ProviderError, SchemaError,
    SessionBusyError, SessionCancelledError, SessionHeldError, ToolDefinitionError, UnknownModelError, ValidationError

Modules
    outrider.events     what an observer of a session sees
    outrider.errors     the whole tree of errors
    outrider.providers.base
                        what a model of your own is made of
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from outrider.version import __version__ as __version__

if TYPE_CHECKING:
    from outrider import errors as errors
    from outrider import events as events
    from outrider import providers as providers
    from outrider.conversation.attachments import Attachment as Attachment
    from outrider.conversation.messages import AttachmentBlock as AttachmentBlock
    from outrider.conversation.messages import Message as Message
    from outrider.conversation.messages import TextBlock as TextBlock
    from outrider.conversation.messages import ThinkingBlock as ThinkingBlock
    from outrider.conversation.messages import ToolResultBlock as ToolResultBlock
    from outrider.conversation.messages import ToolUseBlock as ToolUseBlock
    from outrider.conversation.messages import Usage as Usage
    from outrider.conversation.store import FolderStore as FolderStore
    from outrider.conversation.store import MemoryStore as MemoryStore
    from outrider.errors import AttachmentError as AttachmentError
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
    from outrider.providers.testing.scripted import ScriptedModel as ScriptedModel
    from outrider.runtime.agent import Agent as Agent
    from outrider.runtime.limits import Limits as Limits
    from outrider.runtime.run import RunResult as RunResult
    from outrider.runtime.session import Session as Session
    from outrider.subagents.delegating import with_subagents as with_subagents
    from outrider.subagents.profile import Profile as Profile
    from outrider.subagents.spawning import spawn as spawn
    from outrider.sync import Turn as Turn
    from outrider.sync import ask as ask
    from outrider.sync import default_log as default_log
    from outrider.sync import dumps as dumps
    from outrider.sync import loads as loads
    from outrider.sync import run as run
    from outrider.sync import think as think
    from outrider.tools.approval import Allow as Allow
    from outrider.tools.approval import Deny as Deny
    from outrider.tools.context import ToolContext as ToolContext
    from outrider.tools.decorator import tool as tool
    from outrider.tools.result import ToolResult as ToolResult
    from outrider.tools.tool import Tool as Tool

# Where each public name lives. It is imported when it is first asked for, so that a program which only wants the
# version, or the help, does not pay for the event loop.
_HOMES = {
    "runtime.agent": ("Agent",),
    "conversation.attachments": ("Attachment",),
    "errors": (
        "RunError",
        "AttachmentError",
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
    "runtime.limits": ("Limits",),
    "log.log": ("Log",),
    "conversation.messages": (
        "AttachmentBlock",
        "Message",
        "TextBlock",
        "ThinkingBlock",
        "ToolResultBlock",
        "ToolUseBlock",
        "Usage",
    ),
    "providers.testing.scripted": ("ScriptedModel",),
    "sync": ("Turn", "ask", "default_log", "dumps", "loads", "run", "think"),
    "runtime.run": ("RunResult",),
    "runtime.session": ("Session",),
    "conversation.store": ("FolderStore", "MemoryStore"),
    "tools.result": ("ToolResult",),
    "subagents.delegating": ("with_subagents",),
    "subagents.profile": ("Profile",),
    "subagents.spawning": ("spawn",),
    "tools.approval": ("Allow", "Deny"),
    "tools.context": ("ToolContext",),
    "tools.decorator": ("tool",),
    "tools.tool": ("Tool",),
}
_MODULES = ("errors", "events", "providers")
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *_HOME_OF]


if not TYPE_CHECKING:  # whoever checks types would take it to mean that there are all names

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"outrider.{name}")
        if name not in _HOME_OF:
            raise AttributeError(f"module 'outrider' has no attribute {name!r}")
        value = getattr(import_module(f"outrider.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
