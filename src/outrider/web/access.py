"""Who may use the page: links that work once, a cookie, and checks of where a request comes from.

A browser sends the cookies of a host to all of its ports. A program on another port of this machine, perhaps started by
an agent, would get ours with each visit. So the cookie is bound to a path with a random name, and everything but the
welcome page is below that path.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Mapping

from aiohttp import web

LINK_SECONDS = 3600.0
"""How long a link works that was not used."""
MAX_LINKS = 100
"""Links that wait to be used; the oldest is forgotten."""
WEEK = 7 * 24 * 3600

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
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Access:
    """Lets in the browsers that came with a link, and only from this server's own pages."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.path = f"/{secrets.token_hex(8)}"
        """The path below which everything is."""
        self.origins: Collection[str] = ()
        """The addresses of this server, as in http://127.0.0.1:8321."""
        self._key = secrets.token_urlsafe(32)
        self._links: dict[str, float] = {}
        self._now = now

    @property
    def cookie(self) -> str:
        """The name of the cookie."""
        return f"outrider{self.path.replace('/', '-')}"

    def new_link(self, origin: str) -> str:
        """Return an address that lets one browser in, once."""
        token = secrets.token_urlsafe(24)
        self._links[token] = self._now() + LINK_SECONDS
        while len(self._links) > MAX_LINKS:
            del self._links[next(iter(self._links))]
        return f"{origin}/?token={token}"

    def use_link(self, token: str) -> web.Response | None:
        """Return the response that lets a browser in, or None if the token is wrong, used or too old."""
        given = token.encode(errors="replace")
        found = [each for each in self._links if hmac.compare_digest(each.encode(), given)]
        if not found or self._links.pop(found[0]) < self._now():
            return None
        response = web.Response(status=303, headers={"Location": f"{self.path}/"})
        response.set_cookie(
            self.cookie, self._key, max_age=WEEK, path=f"{self.path}/", httponly=True, samesite="Strict"
        )
        return response

    def is_let_in(self, cookies: Mapping[str, str]) -> bool:
        """Return whether a request has the cookie."""
        return hmac.compare_digest(cookies.get(self.cookie, "").encode(errors="replace"), self._key.encode())

    def refusal(self, request: web.Request) -> str:
        """Return why a request is refused because of where it comes from, or "" if it is not."""
        # A page elsewhere can give its own host name our address (DNS rebinding); the Host header tells.
        if f"http://{request.headers.get('Host', '')}" not in self.origins:
            return "this is not the address of the page; use the one that `outrider web` printed"
        origin = request.headers.get("Origin")
        if origin is not None and origin not in self.origins:
            return "requests of other pages are refused"
        site = request.headers.get("Sec-Fetch-Site")
        if site not in (None, "same-origin", "none"):
            return "requests of other pages are refused; open the address in a new window"
        is_change = request.method not in ("GET", "HEAD")
        if is_change and site != "same-origin" and origin is None:
            return "a change needs an Origin header"
        return ""

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse requests from elsewhere and without the cookie. Everything outside `path` is public."""
        if reason := self.refusal(request):
            return refused(403, reason)
        inside = request.path == self.path or request.path.startswith(f"{self.path}/")
        if inside and not self.is_let_in(request.cookies):
            return refused(401, "this browser has not been let in; open the link that `outrider web` printed")
        return await handler(request)


def refused(status: int, reason: str) -> web.Response:
    """Return a response that says why a request failed."""
    return web.json_response({"error": reason}, status=status)


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add the headers of every response. One that sets its own content policy keeps it."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Cache-Control", "no-store")
    if "Server" in response.headers:
        del response.headers["Server"]
