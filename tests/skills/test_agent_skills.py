"""Skills of an agent in Python: `Agent(skills=[…])`."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider import Agent
from outrider.errors import ConfigError
from outrider.providers.catalogue.windows import estimated_tokens
from outrider.skills.skill import Skill, list_skills
from outrider.testing import ScriptedModel, call
from tests.skills.samples import many_skills, write_skill


async def test_a_model_reads_a_skill_and_a_file_beside_it_and_nothing_else(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, "pdf", "Fill PDF forms", "See forms.md.")
    (folder / "forms.md").write_text("Use ink.")
    (tmp_path / "secret.txt").write_text("hidden")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    wanted = [folder / "SKILL.md", folder / "forms.md", folder / "link.txt", folder / "../secret.txt"]
    model = ScriptedModel([[call("Read", file_path=str(each)) for each in wanted], "Done."])
    agent = Agent(model, skills=[folder])
    assert "- pdf: Fill PDF forms" in agent.system_prompt
    result = await agent.run("Fill it")
    texts = [each.text for each in result.conversation[2].tool_results]
    assert "See forms.md." in texts[0]
    assert texts[1] == "Use ink."
    assert [text.endswith("is not a file of a skill.") for text in texts[2:]] == [True, True]


def test_skills_are_folders_and_a_wrong_one_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        Agent("demo", skills=[tmp_path / "nowhere"])
    with pytest.raises(TypeError, match="list of folders"):
        Agent("demo", skills="skills/pdf")


def test_a_tool_named_read_of_the_agent_stays(tmp_path: Path) -> None:
    def Read(file_path: str) -> str:
        return file_path

    agent = Agent("demo", tools=[Read], skills=[write_skill(tmp_path, "pdf")])
    assert [tool.name for tool in agent.tools] == ["Read"]
    assert len(agent.replace(system="x").tools) == 1


async def test_500_skills_take_at_most_2000_tokens_and_the_right_one_is_found(tmp_path: Path) -> None:
    skills = [Skill.of(folder) for folder in many_skills(tmp_path)]
    listing = list_skills(skills, "index")
    assert estimated_tokens(listing.text) <= 2_000
    assert listing.text.count("\n- ") + len(listing.unlisted) == 500
    assert f"{len(listing.unlisted)} more skills" in listing.text
    model = ScriptedModel([call("Grep", pattern="invoice|order", path="skills-index.txt"), "Done."])
    result = await Agent(model, skills=skills).run("Check this invoice")
    (hits,) = result.conversation[2].tool_results
    assert hits.text.startswith("- skill-321: Check an invoice")
