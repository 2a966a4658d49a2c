"""Which files hold secrets, by their names. They are never shown to a model, and never written by it."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator

from outrider.coding.permissions.patterns import alternatives, translated

SECRETS: tuple[str, ...] = (
    *(".env", ".env.*", ".envrc", "!.env.example", "!.env.sample", "!.env.template", "!.env.*.example", "!.env.dist"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.asc.key"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "!id_rsa*.pub", "!id_ecdsa*.pub", "!id_ed25519*.pub"),
    *(".ssh/", ".gnupg/", ".git/", ".aws/credentials", ".aws/config", ".aws/sso/", ".azure/", ".config/gcloud/"),
    *(".netrc", "_netrc", ".pgpass", ".my.cnf", ".npmrc", ".yarnrc.yml", ".pypirc", ".git-credentials", ".htpasswd"),
    *(".config/git/credentials", ".config/gh/hosts.yml", ".docker/config.json", ".kube/", ".vault-token"),
    *(".cargo/credentials*", ".gem/credentials", ".terraform.d/credentials*", ".bash_history", ".zsh_history"),
    *(".password-store/", ".local/share/keyrings/", "Library/Keychains/"),
    *("/etc/shadow*", "/etc/gshadow*", "/etc/sudoers*", "/proc/*/environ", "/proc/*/mem", "/proc/*/task/*/environ"),
)
"""Patterns as in a .gitignore: at any depth, unless one begins with `/`; `!` takes back; the last one wins."""

GUARDED: tuple[str, ...] = (".outrider/*.toml", ".config/outrider/", "Library/Application Support/outrider/")
"""What a model may read but never write: the settings that say what it may do."""

INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
"""Characters that some file systems leave out when they compare names."""


def is_secret(path: str, patterns: tuple[str, ...], folder: str) -> bool:
    """Whether the absolute path is a secret, or lies in one. Of a path in the folder only what lies beneath it counts.

    Names are compared as a careless file system compares them: in any case, composed or not.
    """
    top = folder.rstrip("/")
    beneath = path[len(top) :] if path == top or path.startswith(f"{top}/") else path
    return any(_judged(each, beneath_each, patterns) for each, beneath_each in _spellings(path, beneath))


def names_a_secret(glob: str, patterns: tuple[str, ...]) -> bool:
    """Whether a glob is made to find secrets: it matches the names of some, and no ordinary ones."""
    last = glob.rstrip("/").rpartition("/")[2]
    if is_secret("/" + glob.lstrip("/"), patterns, "/"):
        return True
    if not any(character in last for character in "*?[") or not any(c.isalnum() for c in last):
        return False
    found = re.compile(translated(last), re.IGNORECASE | re.DOTALL)
    if any(found.fullmatch(name) for name in _ORDINARY):
        return False
    return any(found.fullmatch(name) for name in _samples(patterns))


_ORDINARY = (
    *("main.py", "index.test.ts", "README.md", "a", "Makefile", "data_2.json", ".gitignore", "environment.yml"),
    *("src", "setup.py", "config.py", "package.json", "tests", "docs", "lib"),
)


def _spellings(path: str, beneath: str) -> Iterator[tuple[str, str]]:
    yield path, beneath
    if not path.isascii() or " " in path or "." in path:
        plain = [_plain(each) for each in (path, beneath)]
        if plain != [path, beneath]:
            yield plain[0], plain[1]


def _plain(path: str) -> str:
    text = path if path.isascii() else INVISIBLE.sub("", unicodedata.normalize("NFC", path)).casefold()
    if " " not in text and "./" not in text and not text.endswith("."):
        return text
    return "/".join(name.rstrip(" .") or name for name in text.split("/"))


def _judged(path: str, beneath: str, patterns: tuple[str, ...]) -> bool:
    hint, floating, anchored = _compiled(patterns)
    if not hint.search(path):
        return False
    return any(_last_word(prefix, floating) for prefix in _prefixes(beneath)) or any(
        _last_word(prefix, anchored) for prefix in _prefixes(path)
    )


def _last_word(path: str, patterns: Iterable[tuple[bool, re.Pattern[str]]]) -> bool:
    """What the last pattern says that matches this path itself."""
    verdict = False
    for negated, pattern in patterns:
        if verdict == negated and pattern.search(path):
            verdict = not negated
    return verdict


def _prefixes(path: str) -> Iterator[str]:
    for at, character in enumerate(path):
        if character == "/" and at:
            yield path[:at]
    yield path


@functools.lru_cache(maxsize=64)
def _compiled(
    patterns: tuple[str, ...],
) -> tuple[re.Pattern[str], list[tuple[bool, re.Pattern[str]]], list[tuple[bool, re.Pattern[str]]]]:
    """One expression for whatever may be a secret; then each pattern: those at any depth, those from the root."""
    hints: list[str] = []
    floating: list[tuple[bool, re.Pattern[str]]] = []
    anchored: list[tuple[bool, re.Pattern[str]]] = []
    for written in patterns:
        negated = written.startswith("!")
        for pattern in alternatives(written.removeprefix("!").rstrip("/")):
            from_root = pattern.startswith("/")
            body = ("^/" if from_root else "/") + translated(pattern.lstrip("/"))
            (anchored if from_root else floating).append((negated, re.compile(f"{body}\\Z", re.I | re.S)))
            if not negated:
                hints.append(f"{body}(?:/|\\Z)")
    return re.compile("|".join(hints) or "(?!)", re.I | re.S), floating, anchored


@functools.lru_cache(maxsize=64)
def _samples(patterns: tuple[str, ...]) -> tuple[str, ...]:
    names = (pattern.strip("/").rpartition("/")[2].replace("*", "x") for pattern in patterns if pattern[:1] != "!")
    return tuple(names) + tuple(name.replace("*", "") for name in patterns if "/" not in name and name[:1] != "!")
