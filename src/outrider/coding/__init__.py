"""The coding agent: settings, permissions and tools for work in a folder."""

from outrider.exports import lazy

TYPE_CHECKING = False  # as in typing: nothing is imported before it is used
if TYPE_CHECKING:
    from outrider.coding.hands.hands import workspace_at as workspace_at
    from outrider.coding.toolbox import standard_tools as standard_tools
    from outrider.coding.toolbox.shell.shell import Shell as Shell
    from outrider.coding.toolbox.workspace import Workspace as Workspace

_EXPORTED = {
    "outrider.coding.hands.hands": "workspace_at",
    "outrider.coding.toolbox": "standard_tools",
    "outrider.coding.toolbox.shell.shell": "Shell",
    "outrider.coding.toolbox.workspace": "Workspace",
}

__all__ = sorted(" ".join(_EXPORTED.values()).split())

if not TYPE_CHECKING:
    __getattr__ = lazy(__name__, _EXPORTED)
