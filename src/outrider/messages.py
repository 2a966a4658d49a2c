"""What conversations are made of: the public address of `outrider.conversation.messages`."""

from outrider.conversation.messages import AttachmentBlock as AttachmentBlock
from outrider.conversation.messages import Block as Block
from outrider.conversation.messages import Citation as Citation
from outrider.conversation.messages import Outcome as Outcome
from outrider.conversation.messages import ProviderState as ProviderState
from outrider.conversation.messages import RawBlock as RawBlock
from outrider.conversation.messages import Role as Role
from outrider.conversation.messages import ServerToolResultBlock as ServerToolResultBlock
from outrider.conversation.messages import ServerToolUseBlock as ServerToolUseBlock
from outrider.conversation.messages import ThinkingBlock as ThinkingBlock
