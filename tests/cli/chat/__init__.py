"""The chat: `outrider` in a terminal."""
