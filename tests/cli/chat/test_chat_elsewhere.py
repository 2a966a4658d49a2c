"""The chat with its hands on another machine: over a real sshd on loopback, whose connection is cut, too."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.chat.terminal import Terminal, answered_by
from tests.modelserver import ModelServer
from tests.ssh_server import SshServer, needs_sshd
from tests.streams import Answer


@needs_sshd
async def test_files_are_edited_over_ssh_and_a_cut_connection_comes_back(project: Path, tmp_path: Path) -> None:
    """The header and the status say where; questions come here; an edit happens there; keys do not go there."""
    there = tmp_path / "there"
    there.mkdir()
    (there / "AGENTS.md").write_text("Speak softly.")
    (there / "plan.txt").write_text("Sow in March.\n")
    wait = f"touch {tmp_path}/begun; sleep 60; touch late"
    replies = [
        Answer("", (("c1", "Read", {"file_path": "plan.txt"}),)),
        Answer("", (("c2", "Edit", {"file_path": "plan.txt", "old_string": "March", "new_string": "April"}),)),
        Answer("", (("c3", "Bash", {"command": "env > env.txt; pwd", "access": "full"}),)),
        Answer("Moved."),
        Answer("", (("c4", "Bash", {"command": wait, "access": "full"}),)),
        Answer("", (("c5", "Read", {"file_path": "plan.txt"}),)),
        Answer("Back again."),
    ]
    with SshServer(tmp_path / "sshd") as sshd:
        async with (
            ModelServer(replies) as server,
            Terminal(
                *("--in", f"ssh://there{there}"), cwd=project, columns=120, **answered_by(server) | {"PATH": sshd.path}
            ) as terminal,
        ):
            await terminal.wait_for_prompt()
            assert re.search(rf"Outrider \S+ in ssh://there{there}", terminal.transcript.replace("\n", ""))
            await terminal.wait_for("sandbox in ssh://there")
            terminal.say("Move it by a month.")
            await terminal.wait_for("esc cancel")
            assert (there / "plan.txt").read_text() == "Sow in March.\n"
            terminal.press("y")
            await terminal.wait_for(re.compile(r"Bash\(env.*esc cancel", re.S))
            assert (there / "plan.txt").read_text() == "Sow in April.\n"
            terminal.press("y")
            await terminal.wait_for("Moved.")
            variables = (there / "env.txt").read_text()
            assert "ANTHROPIC" not in variables
            assert "OUTRIDER_HOME" not in variables
            assert str(there) in str(server.requests[-1].body)
            assert "Speak softly." in str(server.requests[0].body)

            await terminal.wait_for_prompt()
            terminal.say("Wait a little.")
            await terminal.wait_for(re.compile(r"Bash\(touch.*esc cancel", re.S))
            terminal.press("y")
            await terminal.wait_for((tmp_path / "begun").exists)
            assert sshd.cut()
            await terminal.wait_for("Back again.")
            assert "is unknown" in str(server.requests[5].body)
            assert "Sow in April." in str(server.requests[6].body)
            assert not (there / "late").exists()
    assert list((tmp_path / "sshd" / "cache" / "outrider" / "hands").glob("*.pyz"))
    assert not (project / "plan.txt").exists()


@needs_sshd
async def test_a_place_that_cannot_be_reached_is_one_sentence(project: Path, tmp_path: Path) -> None:
    with SshServer(tmp_path / "sshd") as sshd:
        (sshd.folder / "user_key.pub").write_text("")
        async with Terminal(
            "--model", "demo", "--in", "ssh://there/srv", cwd=project, columns=160, PATH=sshd.path
        ) as terminal:
            await terminal.wait_for(lambda: terminal.process.poll() is not None)
            said = " ".join(terminal.transcript.split())
            assert "outrider: the hands in ssh://there/srv cannot be reached:" in said
            assert "Permission denied (publickey)" in said
            assert terminal.process.returncode == 1
