"""AWS Signature Version 4: headers that prove to AWS who sends a request."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

import msgspec

ALGORITHM = "AWS4-HMAC-SHA256"


class Credentials(msgspec.Struct, frozen=True):
    """An access key. Temporary ones have a session token."""

    access_key: str
    secret_key: str
    session_token: str = ""

    @classmethod
    def from_environment(cls) -> Credentials | None:
        """Return the credentials in the usual variables, or None."""
        access, secret = os.environ.get("AWS_ACCESS_KEY_ID", ""), os.environ.get("AWS_SECRET_ACCESS_KEY", "")
        return cls(access, secret, os.environ.get("AWS_SESSION_TOKEN", "")) if access and secret else None


def signed_headers(
    credentials: Credentials,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    region: str,
    service: str,
    now: datetime | None = None,
) -> dict[str, str]:
    """Return the headers of a POST request with the signature. The URL has no query."""
    moment = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
    parts = urlsplit(url)
    signed = {name.lower(): value for name, value in headers.items()} | {"host": parts.netloc, "x-amz-date": moment}
    if credentials.session_token:
        signed["x-amz-security-token"] = credentials.session_token
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{' '.join(signed[name].split())}\n" for name in sorted(signed))
    request = f"POST\n{quote(parts.path or '/')}\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    scope = f"{moment[:8]}/{region}/{service}/aws4_request"
    digest = hashlib.sha256(request.encode()).hexdigest()
    signature = _sign(_signing_key(credentials.secret_key, scope), f"{ALGORITHM}\n{moment}\n{scope}\n{digest}").hex()
    authorization = f"{ALGORITHM} Credential={credentials.access_key}/{scope}, SignedHeaders={names}"
    return {**signed, "authorization": f"{authorization}, Signature={signature}"}


def _signing_key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = _sign(key, part)
    return key


def _sign(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
