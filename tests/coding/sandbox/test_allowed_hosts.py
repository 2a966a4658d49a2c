"""The entries of `sandbox.allow_hosts`."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.coding.config.loading import load
from outrider.coding.sandbox.allowed_hosts import AllowedHosts, parse_entry
from outrider.errors import ConfigError


@pytest.mark.parametrize(
    ("entry", "host", "port", "allowed"),
    [
        ("pypi.org", "pypi.org", 443, True),
        ("pypi.org", "PyPI.org.", 80, True),
        ("pypi.org", "pypi.org", 8080, False),
        ("pypi.org:8080", "pypi.org", 8080, True),
        ("pypi.org:8080", "pypi.org", 443, False),
        ("pypi.org", "files.pypi.org", 443, False),
        ("*.pypi.org", "files.pypi.org", 443, True),
        ("*.pypi.org", "a.b.pypi.org", 443, True),
        ("*.pypi.org", "pypi.org", 443, False),
        ("*.pypi.org", "evilpypi.org", 443, False),
        ("*.pypi.org", "files.pypi.org.evil", 443, False),
        ("*", "anything.example", 443, True),
        ("*", "anything.example", 22, False),
        ("bücher.example", "xn--bcher-kva.example", 443, True),
        ("10.0.0.0/8", "pypi.org", 443, False),
    ],
)
def test_names(entry: str, host: str, port: int, allowed: bool) -> None:
    assert AllowedHosts([entry]).allows_name(host, port) is allowed


@pytest.mark.parametrize(
    ("entry", "address", "port", "named"),
    [
        ("10.0.0.5", "10.0.0.5", 443, True),
        ("10.0.0.5", "10.0.0.6", 443, False),
        ("10.0.0.5:22", "10.0.0.5", 22, True),
        ("10.0.0.5:22", "10.0.0.5", 443, False),
        ("10.0.0.0/8:22", "10.9.9.9", 22, True),
        ("[::1]:8080", "::1", 8080, True),
        ("fd00::/8", "fd12::1", 443, True),
        ("localhost:3000", "127.0.0.1", 3000, True),
        ("localhost:3000", "127.0.0.1", 5432, False),
        ("*", "127.0.0.1", 443, False),
    ],
)
def test_addresses(entry: str, address: str, port: int, named: bool) -> None:
    assert AllowedHosts([entry]).names_address(address, port) is named


@pytest.mark.parametrize(
    "entry",
    [
        *(
            "https://pypi.org",
            "pypi.org/simple",
            "pypi.org:",
            "pypi.org:0",
            "pypi.org:70000",
            "pypi.org:x",
            "a b",
            "-:-",
        ),
        *(
            "127.1",
            "0x7f.1",
            "2130706433",
            "10.0.0.5/8",
            "10.0.0.0/33",
            "[::1",
            "*.*",
            "a.*.org",
            "user@host",
            "a..b",
            ".",
        ),
    ],
)
def test_what_is_no_entry_is_an_error(entry: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        parse_entry(entry)
    (tmp_path / ".outrider").mkdir()
    (tmp_path / ".outrider" / "config.toml").write_text(f'[sandbox]\nallow_hosts = ["pypi.org", "{entry}"]\n')
    with pytest.raises(ConfigError, match=r"sandbox\.allow_hosts"):
        load(tmp_path, environment={})
