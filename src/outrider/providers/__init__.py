"""Models by name, and the adapters to their APIs. Start with `base` (what a model is) and `resolution` (names)."""

from outrider.exports import lazy

TYPE_CHECKING = False  # as in typing: nothing is imported before it is used
if TYPE_CHECKING:
    from outrider.providers.adapters.anthropic import Anthropic as Anthropic
    from outrider.providers.adapters.gemini import Gemini as Gemini
    from outrider.providers.adapters.openai_chat import OpenAIChat as OpenAIChat
    from outrider.providers.adapters.openai_responses import OpenAIResponses as OpenAIResponses
    from outrider.providers.base import Effort as Effort
    from outrider.providers.base import ModelSettings as ModelSettings
    from outrider.providers.base import Provider as Provider
    from outrider.providers.base import Reply as Reply
    from outrider.providers.base import Request as Request
    from outrider.providers.base import SchemaProvider as SchemaProvider
    from outrider.providers.base import StopReason as StopReason
    from outrider.providers.base import ToolSpec as ToolSpec
    from outrider.providers.resolution import resolve as resolve

_EXPORTED = {
    "outrider.providers.adapters.anthropic": "Anthropic",
    "outrider.providers.adapters.gemini": "Gemini",
    "outrider.providers.adapters.openai_chat": "OpenAIChat",
    "outrider.providers.adapters.openai_responses": "OpenAIResponses",
    "outrider.providers.base": "Effort ModelSettings Provider Reply Request SchemaProvider StopReason ToolSpec",
    "outrider.providers.resolution": "resolve",
}

__all__ = sorted(" ".join(_EXPORTED.values()).split())

if not TYPE_CHECKING:
    __getattr__ = lazy(__name__, _EXPORTED)
