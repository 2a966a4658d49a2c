"""`outrider login` and `outrider logout`: keep API keys, so that no variable must be set."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from getpass import getpass

from outrider.cli.command_parser import command_parser
from outrider.cli.options import UsageError
from outrider.errors import AuthenticationError, OutriderError
from outrider.text.visible import safe_lines

DESCRIPTION = """\
Enter an API key. It is checked with the provider and kept in the system's keyring if the package keyring is installed,
else in a file that only you can read. Keys in environment variables win over it.
"""
LOGOUT = "Remove the key that `outrider login` has kept."


def make_parser() -> argparse.ArgumentParser:
    return _provider_parser("login", DESCRIPTION, "anthropic (the default), openai, gemini, …", default="anthropic")


def logout_parser() -> argparse.ArgumentParser:
    return _provider_parser("logout", LOGOUT, "the provider; without one, all keys are removed")


def _provider_parser(name: str, description: str, help: str, default: str | None = None) -> argparse.ArgumentParser:
    parser = command_parser(name, description)
    parser.add_argument("provider", metavar="PROVIDER", nargs="?", default=default, help=help)
    return parser


def login(arguments: list[str]) -> int:
    """Ask for a key, check it and keep it."""
    try:
        name = make_parser().parse_args(arguments).provider
        print(asyncio.run(keep_key(name, _ask(name))))
    except (OutriderError, UsageError) as error:
        return _failed(error)
    return 0


def logout(arguments: list[str]) -> int:
    from outrider.providers.credentials.keys import remove_key, stored_names

    try:
        name = logout_parser().parse_args(arguments).provider
        names = [key_variables(name)[0]] if name else stored_names()
        removed = [each for each in names if remove_key(each)]
    except (OutriderError, UsageError) as error:
        return _failed(error)
    print(f"Removed the key for {', '.join(removed)}." if removed else "No key was stored.")
    return 0


async def keep_key(provider: str, key: str) -> str:
    """Check a key with its provider and store it. Return a sentence. Raises OutriderError, which never has the key."""
    from outrider.providers.credentials.keys import store_key
    from outrider.providers.key_check import check_key

    variable, key = key_variables(provider)[0], key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError("this is not a key: it is empty, or has characters that no key has")
    checked = await check_key(provider, key)
    where = store_key(variable, key)
    wins = f" {variable} is set in the environment, and wins over it." if os.environ.get(variable) else ""
    said = "valid" if checked else "not checked: the server has no list of models"
    return f"The key is {said}. It is in {where}.{wins}"


def is_without_key(model: str) -> bool:
    """Guess whether no key is set for the model. An exact answer would take too long."""
    from outrider.providers.catalogue import tiers
    from outrider.providers.credentials.keys import stored_values
    from outrider.providers.credentials.secrets import MODEL_KEYS

    has_key = any(map(os.environ.get, MODEL_KEYS)) or bool(stored_values())
    return model in tiers.TIERS and not tiers.override_of(model) and not has_key


def offer_key() -> str | None:
    """Offer to enter a key before the first chat. Return `demo` if the user wants that model instead.

    The offer is made once; `outrider login` is always there.
    """
    from outrider.providers.credentials.keys import remember_asking, was_asked

    if was_asked():
        return None
    print("No API key is set. Enter one now; `outrider login` does it later.")
    print("Or enter demo: a built-in model without a key, a few rules and not an LLM.")
    name = ""
    try:
        while name := input("Provider (anthropic, openai, gemini, …, demo; Enter to go on without a key): ").strip():
            if name == "demo":
                break
            try:
                print(f"{asyncio.run(keep_key(name, _ask(name)))}\n")
                return None
            except (OutriderError, UsageError) as error:
                print(f"outrider: {safe_lines(str(error))}", file=sys.stderr)
        remember_asking()
    except (EOFError, KeyboardInterrupt, OutriderError):
        print()
    return name if name == "demo" else None


def key_variables(provider: str) -> tuple[str, ...]:
    """Return the variables of a provider's key. Raises UnknownModelError if there is no such provider, or no key."""
    from outrider.providers.key_check import provider_of

    variables: tuple[str, ...] = provider_of(provider, "").key_variables
    return variables


def _ask(provider: str) -> str:
    key_variables(provider)  # an unknown provider is reported before anything is typed
    if sys.stdin is None or not sys.stdin.isatty():
        return sys.stdin.readline() if sys.stdin else ""
    return getpass(f"API key for {provider} (not shown): ")


def _failed(error: Exception) -> int:
    print(f"outrider: {safe_lines(str(error))}", file=sys.stderr)
    return 1 if isinstance(error, AuthenticationError) else 2
