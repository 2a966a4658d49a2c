"""The commands of the chat, by topic."""
