"""HTTP to models, MCP servers and web pages, and what its errors mean."""
