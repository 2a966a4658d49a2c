"""The ways in which a user gives Outrider an API key from an editor. No key goes over the connection to the editor."""

from __future__ import annotations

from typing import Any

from outrider.acp.schema.requests import AuthMethod, AuthMethodTerminal, ClientCapabilities
from outrider.jsonrpc import RpcError
from outrider.processes.starting import python_module

PROVIDERS = {"anthropic": "Anthropic", "openai": "OpenAI", "gemini": "Gemini"}
"""The providers that are offered by name. `outrider login` knows more."""
_DESCRIPTION = "Enter the key in a terminal. It is checked and kept, where only you can read it."
LOGIN = AuthMethod(
    "outrider-login",
    "API key",
    "Run `outrider login PROVIDER` in a terminal, or set the provider's variable, such as ANTHROPIC_API_KEY.",
)


def auth_methods(client: ClientCapabilities) -> list[AuthMethod | AuthMethodTerminal]:
    """Return the methods that a client can handle. A terminal asks for the key, where the client can open one."""
    offered = {each: (f"{each}-key", f"{label} API key", _DESCRIPTION) for each, label in PROVIDERS.items()}
    if client.auth.terminal:  # the client starts the agent again with more arguments: outrider acp --login anthropic
        return [*(AuthMethodTerminal(*shown, ["--login", each]) for each, shown in offered.items()), LOGIN]
    if (client.meta or {}).get("terminal-auth") is True:  # the form before it was in the protocol
        return [*(AuthMethod(*shown, {"terminal-auth": _command(each)}) for each, shown in offered.items()), LOGIN]
    return [LOGIN]


def _command(provider: str) -> dict[str, Any]:
    program, *arguments = python_module("outrider", "login", provider)
    return {"label": "outrider login", "command": program, "args": arguments}


def check_key_for(method_id: str) -> None:
    """Raise RpcError if the method is unknown, or if there is no key by now."""
    known = [LOGIN.id, *(f"{provider}-key" for provider in PROVIDERS)]
    if method_id not in known:
        raise RpcError.invalid_params(f"unknown authentication method {method_id!r}; use {LOGIN.id!r}")
    from outrider.acp.session_options import has_any_key  # imports the providers

    if not has_any_key():
        raise RpcError.auth_required(f"there is no API key yet. {LOGIN.description}")
