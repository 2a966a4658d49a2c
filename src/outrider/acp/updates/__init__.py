"""The update engine: sends the smallest updates that bring an observer of tool calls up to date."""
