"""The TLS context with the system's certificates.

To read them takes 50 ms, without Python's lock. Front ends import this module in a thread while the person types.
"""

from __future__ import annotations

import ssl

CONTEXT = ssl.create_default_context()
CONTEXT.set_alpn_protocols(["http/1.1"])
