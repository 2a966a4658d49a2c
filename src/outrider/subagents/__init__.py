"""Sub-agents: the Task tool, and the profiles of those whom it sends out."""

from outrider.subagents.delegating import with_subagents as with_subagents
from outrider.subagents.profile import Profile as Profile
from outrider.subagents.spawning import spawn as spawn
