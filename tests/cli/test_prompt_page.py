"""docs/print.md says what is true of `outrider -p`: flags, exit codes, shapes and examples."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import get_args

from outrider.cli.options import settings_from
from outrider.cli.prompt import FORMATS, make_parser, parse
from outrider.cli.prompt_output import PromptOutcome
from outrider.runtime.events import Event
from tests.cli.program import outrider

PAGE = (Path(__file__).parents[2] / "docs" / "print.md").read_text()


def test_every_flag_stands_on_the_page_and_no_other() -> None:
    named = set(re.findall(r"(?<![\w-])(--?[a-z][a-z-]*)", "\n".join(re.findall(r"^\| (`-.*?) \|", PAGE, re.M))))
    known = {option for action in make_parser()._actions for option in action.option_strings}
    assert named == known - {"-h", "--help"}


def test_the_exit_codes_of_the_page_are_those_of_the_help() -> None:
    codes = re.findall(r"^\| (\d+) \|", PAGE, re.M)
    line = outrider("-p", "--help").stdout.partition("exit codes:")[2]
    assert codes == ["0", "1", "2", "3", "4", "5", "6", "129", "130", "143"] == re.findall(r"\b\d+\b", line)


def test_the_type_of_an_event_is_its_name_in_snake_case() -> None:
    """So the table of events in docs/api.md, which another test compares with their fields, is that of the lines."""
    for kind in get_args(Event):
        assert kind.__struct_config__.tag == re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


def test_the_result_object_has_the_fields_of_the_page() -> None:
    (example,) = re.findall(r"^```json\n(.*?)^```", PAGE, re.M | re.S)
    shown = json.loads(example)
    really = json.loads(outrider("-p", "What is 2+2?", "--model", "demo", "--output-format", "json").stdout)
    assert shown | {"session": really["session"]} == really
    assert list(shown) == list(really) == list(PromptOutcome("done").fields())
    for name in (*FORMATS, *shown, "error", "stop_reason"):
        assert f"`{name}`" in PAGE or f'"{name}"' in PAGE


def test_the_python_of_the_page_runs(tmp_path: Path) -> None:
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S))
    ended = subprocess.run([sys.executable, "-"], input=code, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr


def test_the_commands_of_the_page_are_understood() -> None:
    """Each line of shell, as far as its flags go: what it names is not here."""
    (lines,) = re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S)
    for line in lines.splitlines():
        words = shlex.split(line.partition(" | jq")[0].rpartition("| ")[2])
        assert words[0] == "outrider"
        settings_from(parse(words[1:]))
