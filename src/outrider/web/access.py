"""Who may use the server: links that work once, a cookie, tokens, and checks of where a request comes from.

A browser sends the cookies of a host to all of its ports. A program on another port of this machine, perhaps started by
an agent, would get ours with each visit. So the cookie is bound to a path with a random name, and everything but the
welcome page is below that path.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from outrider.web.http import RefusedError, Request, Response

LINK_SECONDS = 3600.0
"""How long a link works that was not used."""
MAX_LINKS = 100
"""Links that wait to be used; the oldest is forgotten."""
WEEK = 7 * 24 * 3600
SHORTEST_TOKEN = 16

_CONTENT_POLICY = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "manifest-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)
HEADERS = {
    "Content-Security-Policy": "; ".join(_CONTENT_POLICY),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
    "X-Robots-Tag": "noindex",
}
"""Headers of every response."""


class Access:
    """Lets in programs with a token, and browsers that came with a link, and these only from this server's pages."""

    def __init__(self, tokens: Sequence[tuple[str, str]] = (), now: Callable[[], float] = time.monotonic) -> None:
        """`tokens` are those of programs, each with its owner."""
        self.tokens = tokens
        self.path = f"/{secrets.token_hex(8)}"
        """The path below which everything is."""
        self.origins: Collection[str] = ()
        """The addresses of this server, as in http://127.0.0.1:8321."""
        self._key = secrets.token_urlsafe(32)
        self._links: dict[str, float] = {}
        self._now = now

    @property
    def cookie(self) -> str:
        return f"outrider{self.path.replace('/', '-')}"

    def new_link(self, origin: str) -> str:
        """Return an address that lets one browser in, once."""
        token = secrets.token_urlsafe(24)
        self._links[token] = self._now() + LINK_SECONDS
        while len(self._links) > MAX_LINKS:
            del self._links[next(iter(self._links))]
        return f"{origin}/?token={token}"

    def use_link(self, token: str) -> Response | None:
        """Return the response that lets a browser in, or None if the token is wrong, used or too old."""
        given = token.encode(errors="replace")
        found = [each for each in self._links if hmac.compare_digest(each.encode(), given)]
        if not found or self._links.pop(found[0]) < self._now():
            return None
        cookie = f"{self.cookie}={self._key}; Max-Age={WEEK}; Path={self.path}/; HttpOnly; SameSite=Strict"
        return Response(303, b"", {"Location": f"{self.path}/", "Set-Cookie": cookie})

    def below(self, path: str) -> str:
        """Return the part of a path below that of the page, or "" if it is not below it."""
        inside = path.removeprefix(self.path)
        return (inside or "/") if inside != path and inside[:1] in ("", "/") else ""

    def check_cookie(self, request: Request) -> None:
        """Raise RefusedError for a request without the cookie, or a change that does not say where it comes from."""
        cookies = (each.strip().partition("=") for each in request.headers.get("cookie", "").split(";"))
        given = next((value for name, _, value in cookies if name == self.cookie), "")
        if not hmac.compare_digest(given.encode(errors="replace"), self._key.encode()):
            raise RefusedError(401, "this browser has not been let in; open the link that `outrider serve` printed")
        is_change = request.method not in ("GET", "HEAD")
        if is_change and request.headers.get("sec-fetch-site") != "same-origin" and "origin" not in request.headers:
            raise RefusedError(403, "a change needs an Origin header")


def check_origin(headers: Mapping[str, str], origins: Collection[str]) -> None:
    """Raise RefusedError for a request from elsewhere. `origins` are the addresses of this server."""
    # A page elsewhere can give its own host name our address (DNS rebinding); the Host header tells.
    if f"http://{headers.get('host', '')}" not in origins:
        raise RefusedError(403, "this is not the address of the server; use the one that it printed")
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin is not None and origin not in origins:
        raise RefusedError(403, "requests of other pages are refused")
    if site not in (None, "same-origin", "none"):
        raise RefusedError(403, "requests of other pages are refused; open the address in a new window")


def owner_of(headers: Mapping[str, str], tokens: Iterable[tuple[str, str]]) -> str:
    """Return the owner of a request's token; "" for the user of this server. Raises RefusedError without one."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    sent = given.strip().encode(errors="replace")
    found = [owner for token, owner in tokens if hmac.compare_digest(token.encode(), sent)]
    if scheme.lower() != "bearer" or not found:
        raise RefusedError(401, "send a token of this server, as in Authorization: Bearer TOKEN")
    return found[0]


def read_tokens(text: str) -> list[tuple[str, str]]:
    """Return tokens and their owners: one token a line, or an owner and a token. Raises ValueError.

    >>> read_tokens("# mine\\n0123456789abcdef\\nada fedcba9876543210\\n")
    [('0123456789abcdef', ''), ('fedcba9876543210', 'ada')]
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        parts = line.split()
        if not parts or line.lstrip().startswith("#"):
            continue
        if len(parts) > 2 or len(parts[-1]) < SHORTEST_TOKEN:
            what = f"a token of {SHORTEST_TOKEN} characters or more, perhaps after the name of its owner"
            raise ValueError(f"line {number}: write {what}")
        found.append((parts[-1], parts[0] if len(parts) == 2 else ""))
    return found
