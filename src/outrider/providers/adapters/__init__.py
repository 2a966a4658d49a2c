"""One file for each API: how a request is written, and what its errors mean."""
