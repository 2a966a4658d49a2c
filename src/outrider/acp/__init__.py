"""The editor agent: Outrider behind the Agent Client Protocol, JSON-RPC 2.0 over standard input and output."""
