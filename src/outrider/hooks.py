"""What hooks receive and return: the public address of `outrider.runtime.hooks`."""

from outrider.runtime.hooks import AfterTool as AfterTool
from outrider.runtime.hooks import BeforeCompaction as BeforeCompaction
from outrider.runtime.hooks import BeforeTool as BeforeTool
from outrider.runtime.hooks import Hook as Hook
from outrider.runtime.hooks import HookEvent as HookEvent
from outrider.runtime.hooks import HookResult as HookResult
from outrider.runtime.hooks import Notification as Notification
from outrider.runtime.hooks import PromptSubmitted as PromptSubmitted
from outrider.runtime.hooks import SessionEnd as SessionEnd
from outrider.runtime.hooks import SessionStart as SessionStart
from outrider.runtime.hooks import Stop as Stop
from outrider.runtime.hooks import SubagentStop as SubagentStop
