"""What an observer of tool calls should see, what it was sent, and the smallest updates between the two."""
