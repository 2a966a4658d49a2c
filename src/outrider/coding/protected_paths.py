"""Files with secrets, which a model never reads, and protected files, which it does not change on its own.

Sandboxes, permissions and the file tools use these lists. A protected file makes a program outside the sandbox run or
obey something later: git its configuration and hooks, an editor its tasks, a CI service its workflows.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from outrider.coding.placeholder_keeper import is_placeholder
from outrider.coding.wildcards import alternatives, to_regex
from outrider.filesystem import is_within, real_path
from outrider.text.visible import HIDDEN

SECRETS: tuple[str, ...] = (
    *(".env", ".env.*", ".envrc", "!.env.example", "!.env.sample", "!.env.template", "!.env.*.example", "!.env.dist"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.asc.key"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "!id_rsa*.pub", "!id_ecdsa*.pub", "!id_ed25519*.pub"),
    *(".env~", "*.pem~", "*.key~", ".*.pem.sw?", ".*.key.sw?", ".id_*.sw?"),  # what editors leave beside them
    *(".ssh/", ".gnupg/", ".aws/credentials", ".aws/config", ".aws/sso/", ".azure/", ".config/gcloud/"),
    *(".netrc", "_netrc", ".pgpass", ".my.cnf", ".npmrc", ".yarnrc.yml", ".pypirc", ".git-credentials", ".htpasswd"),
    *(".config/git/credentials", ".config/gh/hosts.yml", ".docker/config.json", ".kube/", ".vault-token"),
    *(
        ".cargo/credentials*",
        ".gem/credentials",
        ".terraform.d/credentials*",
        ".terraformrc",
        ".pulumi/credentials.json",
    ),
    *(".password-store/", ".local/share/keyrings/", "Library/Keychains/", ".config/op/", ".config/sops/"),
    # Clouds, registries and services.
    *(".s3cfg", ".boto", ".passwd-s3fs", ".config/rclone/", ".rclone.conf", ".databrickscfg", ".oci/", ".snowflake/"),
    *(".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties", ".nuget/NuGet/NuGet.Config"),
    *(".composer/auth.json", ".config/composer/auth.json", ".config/containers/auth.json", ".config/helm/registry/"),
    *(".config/hub", ".config/glab-cli/", ".config/doctl/", ".config/hcloud/", ".config/stripe/", ".config/ngrok/"),
    *(".config/configstore/", ".fly/config.yml", ".sentryclirc", ".kaggle/kaggle.json", ".cache/huggingface/token"),
    # Credentials, histories and transcripts of other agents.
    *(".claude.json", ".claude/.credentials.json", ".claude/history*", ".claude/projects/", ".claude/file-history/"),
    *(
        ".claude/shell-snapshots/",
        ".codex/auth.json",
        ".codex/history*",
        ".codex/sessions/",
        ".codex/archived_sessions/",
    ),
    *(".gemini/oauth_creds.json", ".gemini/mcp-oauth-tokens*", ".gemini/tmp/", ".gemini/history/", ".copilot/"),
    *(
        ".config/github-copilot/",
        ".local/share/opencode/",
        ".aider*.history*",
        ".local/share/amp/",
        ".qwen/oauth_creds.json",
    ),
    # Histories of shells and consoles, and what browsers keep.
    *(".*_history", ".lesshst", ".viminfo", ".zhistory", ".histfile", ".dbshell", ".mongosh/", ".zsh_sessions/"),
    *(".local/share/fish/fish_history", ".local/share/powershell/PSReadLine/", ".local/share/atuin/"),
    *(".mozilla/", ".config/google-chrome/", ".config/chromium/", "Library/Cookies/"),
    *("/etc/shadow*", "/etc/gshadow*", "/etc/sudoers*", "/proc/*/environ", "/proc/*/mem", "/proc/*/task/*/environ"),
)
"""Patterns as in a .gitignore: at any depth unless they begin with `/`; `!` takes back; the last match wins."""

GIT = (".git/",)
"""The inside of a repository. git commands may read it; the file tools do not, as its URLs may hold passwords."""

OWN_SETTINGS = (".outrider/", ".config/outrider/", "Library/Application Support/outrider/")
"""Outrider's own settings, which a model never writes, because they hold its permissions."""

OBEYED_AT_ONCE = (
    *(".hg", ".envrc", ".mise.toml", "mise.toml", ".vscode", ".idea", ".zed", ".cursor", ".fleet", ".exrc", ".vimrc"),
    *(".nvimrc", ".nvim.lua", ".dir-locals.el", ".devcontainer", ".devcontainer.json"),
    *(".claude", ".agents", ".codex", ".gemini", ".opencode", "opencode.json", ".mcp.json"),
    *(".husky", ".pre-commit-config.yaml", "lefthook.yml", ".github/workflows", ".github/actions", ".gitlab-ci.yml"),
    *(".circleci", ".buildkite", ".woodpecker", ".travis.yml", ".drone.yml", "azure-pipelines.yml"),
    *("bitbucket-pipelines.yml", "Jenkinsfile"),
)
"""Configuration that a command with the access `write` cannot create either. Each name costs time at every command."""

CONFIGURATION = (
    *OBEYED_AT_ONCE,
    # Editors and shells.
    *(".jj", ".mise", "mise.*.toml", ".mise.*.toml", ".config/mise.toml", ".config/mise.*.toml", ".config/mise"),
    *("mise/config.toml", "mise/config.*.toml", "*.code-workspace", "*.sublime-project", ".gvimrc", ".lvimrc", ".vim"),
    *(".nvim", ".helix", ".nova", ".theia", ".vs", ".dir-locals-2.el", ".idx", ".replit", ".gitpod.yml"),
    *("devfile.yaml", ".devfile.yaml"),
    # Other agents.
    *("opencode.jsonc", ".qwen", ".kiro", ".windsurf", ".continue", ".roo", ".crush.json", "crush.json", ".amazonq"),
    *(".kilocode", ".factory", ".pi", ".openhands", ".github/hooks", ".aider.conf.yml", ".amp", ".clinerules", ".trae"),
    *(".junie", ".augment", ".goose"),
    # Hooks of version control.
    *(f"{dot}lefthook.{end}" for dot in (".", "") for end in ("yml", "yaml", "toml", "json") if dot + end != "yml"),
    *("lefthook-local.*", ".lefthook-local.*", ".config/lefthook.*", ".config/lefthook-local.*", "prek.toml"),
    *(".pre-commit-config.yml", ".overcommit.yml", ".lintstagedrc", ".lintstagedrc.*", "lint-staged.config.*"),
    *("commitlint.config.*", ".commitlintrc", ".commitlintrc.*", "simple-git-hooks.*", ".simple-git-hooks.*"),
    # CI services.
    *(".forgejo/workflows", ".gitea/workflows", ".woodpecker.yml", ".woodpecker.yaml", ".cirrus.yml", ".cirrus.yaml"),
    *(".cirrus.star", "appveyor.yml", ".appveyor.yml", ".semaphore", ".tekton", ".teamcity", ".builds", ".build.yml"),
    *(".azure-pipelines", "cloudbuild.yaml", "cloudbuild.yml", ".zuul.yaml", ".zuul.d", "zuul.yaml", "buildspec.yml"),
)
"""Configuration that a program obeys once someone enters or opens the folder, commits in it, or pushes it.

These are editors, shells, version control and its hooks, other agents, and CI services. A model changes it only if the
user agrees. Files that act when someone builds or runs the project, such as a Makefile or a package.json, are the
project's code and not listed.
"""

PROTECTED: tuple[str, ...] = (".git", ".outrider", *OBEYED_AT_ONCE)
"""Names, relative to a working folder, that commands with the access `write` cannot change or create."""

Signed: TypeAlias = tuple[bool, re.Pattern[str]]
"""Whether an expression is negated, and the expression."""


def is_secret(path: str, patterns: tuple[str, ...], folder: str) -> bool:
    """Return whether an absolute path is a secret or inside one. Inside the folder, only the rest of the path counts.

    Names are compared as by a lenient file system: without case, in any Unicode normal form.
    """
    top = folder.rstrip("/")
    beneath = path[len(top) :] if path == top or path.startswith(f"{top}/") else path
    return any(_matches(each, beneath_each, patterns) for each, beneath_each in _spellings(path, beneath))


def targets_secrets(glob: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a glob is meant to find secrets: it matches names of secrets, and no ordinary names."""
    last = glob.rstrip("/").rpartition("/")[2]
    if is_secret("/" + glob.lstrip("/"), (*patterns, *GIT), "/"):
        return True
    if not any(character in last for character in "*?[") or not any(c.isalnum() for c in last):
        return False
    found = re.compile(to_regex(last), re.IGNORECASE | re.DOTALL)
    if any(found.fullmatch(name) for name in _ORDINARY):
        return False
    return any(found.fullmatch(name) for name in _samples(patterns))


def is_in_git(path: str, folder: str) -> bool:
    """Return whether an absolute path is a repository's `.git`, or the place that one points to, or inside."""
    return is_secret(path, GIT, folder) or any(is_within(path, str(each)) for each in _repository(Path(folder)))


def is_own_setting(path: str, folder: str) -> bool:
    """Return whether an absolute path is one of Outrider's own settings."""
    return is_secret(path, OWN_SETTINGS, folder)


def is_configuration(path: str, folder: str) -> bool:
    """Return whether an absolute path is configuration of an editor, a shell, hooks or a CI service, at any depth."""
    if is_secret(path, CONFIGURATION, folder) or _makes_repository(path, folder):
        return True
    return any(is_within(path, str(each)) for each in hook_folders(Path(folder)))


def bare_head(folder: str) -> str:
    """Return the `HEAD` of a folder without `.git`, present or not; "" for one with it.

    Together with `objects` and `refs`, it makes the folder itself a repository, whose `config` names programs.
    """
    return "" if os.path.lexists(os.path.join(folder, ".git")) else os.path.join(folder, "HEAD")


def _makes_repository(path: str, folder: str) -> bool:
    """Return whether a path is the `HEAD` of a folder without `.git`, at any depth, or what git obeys beside one.

    Without `HEAD`, git obeys nothing beside it: names like `config` are ordinary.
    """
    top = folder.rstrip("/")
    if not path.startswith(f"{top}/"):
        return False
    names = _plain(path[len(top) + 1 :]).casefold().split("/")
    written = path[len(top) + 1 :].split("/")
    for at, name in enumerate(names):
        head = bare_head("/".join((top, *written[:at]))) if name in _OF_REPOSITORY else ""
        if head and ((name == "head" and at == len(names) - 1) or (name != "head" and os.path.lexists(head))):
            return True
    return False


def present_configuration(folder: str) -> list[str]:
    """Return the entries of a folder that are configuration, or hold it."""
    try:
        return [name for name in os.listdir(folder) if _holds_configuration(folder, name)]
    except OSError:
        return []


def _holds_configuration(folder: str, name: str) -> bool:
    if name.casefold() not in _ALSO_FOR_OTHERS:
        return bool(_CONFIGURATION_ENTRY.fullmatch(name))
    inner = (each.partition("/")[2] for each in CONFIGURATION if each.startswith(f"{name.casefold()}/"))
    return any(next(Path(folder, name).glob(each), None) for each in inner)


def hook_folders(folder: Path) -> tuple[Path, ...]:
    """Return the folders that git runs hooks from inside this one, beside `.git`: those that `core.hooksPath` names.

    A folder that holds this one is none: all of it would be protected.
    """
    return _hook_folders(folder, tuple(_repository(folder)))


def _hook_folders(folder: Path, repository: Sequence[Path]) -> tuple[Path, ...]:
    configs = [f"{place}/{name}" for place in repository for name in ("config", "config.worktree")]
    configs += [os.path.expanduser(name) for name in ("~/.gitconfig", "~/.config/git/config")]
    top = repository[0].parent if repository else folder
    named = (top / os.path.expanduser(value) for config in configs for value in _hook_paths(config))
    found = dict.fromkeys(Path(path) for each in named for path in (os.path.abspath(each), os.path.realpath(each)))
    return tuple(each for each in found if each != folder and each.is_relative_to(folder))


def _hook_paths(config: str) -> Iterator[str]:
    """Yield the values of `core.hooksPath` in a file of git's configuration. git itself is not started."""
    try:
        found = os.stat(config)
        if found.st_size > 1_000_000 or not stat.S_ISREG(found.st_mode):
            return
        text = Path(config).read_text(errors="replace")
    except (OSError, ValueError):
        return
    if "hookspath" not in text.lower():
        return
    section = ""
    for line in text.splitlines():
        if head := re.match(r"\s*\[\s*([^\]\s]+)[^\]]*\]", line):
            section, line = head[1].lower(), line[head.end() :]
        if section == "core" and (given := re.match(r"\s*hookspath\s*=\s*(.*)", line, re.IGNORECASE)):
            value = re.split(r"\s[#;]", given[1])[0].strip().strip('"').replace("\0", "")
            if value:
                yield value


def git_folders(folder: Path) -> tuple[Path, ...]:
    """Return the `.git` of a folder, present or not, that of the repository around it, and where they lead.

    In a worktree or a submodule, `.git` is a file that names the folder with the configuration and the hooks.
    """
    return tuple(dict.fromkeys((folder / ".git", *_repository(folder))))


def repository_paths(folder: Path) -> tuple[Path, ...]:
    """Return `git_folders` and `hook_folders` of a folder, with one look at its repository."""
    repository = tuple(_repository(folder))
    return (folder / ".git", *repository, *_hook_folders(folder, repository))


def _repository(folder: Path) -> Iterator[Path]:
    """Yield the `.git` of the repository around a folder, then where it leads."""
    for each in (folder, *folder.parents):
        dot = os.path.join(each, ".git")
        if os.path.lexists(dot) and not is_placeholder(dot):
            yield Path(dot)
            yield from _targets(Path(dot))
            return


def _targets(dot: Path) -> Iterator[Path]:
    """Yield the folders that a `.git` leads to. A path that does not look like a repository is not believed."""
    try:
        real = Path(real_path(dot))
        if real.is_file():
            text = real.read_text(errors="replace") if real.stat().st_size < 10_000 else ""
            real = Path(os.path.realpath(real.parent / text.removeprefix("gitdir:").strip()))
        if not (real / "HEAD").is_file():
            return
        yield real
        common = real / "commondir"
        if common.is_file() and common.stat().st_size < 10_000:
            shared = Path(os.path.realpath(real / common.read_text(errors="replace").strip()))
            if (shared / "HEAD").is_file():
                yield shared
    except (OSError, ValueError):
        return


_CONFIGURATION_ENTRY = re.compile(
    "|".join(to_regex(name.partition("/")[0]) for name in CONFIGURATION), re.IGNORECASE | re.DOTALL
)
_ALSO_FOR_OTHERS = frozenset((".config", "mise"))
"""Folders that hold configuration, and also what only the project reads."""
_OF_REPOSITORY = frozenset(
    (
        "head",
        "config",
        "config.worktree",
        "commondir",
        "objects",
        "refs",
        "packed-refs",
        "hooks",
        "worktrees",
        "modules",
    )
)
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
    # Some file systems ignore hidden characters when they compare names.
    text = path if path.isascii() else HIDDEN.sub("", unicodedata.normalize("NFC", path)).casefold()
    if " " not in text and "./" not in text and not text.endswith("."):
        return text
    return "/".join(name.rstrip(" .") or name for name in text.split("/"))


def _matches(path: str, beneath: str, patterns: tuple[str, ...]) -> bool:
    if not _candidate(patterns).search(path):
        return False
    floating, anchored = _compiled(patterns)
    return any(_last_match(prefix, floating) for prefix in _prefixes(beneath)) or any(
        _last_match(prefix, anchored) for prefix in _prefixes(path)
    )


def _last_match(path: str, patterns: Iterable[Signed]) -> bool:
    """Return the result of the last expression that matches this path itself."""
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


class _Body(NamedTuple):
    """A pattern as a regular expression, without the slash that it begins with."""

    negated: bool
    at_root: bool
    regex: str


@functools.lru_cache(maxsize=64)
def _bodies(patterns: tuple[str, ...]) -> tuple[_Body, ...]:
    return tuple(
        _Body(written.startswith("!"), pattern.startswith("/"), to_regex(pattern.lstrip("/")))
        for written in patterns
        for pattern in alternatives(written.removeprefix("!").rstrip("/"))
    )


@functools.lru_cache(maxsize=64)
def _candidate(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Return one expression that matches every path that may be a secret. Most paths need no other."""
    hints = [body for body in _bodies(patterns) if not body.negated]
    groups = ([body for body in hints if body.at_root == at_root] for at_root in (False, True))
    return re.compile("|".join(_any_of(group, r"(?:/|\Z)") for group in groups if group) or "(?!)", re.I | re.S)


@functools.lru_cache(maxsize=64)
def _compiled(patterns: tuple[str, ...]) -> tuple[list[Signed], list[Signed]]:
    """Return the patterns at any depth, and those from the root. Neighbours that say the same are one expression."""
    bodies = _bodies(patterns)
    return _merged(body for body in bodies if not body.at_root), _merged(body for body in bodies if body.at_root)


def _merged(bodies: Iterable[_Body]) -> list[Signed]:
    runs = itertools.groupby(bodies, key=lambda body: body.negated)
    return [(negated, re.compile(_any_of(list(run), r"\Z"), re.I | re.S)) for negated, run in runs]


def _any_of(bodies: Sequence[_Body], end: str) -> str:
    """Return one expression for bodies that are all at the root, or none. What they share is looked for once."""
    start = "^/" if bodies[0].at_root else "/"
    return f"{start}(?:{'|'.join(body.regex for body in bodies)}){end}"


@functools.lru_cache(maxsize=64)
def _samples(patterns: tuple[str, ...]) -> tuple[str, ...]:
    names = (pattern.strip("/").rpartition("/")[2].replace("*", "x") for pattern in patterns if pattern[:1] != "!")
    return tuple(names) + tuple(name.replace("*", "") for name in patterns if "/" not in name and name[:1] != "!")
