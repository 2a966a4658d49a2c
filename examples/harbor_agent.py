"""Outrider as an agent of Harbor, for its tasks and data sets (Terminal-Bench and others).

    pip install harbor                  # needs Python 3.12 or newer
    make dist                           # in a checkout of Outrider: builds the wheel
    harbor run -p evals/tasks --agent-import-path examples.harbor_agent:OutriderAgent \\
        -m anthropic/balanced --ak wheel=dist/outrider-0.4.0-py3-none-any.whl

The wheel is installed into each task's container, which needs Python 3.11 or newer. The agent works there with the
permissions `all`: the container is the sandbox. Its trajectory (ATIF) and its log are with the trial's files.
"""

# mypy: disable-error-code="import-not-found, misc, untyped-decorator, no-any-unimported"

import json
import shlex
from pathlib import Path
from typing import Any

from harbor.agents.capabilities import AgentCapabilities
from harbor.agents.installed.base import BaseInstalledAgent, with_prompt_template
from harbor.agents.model_connection import ModelConnectionSpec
from harbor.agents.options import InstalledAgentOptions
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext
from harbor.models.trajectories import Trajectory
from pydantic import Field

FOLDER = "/installed-agent/outrider"


class OutriderOptions(InstalledAgentOptions):
    """What `--ak NAME=VALUE` sets."""

    wheel: Path = Field(description="The wheel of Outrider to install.")
    effort: str | None = Field(default=None, description="How much the model thinks: none, low, medium, high, max.")
    max_cost: float | None = Field(default=None, description="Stop when the task has cost so many dollars.")


class OutriderAgent(BaseInstalledAgent):
    """Runs `outrider -p` in the environment, and brings back the trajectory."""

    capabilities = AgentCapabilities(atif=True)
    MODEL_CONNECTION = ModelConnectionSpec(passthrough=True)
    options_model = OutriderOptions
    options: OutriderOptions

    @staticmethod
    def name() -> str:
        return "outrider"

    def get_version_command(self) -> str | None:
        return f"{FOLDER}/bin/outrider --version"

    async def install(self, environment: BaseEnvironment) -> None:
        await self.ensure_system_dependencies(environment, ("python3",))
        wheel = f"/installed-agent/{self.options.wheel.name}"
        await environment.upload_file(self.options.wheel, wheel)
        await self.exec_as_root(
            environment,
            f"python3 -m venv {FOLDER} && {FOLDER}/bin/pip install --quiet {shlex.quote(wheel)}",
        )

    @with_prompt_template
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        """Let the agent work. A run that ends at a limit is no error: the task's tests judge what is there."""
        logs = self.environment_logs_dir
        options = ["--permissions", "all", "--output-format", "json"]
        options += ["--model", self.model_name] if self.model_name else []
        options += ["--effort", self.options.effort] if self.options.effort else []
        options += ["--max-cost", str(self.options.max_cost)] if self.options.max_cost else []
        outrider = f"OUTRIDER_HOME={shlex.quote(str(logs / 'outrider'))} {FOLDER}/bin/outrider"
        result = shlex.quote(str(logs / "result.json"))
        session = f"$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[\"session\"])' {result})"
        await self.exec_as_agent(
            environment,
            f"{outrider} -p {shlex.join([instruction, *options])} > {result}; "
            f"{outrider} sessions export {session} --format atif > {shlex.quote(str(logs / 'trajectory.json'))}",
            env=dict(self.model_connection.env),
        )

    def populate_context_post_run(self, context: AgentContext) -> None:
        path = self.logs_dir / "trajectory.json"
        if not path.is_file():
            return
        found: dict[str, Any] = json.loads(path.read_text())
        metrics = Trajectory.model_validate(found).final_metrics
        if metrics:
            context.n_input_tokens = metrics.total_prompt_tokens
            context.n_cache_tokens = metrics.total_cached_tokens
            context.n_output_tokens = metrics.total_completion_tokens
            context.cost_usd = metrics.total_cost_usd
