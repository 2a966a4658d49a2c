"""The environment of commands: without keys, and without variables that change what a command does.

A command that a model writes can print its environment. So a variable is removed if its name or its value looks like a
secret, unless the user passes it on by name (`sandbox.pass_env`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping

from outrider.providers.credentials.secrets import MODEL_KEYS, masked

CHANGES_COMMANDS = ("BASH_ENV", "ENV", "CDPATH", "GLOBIGNORE", "SHELLOPTS", "BASHOPTS")
"""Variables that make bash run a file first, change the folder, or parse a command differently."""

# SSH_AUTH_SOCK and XAUTHORITY are paths and stay: a command with full access needs them for git and windows.
_SECRET_NAME = re.compile(
    "KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTHORIZATION|(^|_)PASS$|_PWD$|(^|_)PW$|AUTH$|_PAT$|COOKIE"
    "|AUTH_CONFIG|CONNECTION_?STRING|OTLP_(.*_)?HEADERS$",
    re.IGNORECASE,
)
_SECRET_PARAMETER = (
    "[a-z_-]*(?:pass|password|passwd|token|secret|signature|credential|api_?key|access_?key)|pwd|sig|auth|key"
)
_SECRET_VALUE = re.compile(
    r"[a-z][a-z0-9+.-]*://[^\s/@:]*:[^\s/@]+@"  # a password in a URL
    r"|https?://[^\s/@?#]+@"  # a token in the place of a user
    rf"|[a-z][a-z0-9+.-]*://\S*[?&;](?:{_SECRET_PARAMETER})=[^\s&;]"
    r"|(?:^|[\s;])(?:ssl)?(?:password|passwd|pwd|accountkey|sharedaccesskey)\s*=\s*\S",  # "host=db password=…"
    re.IGNORECASE,
)


def command_environment(environ: Mapping[str, str], passed: Collection[str] = ()) -> dict[str, str]:
    """Return the environment for commands. Secrets named in `passed` stay.

    >>> command_environment({"HOME": "/home/a", "github_token": "x", "DATABASE_URL": "db://a:b@host/c"})
    {'HOME': '/home/a'}
    """
    wanted = {
        name: value
        for name, value in environ.items()
        if name not in CHANGES_COMMANDS
        and not name.startswith("BASH_FUNC_")
        and (name in passed or not is_secret_variable(name, value))
    }
    if path := wanted.get("PATH"):  # a relative entry would run a program from the project
        wanted["PATH"] = os.pathsep.join(entry for entry in path.split(os.pathsep) if os.path.isabs(entry))
    return wanted


def unset_variables(environ: Mapping[str, str], passed: Collection[str] = ()) -> tuple[str, ...]:
    """Return the names to remove where another program makes the environment, as an editor does for its terminals.

    The other program's own variables are not known: the names are those of known keys, and of secrets in `environ`.
    """
    secrets = [name for name, value in environ.items() if is_secret_variable(name, value) and "=" not in name]
    return tuple(dict.fromkeys((*(name for name in (*MODEL_KEYS, *secrets) if name not in passed), *CHANGES_COMMANDS)))


def is_secret_variable(name: str, value: str) -> bool:
    """Return whether a variable looks like a secret: by its name, a login in its value, or a vendor's form of keys."""
    return bool(_SECRET_NAME.search(name) or _SECRET_VALUE.search(value)) or masked(value) != value
