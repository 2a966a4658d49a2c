"""A client of the Model Context Protocol (MCP): tools, resources and prompts of servers, none of which is trusted."""
