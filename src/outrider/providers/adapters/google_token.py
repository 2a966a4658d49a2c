"""An access token of Google Cloud, from the first of these that there is:

- the variable `VERTEX_ACCESS_TOKEN`, as `gcloud auth print-access-token` prints it;
- the file in `GOOGLE_APPLICATION_CREDENTIALS`: the key of a service account, or the credentials of a user;
- the credentials that `gcloud auth application-default login` has stored.

Tokens live for an hour and are renewed. Identity federation and the metadata server are not supported.
"""

from __future__ import annotations

import base64
import hashlib
import os
import time
from pathlib import Path
from urllib.parse import urlencode

import msgspec

from outrider.errors import AuthenticationError, MissingKeyError, ProviderError
from outrider.providers.credentials.secrets import masked
from outrider.providers.transport.http import ErrorResponse, Transport
from outrider.struct_types import described

TOKEN_VARIABLE = "VERTEX_ACCESS_TOKEN"
FILE_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
TOKEN_URL = "https://oauth2.googleapis.com/token"
_SHA256_PREFIX = bytes.fromhex("3031300d060960864801650304020105000420")
_EARLY = 120.0  # seconds before its end at which a token is renewed


class _File(msgspec.Struct):
    type: str = ""
    project_id: str = ""
    quota_project_id: str = ""
    client_email: str = ""
    private_key: str = ""
    private_key_id: str = ""
    token_uri: str = TOKEN_URL
    client_id: str = ""
    client_secret: str = ""
    refresh_token: str = ""


class _Token(msgspec.Struct):
    access_token: str
    expires_in: float = 3600.0


class GoogleToken:
    def __init__(self) -> None:
        self._token = ""
        self._ends = 0.0

    @property
    def project(self) -> str:
        """The project that the credentials name, or ""."""
        try:
            found = _credentials()
        except AuthenticationError:
            return ""
        return found.project_id or found.quota_project_id

    async def get(self, transport: Transport) -> str:
        if time.time() > self._ends - _EARLY:
            found = await _fetch(transport, _credentials())
            self._token, self._ends = found.access_token, time.time() + found.expires_in
        return self._token


def _credentials() -> _File:
    home = os.environ.get("CLOUDSDK_CONFIG") or os.path.join(os.path.expanduser("~"), ".config", "gcloud")
    path = Path(os.environ.get(FILE_VARIABLE) or os.path.join(home, "application_default_credentials.json"))
    try:
        return msgspec.json.decode(path.read_bytes(), type=described(_File))
    except OSError:
        raise MissingKeyError(
            f"there are no credentials for Vertex AI; set {FILE_VARIABLE} to the key file of a service account, run "
            f"`gcloud auth application-default login`, or set {TOKEN_VARIABLE}"
        ) from None
    except ValueError as error:
        raise AuthenticationError(f"{path} has no credentials for Vertex AI: {error}") from None


async def _fetch(transport: Transport, credentials: _File) -> _Token:
    if credentials.type == "service_account":
        fields = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": _assertion(credentials)}
    elif credentials.type == "authorized_user":
        fields = {
            "grant_type": "refresh_token",
            "client_id": credentials.client_id,
            "client_secret": credentials.client_secret,
            "refresh_token": credentials.refresh_token,
        }
    else:
        kind = credentials.type or "unknown"
        raise AuthenticationError(f"credentials of the type {kind} are not supported; set {TOKEN_VARIABLE}")

    def explain(response: ErrorResponse) -> ProviderError:
        said = masked(response.body[:300].decode("utf-8", "replace"), *fields.values())
        return AuthenticationError(f"Google gives no access token ({said}); check {FILE_VARIABLE}")

    headers = {"content-type": "application/x-www-form-urlencoded"}
    body = urlencode(fields).encode()
    answer = b"".join([chunk async for chunk in transport.post(credentials.token_uri, headers, body, explain)])
    try:
        return msgspec.json.decode(answer, type=described(_Token))
    except ValueError:
        raise AuthenticationError("Google's response has no access token") from None


def _assertion(credentials: _File) -> str:
    """Return a signed statement of who asks: a JSON Web Token with RS256."""
    now = int(time.time())
    claims = {
        "iss": credentials.client_email,
        "scope": SCOPE,
        "aud": credentials.token_uri,
        "iat": now,
        "exp": now + 3600,
    }
    header = {"alg": "RS256", "typ": "JWT", "kid": credentials.private_key_id}
    text = b".".join(_encoded(msgspec.json.encode(part)) for part in (header, claims))
    try:
        return (text + b"." + _encoded(rs256(credentials.private_key, text))).decode()
    except (ValueError, IndexError):
        raise AuthenticationError(f"the private key in the file of {FILE_VARIABLE} cannot be read") from None


def _encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def rs256(pem: str, text: bytes) -> bytes:
    """Sign with an RSA key in PEM (PKCS #8), as RFC 8017 describes RSASSA-PKCS1-v1_5. Raise ValueError."""
    der = base64.b64decode("".join(line for line in pem.splitlines() if not line.startswith("-----")))
    _version, _algorithm, (_, key), *_ = _items(_items(der)[0][1])
    numbers = [int.from_bytes(value, "big") for kind, value in _items(_items(key)[0][1]) if kind == 2]
    modulus, exponent = numbers[1], numbers[3]
    size = (modulus.bit_length() + 7) // 8
    digest = _SHA256_PREFIX + hashlib.sha256(text).digest()
    padded = b"\0\1" + b"\xff" * (size - len(digest) - 3) + b"\0" + digest
    return pow(int.from_bytes(padded, "big"), exponent, modulus).to_bytes(size, "big")


def _items(der: bytes) -> list[tuple[int, bytes]]:
    """Return the items of a DER sequence: their types and contents."""
    found: list[tuple[int, bytes]] = []
    at = 0
    while at < len(der):
        kind, size, at = der[at], der[at + 1], at + 2
        if size & 0x80:
            count = size & 0x7F
            size, at = int.from_bytes(der[at : at + count], "big"), at + count
        found.append((kind, der[at : at + size]))
        at += size
    return found
