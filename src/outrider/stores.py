"""Where the bytes of files are kept: the public address of `outrider.conversation.store`."""

from outrider.conversation.store import AttachmentStore as AttachmentStore
from outrider.conversation.store import FolderStore as FolderStore
from outrider.conversation.store import MemoryStore as MemoryStore
