"""A client of the Model Context Protocol (MCP): tools, resources and prompts of servers, none of which is trusted."""

from outrider.exports import lazy

TYPE_CHECKING = False  # as in typing: nothing is imported before it is used
if TYPE_CHECKING:
    from outrider.mcp.elicitation import OnElicit as OnElicit
    from outrider.mcp.pool import Authorize as Authorize
    from outrider.mcp.pool import OnNotice as OnNotice
    from outrider.mcp.pool import ServerPool as ServerPool
    from outrider.mcp.running import RunningServers as RunningServers
    from outrider.mcp.running import ServerTools as ServerTools
    from outrider.mcp.server_limits import Bounds as Bounds
    from outrider.mcp.server_limits import Restarts as Restarts
    from outrider.mcp.server_limits import ServerHost as ServerHost
    from outrider.mcp.servers import HttpServer as HttpServer
    from outrider.mcp.servers import McpServer as McpServer
    from outrider.mcp.servers import StdioServer as StdioServer
    from outrider.mcp.session_servers import Mcp as Mcp
    from outrider.mcp.supervision import ServerState as ServerState
    from outrider.mcp.supervision import ServerStatus as ServerStatus

_EXPORTED = {
    "outrider.mcp.elicitation": "OnElicit",
    "outrider.mcp.pool": "Authorize OnNotice ServerPool",
    "outrider.mcp.running": "RunningServers ServerTools",
    "outrider.mcp.server_limits": "Bounds Restarts ServerHost",
    "outrider.mcp.servers": "HttpServer McpServer StdioServer",
    "outrider.mcp.session_servers": "Mcp",
    "outrider.mcp.supervision": "ServerState ServerStatus",
}

__all__ = sorted(" ".join(_EXPORTED.values()).split())

if not TYPE_CHECKING:
    __getattr__ = lazy(__name__, _EXPORTED)
