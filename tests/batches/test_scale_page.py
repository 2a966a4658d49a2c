"""The examples for many machines can be read, and fit the program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench.scale_simulation import SETUPS, Setup, simulate

from outrider.cli.worker import make_parser

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "scale"


def documents(name: str) -> list[Any]:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    return list(yaml.safe_load_all((EXAMPLES / name).read_text()))


def test_the_compose_file_starts_workers() -> None:
    (compose,) = documents("compose.yaml")
    worker = compose["services"]["worker"]
    assert worker["environment"]["OUTRIDER_LOG"].startswith("postgresql://")
    assert set(worker["depends_on"]) <= set(compose["services"])
    shell = worker["command"][-1]
    make_parser().parse_args(shell.partition("outrider worker ")[2].split())


def test_the_kubernetes_manifest_starts_workers() -> None:
    secret, deployment = documents("kubernetes.yaml")
    assert (secret["kind"], deployment["kind"]) == ("Secret", "Deployment")
    spec = deployment["spec"]
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": secret["metadata"]["name"]}}]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    program, command, *arguments = container["args"]
    assert (program, command) == ("outrider", "worker")
    make_parser().parse_args(arguments)


def test_the_simulation_finds_the_bottleneck_of_polling() -> None:
    many, few = simulate(Setup(200, 1, 0.02, 1)), simulate(Setup(200, 20, 0.02, 1))
    assert many.busy > 0.95
    assert few.busy < 0.5
    assert few.wait < many.wait


def test_the_page_has_the_table_of_the_simulation() -> None:
    page = (ROOT / "bench" / "README.md").read_text()
    for setup in SETUPS:
        assert f"| {setup.workers:,} | {setup.processes:,} |" in page
