"""Batches: many tasks, each in a durable session of its own, on many workers."""

from outrider.exports import lazy

TYPE_CHECKING = False  # as in typing: nothing is imported before it is used
if TYPE_CHECKING:
    from outrider.batches.collector import BatchOptions as BatchOptions
    from outrider.batches.collector import batch as batch
    from outrider.batches.queue import BatchLimits as BatchLimits
    from outrider.batches.task import Task as Task
    from outrider.batches.task import TaskResult as TaskResult
    from outrider.batches.task import UnknownCall as UnknownCall

_EXPORTED = {
    "outrider.batches.collector": "BatchOptions batch",
    "outrider.batches.queue": "BatchLimits",
    "outrider.batches.task": "Task TaskResult UnknownCall",
}

__all__ = sorted(" ".join(_EXPORTED.values()).split())

if not TYPE_CHECKING:
    __getattr__ = lazy(__name__, _EXPORTED)
