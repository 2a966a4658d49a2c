"""Version 2 of the protocol, a draft: what is told, asked and answered in another way than in version 1."""
