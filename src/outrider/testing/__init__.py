"""For tests of your own agents and tools: no network, deterministic, failures on demand.

ScriptedModel       a model that replies from a script
call, malformed_call
                    calls of tools in a script
Delay, Cut          a reply that is slow, or whose stream ends early
Step                the type of a step of a script
TestModel           a model that calls every tool with valid arguments, and then answers
Recorded            a recorded session as a model: the same replies to the same requests
other_replies       another model, asked at each step of a recorded session
replay              run a recorded session again, and name the first difference
no_real_requests    a block in which requests to real models are refused
tool_context        a ToolContext for unit tests of tools
"""

from outrider.replay.other_model import other_replies
from outrider.replay.replayer import replay
from outrider.testing.contexts import tool_context
from outrider.testing.real_requests import no_real_requests
from outrider.testing.recorded import Recorded
from outrider.testing.scripted import Cut, Delay, ScriptedModel, Step, call, malformed_call
from outrider.testing.test_model import TestModel

__all__ = [
    "Cut",
    "Delay",
    "Recorded",
    "ScriptedModel",
    "Step",
    "TestModel",
    "call",
    "malformed_call",
    "no_real_requests",
    "other_replies",
    "replay",
    "tool_context",
]
