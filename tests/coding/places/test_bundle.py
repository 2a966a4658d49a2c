"""What a bundle has, for which Python, and where msgspec comes from for another one."""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest

from outrider.coding.hands.bundle import Target, find_bundle, make_bundle
from outrider.errors import HandsError
from tests.cli.program import outrider

OTHER = 12 if sys.version_info.minor == 13 else 13
"""The minor number of another Python than this one."""
ELSEWHERE = Target(f"3.{OTHER}", "linux-riscv64", "musl")


def names_in(content: bytes) -> list[str]:
    return zipfile.ZipFile(io.BytesIO(content)).namelist()


def test_a_bundle_is_small_has_one_compiled_part_and_is_made_once() -> None:
    content = find_bundle(Target.here())
    names = names_in(content)
    assert len(content) < 2_500_000
    assert [name.partition("/")[0] for name in names if name.endswith(".so")] == ["msgspec"]
    left_out = ("outrider/web", "outrider/acp", "outrider/log/sqlite", "outrider/providers/adapters")
    assert not [name for name in names if name.startswith(left_out)]
    assert find_bundle(Target.here()) == content


@pytest.mark.parametrize("text", ["3.12-linux-x86_64", "3.11-linux-aarch64-musl", "3.13-macosx-11.0-arm64"])
def test_a_target_is_written_as_it_is_read(text: str) -> None:
    assert str(Target.parse(text)) == text


@pytest.mark.parametrize("text", ["", "3.12", "linux-x86_64", "3.12-linux/../x", "2.7-linux-x86_64"])
def test_what_is_no_target(text: str) -> None:
    with pytest.raises(HandsError, match="is not a Python and a platform; write it as in 3"):
        Target.parse(text)


def test_msgspec_for_another_platform_is_a_wheel_that_pip_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = msgspec.__version__
    with zipfile.ZipFile(tmp_path / f"msgspec-{version}-cp3{OTHER}-cp3{OTHER}-musllinux_1_2_riscv64.whl", "w") as wheel:
        wheel.writestr(f"msgspec/_core.cpython-3{OTHER}-riscv64-linux-musl.so", "machine code")
        wheel.writestr("msgspec/__init__.py", "")
        wheel.writestr("evil.py", "print('outside')")
        wheel.writestr(
            f"msgspec-{version}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: msgspec\nVersion: {version}\n"
        )
        wheel.writestr(
            f"msgspec-{version}.dist-info/WHEEL",
            f"Wheel-Version: 1.0\nTag: cp3{OTHER}-cp3{OTHER}-musllinux_1_2_riscv64\n",
        )
        wheel.writestr(f"msgspec-{version}.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    names = names_in(make_bundle(ELSEWHERE))
    assert f"msgspec/_core.cpython-3{OTHER}-riscv64-linux-musl.so" in names
    assert "evil.py" not in names
    assert not [name for name in names if name.endswith(".pyc")], "bytecode is of one version of Python"


def test_without_a_network_the_error_says_what_to_do(tmp_path: Path) -> None:
    arguments = ("hands", "--bundle", "hands.pyz", "--for", "3.13-linux-riscv64")
    ended = outrider(*arguments, cwd=tmp_path, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path))
    assert ended.returncode == 1
    assert "msgspec for Python 3.13-linux-riscv64 cannot be downloaded" in ended.stderr
    assert "copy it there, and use a command that ends with `python3 hands.pyz`" in ended.stderr
    assert not list(tmp_path.iterdir())
