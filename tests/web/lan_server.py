"""`outrider serve --lan` on a machine whose address in the local network is the one that this program is given.

An address of the loopback network stands for it, so that tests need no network and no packet leaves the machine.
"""

from __future__ import annotations

import asyncio
import sys

from outrider.web import serving
from outrider.web.owners import ServerLimits

serving.lan_address = lambda: sys.argv[1]
asyncio.run(serving.serve(0, lan=True, tokens=(), limits=ServerLimits()))
