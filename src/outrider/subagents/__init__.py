"""Sub-agents: the Task tool, which starts them, and their profiles."""

from outrider.subagents.delegation import with_subagents as with_subagents
from outrider.subagents.profile import Profile as Profile
from outrider.subagents.task import spawn as spawn
