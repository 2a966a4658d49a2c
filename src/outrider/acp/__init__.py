"""The editor agent: the Agent Client Protocol, which is JSON-RPC 2.0 over standard input and output."""
