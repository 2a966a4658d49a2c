"""The events of a session, for observers and for `stream`: the public address of `outrider.runtime.events`.

`encode_json(event)` returns an event as JSON, for a browser or another process.
"""

from outrider.runtime.events import Compacted as Compacted
from outrider.runtime.events import CompactionReason as CompactionReason
from outrider.runtime.events import CompactionStarted as CompactionStarted
from outrider.runtime.events import Delta as Delta
from outrider.runtime.events import Event as Event
from outrider.runtime.events import GoalChecked as GoalChecked
from outrider.runtime.events import GoalCheckStarted as GoalCheckStarted
from outrider.runtime.events import HandedOff as HandedOff
from outrider.runtime.events import MessageAdded as MessageAdded
from outrider.runtime.events import ModelSwitched as ModelSwitched
from outrider.runtime.events import Notice as Notice
from outrider.runtime.events import OwnEvent as OwnEvent
from outrider.runtime.events import PartialOutput as PartialOutput
from outrider.runtime.events import QuestionAnswered as QuestionAnswered
from outrider.runtime.events import QuestionAsked as QuestionAsked
from outrider.runtime.events import ReplyDiscarded as ReplyDiscarded
from outrider.runtime.events import ResultsCleared as ResultsCleared
from outrider.runtime.events import Retrying as Retrying
from outrider.runtime.events import RunFinished as RunFinished
from outrider.runtime.events import RunStatus as RunStatus
from outrider.runtime.events import ServerToolFinished as ServerToolFinished
from outrider.runtime.events import ServerToolStarted as ServerToolStarted
from outrider.runtime.events import SteeringQueued as SteeringQueued
from outrider.runtime.events import SteeringWithdrawn as SteeringWithdrawn
from outrider.runtime.events import SubagentEvent as SubagentEvent
from outrider.runtime.events import SubagentFinished as SubagentFinished
from outrider.runtime.events import SubagentStarted as SubagentStarted
from outrider.runtime.events import TextDelta as TextDelta
from outrider.runtime.events import ThinkingDelta as ThinkingDelta
from outrider.runtime.events import TitleMade as TitleMade
from outrider.runtime.events import ToolCallDelta as ToolCallDelta
from outrider.runtime.events import ToolFinished as ToolFinished
from outrider.runtime.events import ToolProgress as ToolProgress
from outrider.runtime.events import ToolStarted as ToolStarted
from outrider.runtime.events import TurnStarted as TurnStarted
from outrider.runtime.events import encode_json as encode_json
