"""Conversations: messages, history, attachments and their JSON form."""
