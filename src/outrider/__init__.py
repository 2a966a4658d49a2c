"""Outrider: an agent runtime with one conversation model and one loop.

For scripts: `think` asks a model once, `run` lets it work with tools, `ask` gets an answer as data of a type, `dumps`
and `loads` store the conversation. For programs: an `Agent` describes who answers, a `Session` is the conversation with
it, `with_subagents` lets it send out others, and `outrider.events` has the events that tell what happens.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from outrider.version import __version__ as __version__

if TYPE_CHECKING:
    from outrider.agent import Agent as Agent
    from outrider.attachments import Attachment as Attachment
    from outrider.errors import AnswerError as AnswerError
    from outrider.errors import AttachmentError as AttachmentError
    from outrider.errors import ConfigError as ConfigError
    from outrider.errors import ConversationError as ConversationError
    from outrider.errors import LogError as LogError
    from outrider.errors import OutriderError as OutriderError
    from outrider.errors import ProviderError as ProviderError
    from outrider.errors import SchemaError as SchemaError
    from outrider.errors import SessionBusyError as SessionBusyError
    from outrider.errors import SessionCancelledError as SessionCancelledError
    from outrider.errors import SessionHeldError as SessionHeldError
    from outrider.errors import ToolDefinitionError as ToolDefinitionError
    from outrider.errors import UnknownModelError as UnknownModelError
    from outrider.errors import ValidationError as ValidationError
    from outrider.limits import Limits as Limits
    from outrider.log.log import Log as Log
    from outrider.messages import AttachmentBlock as AttachmentBlock
    from outrider.messages import Message as Message
    from outrider.messages import TextBlock as TextBlock
    from outrider.messages import ThinkingBlock as ThinkingBlock
    from outrider.messages import ToolResultBlock as ToolResultBlock
    from outrider.messages import ToolUseBlock as ToolUseBlock
    from outrider.messages import Usage as Usage
    from outrider.providers.scripted import ScriptedModel as ScriptedModel
    from outrider.results import ToolResult as ToolResult
    from outrider.runs import RunResult as RunResult
    from outrider.scripting import Turn as Turn
    from outrider.scripting import ask as ask
    from outrider.scripting import default_log as default_log
    from outrider.scripting import dumps as dumps
    from outrider.scripting import loads as loads
    from outrider.scripting import run as run
    from outrider.scripting import think as think
    from outrider.session import Session as Session
    from outrider.store import FolderStore as FolderStore
    from outrider.store import MemoryStore as MemoryStore
    from outrider.subagents.delegating import with_subagents as with_subagents
    from outrider.subagents.profile import Profile as Profile
    from outrider.tools import Tool as Tool
    from outrider.tools import ToolContext as ToolContext
    from outrider.tools import tool as tool

# Where each public name lives. It is imported when it is first asked for, so that a program which only wants the
# version, or the help, does not pay for the event loop.
_HOMES = {
    "agent": ("Agent",),
    "attachments": ("Attachment",),
    "errors": (
        "AnswerError",
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
    "limits": ("Limits",),
    "log.log": ("Log",),
    "messages": (
        "AttachmentBlock",
        "Message",
        "TextBlock",
        "ThinkingBlock",
        "ToolResultBlock",
        "ToolUseBlock",
        "Usage",
    ),
    "providers.scripted": ("ScriptedModel",),
    "scripting": ("Turn", "ask", "default_log", "dumps", "loads", "run", "think"),
    "runs": ("RunResult",),
    "session": ("Session",),
    "store": ("FolderStore", "MemoryStore"),
    "results": ("ToolResult",),
    "subagents.delegating": ("with_subagents",),
    "subagents.profile": ("Profile",),
    "tools": ("Tool", "ToolContext", "tool"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *_HOME_OF]


def __getattr__(name: str) -> Any:
    if name in ("errors", "events", "provider", "providers"):
        return import_module(f"outrider.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'outrider' has no attribute {name!r}")
    value = getattr(import_module(f"outrider.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
