"""The environment of commands: what is removed, what stays, and what the user passes on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from outrider.coding.command_environment import command_environment, unset_variables
from outrider.coding.config.loading import load
from outrider.coding.workbench import Workbench
from outrider.providers.credentials.secrets import MODEL_KEYS
from tests.coding.toolbox.calling import call

SECRET = [
    *MODEL_KEYS,
    *("NVIDIA_NIM_API_KEY", "HUGGINGFACE_API_KEY", "AWS_BEARER_TOKEN_BEDROCK", "GITHUB_TOKEN", "GH_TOKEN", "HF_TOKEN"),
    *(
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "PGPASSWORD",
        "pgpassword",
        "MYSQL_PWD",
        "my_secret",
        "Db_PassWord",
    ),
    *("GOOGLE_APPLICATION_CREDENTIALS", "NPM_CONFIG__AUTH", "REDISCLI_AUTH", "AZURE_DEVOPS_PAT", "SMTP_PASS"),
    *("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"),
    *("PASS", "pass", "PW", "DB_PW", "DOCKER_AUTH_CONFIG", "AZURE_STORAGE_CONNECTION_STRING", "ConnectionString"),
    "OUTRIDER_LOG_KEY",
]
HARMLESS = [
    "HOME",
    "PWD",
    "OLDPWD",
    "SSH_AUTH_SOCK",
    "XAUTHORITY",
    "GPG_TTY",
    "COMPASS",
    "BYPASS_CACHE",
    "GIT_ASKPASS",
    "GIT_AUTHOR_NAME",
    "LANG",
    "VIRTUAL_ENV",
]


@pytest.mark.parametrize("name", SECRET)
def test_secrets_are_removed_by_name(name: str) -> None:
    assert command_environment({name: "x", "HOME": "/h"}) == {"HOME": "/h"}
    assert name in unset_variables({name: "x"})


@pytest.mark.parametrize("name", HARMLESS)
def test_ordinary_variables_stay(name: str) -> None:
    assert command_environment({name: "/x"}) == {name: "/x"}
    assert name not in unset_variables({name: "/x"})


@pytest.mark.parametrize(
    "value",
    [
        *("postgres://me:hunter2@db/x", "redis://:hunter2@db", "x sk-ant-REDACTED", "ghp_012345678901234567890123"),
        *("https://hunter2@git.example/x.git", "HTTPS://hunter2@o1.ingest.sentry.io/2", "a,http://me@proxy:8080"),
        *(
            "postgresql://db/x?password=hunter2",
            "postgresql://db/x?user=me&sslpassword=hunter2",
            "ws://h/?token=hunter2",
        ),
        *("https://s.blob.example/c?sv=2020&sig=hunter2", "https://b.s3.example/k?X-Amz-Signature=hunter2"),
        *("host=db user=me password=hunter2", "Server=db;Uid=me;Pwd=hunter2;", "password = hunter2"),
        "jdbc:sqlserver://db;user=me;password=hunter2",
    ],
)
def test_secrets_are_removed_by_value(value: str) -> None:
    assert command_environment({"DATABASE_URL": value}) == {}
    assert "DATABASE_URL" in unset_variables({"DATABASE_URL": value})


@pytest.mark.parametrize(
    "value",
    [
        *("https://example.com/a:b", "postgres://db/x", "postgresql://me@db/x?sslmode=require", "a:b@c"),
        *("https://host:8080/@scope/name", "git@git.example:x.git", "ssh://git@git.example/x", "https://h/?design=1"),
        *("https://h/?page=2&sort=key", "--no-password-prompt", "/keys?x"),
    ],
)
def test_a_url_without_a_password_stays(value: str) -> None:
    assert command_environment({"DATABASE_URL": value}) == {"DATABASE_URL": value}


def test_the_user_passes_variables_on_by_name() -> None:
    environ = {"GITHUB_TOKEN": "t", "OPENAI_API_KEY": "k", "BASH_ENV": "/evil", "BASH_FUNC_ls%%": "() { :; }"}
    assert command_environment(environ, ["GITHUB_TOKEN", "BASH_ENV", "BASH_FUNC_ls%%"]) == {"GITHUB_TOKEN": "t"}
    unset = unset_variables(environ, ["GITHUB_TOKEN", "BASH_ENV"])
    assert "GITHUB_TOKEN" not in unset
    assert {"OPENAI_API_KEY", "BASH_ENV"} <= set(unset)


def test_the_path_has_absolute_entries_only() -> None:
    assert command_environment({"PATH": os.pathsep.join(["/bin", ".", "", "node_modules/.bin"])}) == {"PATH": "/bin"}


@pytest.mark.parametrize(("passed", "shown"), [((), []), (["my_token"], ["my_token=hunter2"])])
async def test_commands_see_what_is_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passed: Any, shown: list[str]
) -> None:
    monkeypatch.setenv("my_token", "hunter2")
    monkeypatch.setenv("Other_Key", "hunter3")
    monkeypatch.setenv("OUTRIDER_SANDBOX", "off")
    loaded = load(tmp_path, environment=os.environ, flags={"sandbox.pass_env": passed})
    bench = Workbench(loaded.settings, tmp_path)
    try:
        (bash,) = (tool for tool in bench.tools if tool.name == "Bash")
        printed = (await call(bash, command="env; tr '\\0' '\\n' < /proc/$$/environ")).text
    finally:
        bench.close()
    assert sorted({line for line in printed.splitlines() if "hunter" in line}) == shown
