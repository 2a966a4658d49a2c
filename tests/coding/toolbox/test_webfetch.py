"""`WebFetch`: pages as text, files as files, and no way into the private network."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import ssl
import time
import tracemalloc
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from outrider.coding.toolbox.webfetch import web_fetch
from outrider.conversation.documents.charsets import decoded
from outrider.conversation.documents.pages import read_page
from outrider.providers.transport import addresses, fetching
from outrider.providers.transport.addresses import is_local_name, why_private
from outrider.providers.transport.network import CA_VARIABLES
from outrider.tools.result import ToolResult
from tests.coding.toolbox.calling import call
from tests.coding.toolbox.webserver import HANG_UP, Send, page, redirect, serving
from tests.providers.transport.test_http import certificate

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 64


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def fetch(url: str, **options: Any) -> ToolResult:
    return await call(web_fetch(private_addresses=True), url=url, **options)


async def fetched(answer: bytes) -> ToolResult:
    async with serving({"/dir/page": answer}) as server:
        return await fetch(f"{server.url}/dir/page")


# What comes back


async def test_a_page_becomes_text() -> None:
    result = await fetched(page("<title>News</title><h1>Big &amp; new</h1><p>Read <a href='../more'>more</a>."))
    assert not result.is_error
    title, blank, heading, _, text = result.text.split("\n")
    assert (title, blank, heading) == ("News", "", "# Big & new")
    assert text.startswith("Read more (http://127.0.0.1:")
    assert text.endswith("/more).")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ('{"a": [1, 2]}', "application/json"),
        ("<not>html</not>", "application/xml"),
        ("# Heading\n\n* item", "text/markdown"),
        ("let x = '<p>';", "application/javascript"),
        ("plain", "text/plain; charset=utf-8"),
        ("no type at all <b>", ""),
        ("some text", "application/octet-stream"),
        ("a: 1", "application/vnd.x+yaml"),
    ],
)
async def test_text_stays_as_it_is(body: str, kind: str) -> None:
    assert (await fetched(page(body, kind))).text == body


async def test_a_page_without_a_type_is_known_by_its_beginning() -> None:
    assert (await fetched(page("<!DOCTYPE html><p>Hello <b>you</b>", ""))).text == "Hello you"


@pytest.mark.parametrize(
    ("body", "kind", "mime_type"),
    [
        (b"%PDF-1.7 ...", "application/pdf", "application/pdf"),
        (PNG, "image/png", "image/png"),
        (PNG, "text/html", "image/png"),
        (PNG, "image/jpeg", "image/png"),
        (PNG, "", "image/png"),
        (b"PK\x03\x04...", "application/epub+zip", "application/epub+zip"),
        (b"\xff\xfe\0\1" * 9, "", "application/octet-stream"),
        (b"\0\1\2\xff", "application/x-odd", "application/x-odd"),
        (b"not a picture", "image/png", "application/octet-stream"),
        (b"\0\1\2\xff", "nonsense", "application/octet-stream"),
    ],
)
async def test_what_is_not_text_is_a_file(body: bytes, kind: str, mime_type: str) -> None:
    result = await fetched(page(body, kind))
    [file] = result.attachments
    assert (file.source, file.mime_type, file.name) == (body, mime_type, "page")
    assert result.text.startswith("page: ")


async def test_a_file_has_a_harmless_name() -> None:
    async with serving({"*": page(b"%PDF-1.7", "application/pdf")}) as server:
        [file] = (await fetch(f"{server.url}/a/..%2f..%2fetc%5c.pass%00wd.pdf")).attachments
    assert not set(file.name) & set("/\\\0")
    assert not file.name.startswith(".")
    assert file.name.endswith("wd.pdf")


@pytest.mark.parametrize("status", ["404 Not Found", "500 Internal Server Error", "403 Forbidden", "599"])
async def test_a_failure_comes_with_the_beginning_of_its_page(status: str) -> None:
    result = await fetched(page("<p>Sorry, " + "x" * 5000, status=status))
    assert result.is_error
    assert f"answered {status}" in result.text
    assert "Sorry, xxx" in result.text
    assert len(result.text) < 2500


async def test_a_failure_may_come_with_nothing_or_a_file() -> None:
    for answer in (page("", status="404 Not Found"), page(PNG, "image/png", "404 Not Found")):
        result = await fetched(answer)
        assert result.is_error
        assert result.text.endswith("answered 404 Not Found.")


async def test_an_empty_answer_and_a_page_of_scripts_are_said() -> None:
    assert (await fetched(page("", status="204 No Content"))).text == "The response is empty (204 No Content)."
    scripted = await fetched(page("<html><body><div id=app></div><script>render('secret')</script>"))
    assert scripted.text == "The page has no text; scripts, which are not run, may produce it."


async def test_nothing_of_the_user_is_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password hunter2\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    cookie = page("", status="302 Found", Location="/b", Set_Cookie="id=1")
    async with serving({"/a": cookie, "/b": page("done")}) as server:
        assert (await fetch(f"{server.url}/a#fragment")).text == "done"
    for request in server.requests:
        names = {line.partition(":")[0].lower() for line in request.split("\r\n")[1:] if line}
        assert names == {"host", "user-agent", "accept", "accept-encoding", "connection"}


# Characters


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("Grüße €".encode("cp1252"), "text/html; charset=iso-8859-1"),
        ("Grüße €".encode("cp1252"), "text/html"),
        ("Grüße €".encode(), "text/html"),
        ("Grüße €".encode(), "text/html; charset=unknown-8bit"),
        ("Grüße €".encode(), "text/html; charset=zip"),
        ("Grüße €".encode(), "text/html; charset=unicode_escape"),
        ("Grüße €".encode("utf-16"), "text/html; charset=utf-8"),
        ("Grüße €".encode("utf-8-sig"), "text/html"),
        (b'<meta charset="iso-8859-15">' + "Grüße €".encode("iso-8859-15"), "text/html"),
        (
            b"<meta http-equiv=Content-Type content='text/html; charset=cp1252'>" + "Grüße €".encode("cp1252"),
            "text/html",
        ),
        ("Grüße €".encode("utf-16-le"), 'text/html; charset="UTF-16LE"'),
    ],
)
async def test_characters_arrive_whatever_the_charset(body: bytes, kind: str) -> None:
    assert (await fetched(page(body, kind))).text == "Grüße €"


@given(st.binary(max_size=200), st.text(max_size=40))
def test_any_bytes_and_any_label_decode_to_something(body: bytes, label: str) -> None:
    assert isinstance(decoded(body, f"text/html; charset={label}", is_html=True), str)


@pytest.mark.parametrize("label", ["idna", "punycode", "utf-7", "undefined", "hex", "rot13", "bz2", "\0", "utf_8_sig"])
def test_odd_codecs_are_not_used(label: str) -> None:
    assert decoded(b"plain +AGE- text", f"text/plain; charset={label}") == "plain +AGE- text"


# Redirects


async def test_redirects_are_followed_but_not_to_another_host() -> None:
    async with serving({"/end": page("the end", "text/plain")}) as end:
        answers = {"/a": redirect("b?x=1", "301 Moved"), "/b?x=1": redirect(f"http://localhost:{end.port}/end")}
        async with serving({**answers, "/c": redirect("/d", "307 T"), "/d": page("here", "text/plain")}) as start:
            moved = await fetch(f"{start.url}/a")
            assert moved.is_error
            assert f"redirects to another host: http://localhost:{end.port}/end" in moved.text
            assert (await fetch(f"{start.url}/c")).text == "here"
            assert end.requests == []


@pytest.mark.parametrize(("host", "other"), [("www.a.example", "a.example"), ("a.example", "www.a.example")])
async def test_a_host_with_www_is_another_one(monkeypatch: pytest.MonkeyPatch, host: str, other: str) -> None:
    consider_public(monkeypatch, "127.0.0.1")
    names = Names(**{"www.a": ["127.0.0.1"], "a": ["127.0.0.1"]})
    answers = {"/end": page("the end", "text/plain")}
    async with serving(answers) as server:
        answers["/"] = redirect(f"http://{other}:{server.port}/end")
        result = await call(web_fetch(resolve=names), url=f"http://{host}:{server.port}/")
    assert result.is_error
    assert f"redirects to another host: http://{other}:" in result.text
    assert len(server.requests) == 1


async def test_a_circle_of_redirects_ends() -> None:
    async with serving({"/a": redirect("/b"), "/b": redirect("/a")}) as server:
        result = await fetch(f"{server.url}/a")
    assert result.is_error
    assert "redirects more than 10 times" in result.text
    assert len(server.requests) == 11


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "ftp://x.example/", "http://u:p@x.example/", "javascript:1", "http://[::1"]
)
async def test_a_redirect_to_something_else_is_refused(location: str) -> None:
    async with serving({"/a": redirect(location)}) as server:
        result = await fetch(f"{server.url}/a")
    assert result.is_error
    assert "redirects to" in result.text
    assert "u:p" not in result.text


# Private addresses


@pytest.mark.sampled(20)
@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.1.2.3", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
        *("0.0.0.0", "224.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1", "240.0.0.1", "168.63.129.16"),
        *("[::1]", "[::]", "[fe80::1]", "[fc00::1]", "[fd00:ec2::254]", "[ff02::1]", "[::ffff:127.0.0.1]"),
        *("[::ffff:a9fe:a9fe]", "[64:ff9b::7f00:1]", "[64:ff9b:1::1]", "[2002:7f00:1::]", "[2001:0:4136:e378::1]"),
        *("[::127.0.0.1]", "[fec0::1]", "[2001:db8::1]", "[0:0:0:0:0:0:0:1]", "[fe80::1%25eth0]"),
        *("2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "127.0.0.1.", "017700000001", "0"),
        *("localhost", "LOCALHOST", "localhost.", "１２７.０.０.１", "①②⑦.0.0.1", "127。0。0。1", "%31%32%37.0.0.1"),
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_private_address_is_refused_however_it_is_written(host: str, scheme: str) -> None:
    async with serving({"/": page("the inner secret")}) as server:
        result = await call(web_fetch(), url=f"{scheme}://{host}:{server.port}/")
        assert server.requests == []
    assert result.is_error
    assert "secret" not in result.text


async def test_the_refusal_says_what_to_do() -> None:
    result = await call(web_fetch(), url="http://169.254.169.254/latest/meta-data/")
    assert result.text == (
        "169.254.169.254 is not a public address (link-local), and only public ones may be fetched. "
        "The user can allow private ones with web.private_addresses in the configuration."
    )


def consider_public(monkeypatch: pytest.MonkeyPatch, *public: str) -> None:
    """Let servers of the test pass for public ones."""

    def judged(address: str) -> str:
        return "" if address in public else why_private(address)

    monkeypatch.setattr(addresses, "why_private", judged)


class Names:
    """A name server: each name has its answers, one after the other."""

    def __init__(self, **answers: list[str]) -> None:
        self._answers = answers
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self._answers.get(host.replace(".example", ""))
        if not answers:
            raise OSError("no such name")
        return (answers.pop(0) if len(answers) > 1 else answers[0]).split()


async def test_a_name_of_a_private_address_is_refused() -> None:
    names = Names(inner=["10.1.2.3"], mixed=["1.1.1.1 127.0.0.1"], six=["::ffff:127.0.0.1"])
    for host, address in (("inner", "10.1.2.3"), ("mixed", "127.0.0.1"), ("six", "::ffff:127.0.0.1")):
        result = await call(web_fetch(resolve=names), url=f"http://{host}.example/")
        assert result.is_error
        assert result.text.startswith(f"{host}.example is not a public address ({address}")


@pytest.mark.parametrize(
    "target", ["http://127.0.0.2:{port}/", "http://inner.example:{port}/", "http://localhost:{port}/"]
)
async def test_a_redirect_into_the_private_network_is_refused(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    consider_public(monkeypatch, "127.0.0.1")
    names = Names(outer=["127.0.0.1"], inner=["127.0.0.2"], localhost=["::1"])
    async with serving({"/": page("the inner secret")}, "127.0.0.2") as inner:
        where = target.format(port=inner.port)
        async with serving({"/": redirect(where), "/fine": page("fine", "text/plain")}) as outer:
            tool = web_fetch(resolve=names)
            assert (await call(tool, url=f"http://outer.example:{outer.port}/fine")).text == "fine"
            result = await call(tool, url=f"http://outer.example:{outer.port}/")
        assert result.is_error
        assert "redirects to another host" in result.text
        assert inner.requests == []


async def test_a_name_that_changes_its_address_is_of_no_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection goes to the address that was checked, not to what the name means a moment later."""
    consider_public(monkeypatch, "127.0.0.1")
    async with serving({"/": page("outer", "text/plain")}) as outer, serving({}, "127.0.0.2", outer.port) as inner:
        names = Names(rebinding=["127.0.0.1", "127.0.0.2"])
        url = f"http://rebinding.example:{outer.port}/"
        assert (await call(web_fetch(resolve=names), url=url)).text == "outer"
        assert names.asked == ["rebinding.example"]
        again = await call(web_fetch(resolve=names), url=url)
        assert again.is_error
        assert inner.requests == []


def test_the_socket_of_a_private_address_is_not_even_made() -> None:
    for address in ("127.0.0.1", "::1", "2130706433", "10.0.0.1"):
        with pytest.raises(OSError, match="is"):
            addresses.public_socket((2, 1, 6, "", (address, 80)))


@given(st.ip_addresses())
def test_no_address_is_public_that_the_standard_library_calls_private(address: Any) -> None:
    if not why_private(str(address)):
        assert not any((address.is_private, address.is_loopback, address.is_link_local, address.is_multicast))
        assert not address.is_unspecified
        embedded = getattr(address, "ipv4_mapped", None)
        assert embedded is None or not embedded.is_private


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_public_addresses_are_public(address: str) -> None:
    assert why_private(address) == ""


# Proxies


async def test_a_proxy_of_the_environment_is_used_and_its_own_address_may_be_private(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving({"http://far.example/x": page("through the proxy", "text/plain")}) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        names = Names(far=["1.1.1.1"])
        assert (await call(web_fetch(resolve=names), url="http://far.example/x")).text == "through the proxy"
        unknown = web_fetch(resolve=Names())
        assert (await call(unknown, url="http://far.example/x")).text == "through the proxy"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://inner.example/",
        "http://intranet/",
        "http://metadata.google.internal/",
        "http://a.local/",
    ],
)
async def test_a_proxy_is_not_asked_for_private_addresses(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving({}) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        result = await call(web_fetch(resolve=Names(inner=["10.0.0.1"])), url=url)
        assert result.is_error
        assert "is not a public address" in result.text
        assert proxy.requests == []


async def test_a_password_of_the_proxy_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving({"http://far.example/": page("", status="407 Proxy Authentication Required")}) as proxy:
        monkeypatch.setenv("http_proxy", f"http://me:hunter2@127.0.0.1:{proxy.port}")
        refused = await call(web_fetch(resolve=Names()), url="http://far.example/")
    gone = await call(web_fetch(resolve=Names()), url="http://far.example/")
    for result in (refused, gone):
        assert result.is_error
        assert "hunter2" not in result.text


def test_names_of_private_networks() -> None:
    assert all(map(is_local_name, ("printer", "localhost", "a.localhost.", "nas.local", "x.HOME.ARPA")))
    assert not any(map(is_local_name, ("example.com", "local.example.com", "a.b.org.")))


# URLs and servers that are no good


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("file:///etc/passwd", "http:// or https://"),
        ("ftp://x.example/", "http:// or https://"),
        ("example.com/page", "http:// or https://"),
        ("javascript:alert(1)", "http:// or https://"),
        ("", "http:// or https://"),
        ("http://", "host"),
        ("http:///path", "host"),
        ("http://user:hunter2@x.example/", "user name or a password"),
        ("http://user@x.example/", "user name or a password"),
        ("http://x.example\\@127.0.0.1/", "not a URL"),
        ("http://x.example:99999/", "not a URL"),
        ("http://x.example:abc/", "not a URL"),
        ("http://[::1/", "not a URL"),
        ("http://a\r\nHost: b/", "not a URL"),
        ("http://x.example/" + "a" * 9000, "too long"),
        ("http://no-such-name.example/", "There is no host named no-such-name.example"),
    ],
)
async def test_a_bad_url_is_refused_in_a_sentence(url: str, said: str) -> None:
    result = await call(web_fetch(resolve=Names()), url=url)
    assert result.is_error
    assert said in result.text
    assert "hunter2" not in result.text


@given(st.text(max_size=30))
async def test_any_url_is_answered_in_a_sentence(rest: str) -> None:
    for url in (rest, f"http://{rest}", f"http://x.example{rest}"):
        result = await call(web_fetch(resolve=Names()), url=url)
        assert result.is_error
        assert result.text


async def test_a_server_that_is_not_there_is_said() -> None:
    async with serving({}) as server:
        pass
    result = await fetch(server.url)
    assert result.is_error
    assert result.text.startswith("127.0.0.1 cannot be reached: ")


async def test_a_server_that_does_not_speak_tls_is_said() -> None:
    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        result = await fetch(f"https://127.0.0.1:{port}/")
    assert result.is_error
    assert result.text.startswith("No secure connection to 127.0.0.1 is possible: ")


async def test_a_certificate_must_be_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CA_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    chain, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    async with serving({"/": page("private words", "text/plain")}, tls=context) as server:
        url = f"https://127.0.0.1:{server.port}/"
        refused = await fetch(url)
        assert refused.is_error
        assert refused.text.startswith("The certificate of 127.0.0.1 is not trusted: ")
        assert server.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "gone.pem"))
        assert "certificates in SSL_CERT_FILE" in (await fetch(url)).text
        monkeypatch.setenv("SSL_CERT_FILE", str(chain))
        assert (await fetch(url)).text == "private words"


@pytest.mark.parametrize(
    "answer",
    [
        HANG_UP,
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\nnot gzip!",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 9\r\n\r\nnot br...",
    ],
)
async def test_a_broken_answer_is_said(answer: bytes) -> None:
    result = await fetched(answer)
    assert result.is_error or "short" not in result.text
    assert "127.0.0.1" in result.text


# Too much, too slow


def bomb(size: int) -> bytes:
    """A page of nothing but blanks, compressed a thousand times."""
    compressor = zlib.compressobj(9, wbits=31)
    blank = b" " * (1024 * 1024)
    return b"".join([*(compressor.compress(blank) for _ in range(size)), compressor.flush()])


async def test_a_compressed_page_is_read() -> None:
    result = await fetched(page(gzip.compress(b"<p>small"), Content_Encoding="gzip"))
    assert result.text == "small"


@pytest.mark.long
async def test_a_bomb_does_not_go_off() -> None:
    answer = page(bomb(300), Content_Encoding="gzip")
    tracemalloc.start()
    try:
        result = await fetched(answer)
        assert tracemalloc.get_traced_memory()[1] < 80 * 1024 * 1024
    finally:
        tracemalloc.stop()
    assert result.is_error
    assert "has more than 20.0 MiB, which is the limit" in result.text


async def test_an_endless_page_ends_at_the_limit_and_shows_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless(send: Send) -> None:
        await send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            await send(b"more and more " * 5000)

    monkeypatch.setattr("outrider.coding.toolbox.throttle.FIRST", 0.0)
    shown: list[Any] = []
    async with serving({"/": endless}) as server:
        result = await fetch(f"{server.url}/", shown=shown.append)
    assert result.is_error
    assert "more than 20.0 MiB" in result.text
    assert shown


async def test_a_slow_page_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def drip(send: Send) -> None:
        await send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            await send(b".")
            await asyncio.sleep(0.05)

    monkeypatch.setattr(fetching, "TIME_LIMIT", 0.5)
    async with serving({"/": drip}) as server:
        result = await fetch(f"{server.url}/", within=30)
    assert result.is_error
    assert result.text == "127.0.0.1 did not answer in time."


async def test_a_cancelled_call_lets_go_of_the_connection() -> None:
    gone = asyncio.Event()
    begun = asyncio.Event()

    async def wait(send: Send) -> None:
        begun.set()
        try:
            while True:
                await send(b"HTTP/1.1 100 Continue\r\n\r\n")
                await asyncio.sleep(0.01)
        finally:
            gone.set()

    async with serving({"/": wait}) as server:
        task = asyncio.ensure_future(fetch(f"{server.url}/"))
        async with asyncio.timeout(30):
            await begun.wait()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await gone.wait()
    assert task.cancelled()


# Pages


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<p>a<p>b", "a\n\nb"),
        ("a<br>b", "a\nb"),
        ("<ul><li>a<li>b<ol><li>c</ol></ul>d", "- a\n- b\n  1. c\n\nd"),
        ("<ol><li><p>a</p></li><li>b</li></ol>", "1. a\n2. b"),
        ("<pre>a\n  b &lt;c&gt;</pre>d", "```\na\n  b <c>\n```\n\nd"),
        ("<table><tr><th>a<th>b</tr><tr><td>1</td><td><p>2</p></td></tr></table>", "a | b\n1 | 2"),
        ("<blockquote>a<p>b</blockquote>c", "a\n\n> b\n\nc"),
        ("x <blockquote>a</blockquote>", "x\n\n> a"),
        ("<h2>a</h2>b", "## a\n\nb"),
        ("<a href=/x>a</a> <a href='#y'>b</a> <a href='javascript:c()'>c</a>", "a (http://h.example/x) b c"),
        ("<a href='http://['>a</a> <a>b</a> <a href=x></a>", "a b"),
        ('<p title="a > b">c</p>', "c"),
        ("<img alt='a picture' src=x> <img src=y>", "[image: a picture]"),
        ("a < b and c <3", "a < b and c <3"),
        ("<svg><title>no</title><svg/><text>no</text></svg>yes", "yes"),
        ("<template>no<template>no</template>no</template>yes", "yes"),
        ("a<!-- no --->b<!doctype no><?no?>c", "abc"),
        ("<SCRIPT>no</script >yes<style>no</STYLE>", "yes"),
        ("<textarea><b>kept</b></textarea>", "<b>kept</b>"),
        ("</li></a></ul>a", "a"),
        ("a<hr>b", "a\n\n---\n\nb"),
        ("<script>no", ""),
        ("yes<!-- no", "yes"),
        ("yes<a href='no", "yes"),
        ("&#" + "1" * 5000 + ";", "&#" + "1" * 5000 + ";"),
    ],
)
def test_markup_becomes_text(markup: str, text: str) -> None:
    assert read_page(markup, "http://h.example/dir/").text == text


TAGS = st.sampled_from(
    ["p", "div", "ul", "ol", "li", "pre", "code", "a href=x", "table", "tr", "td", "blockquote", "h1", "br", "svg"]
)
MARKUP = st.lists(
    st.one_of(
        TAGS.map("<{}>".format),
        TAGS.map("</{}>".format),
        st.text("<>!-/='\"& ax\n", max_size=6),
        st.just("<script>EVIL</script>"),
        st.just("<style>EVIL</style>"),
    ),
    max_size=40,
).map("".join)


@given(MARKUP)
def test_no_page_raises(markup: str) -> None:
    page = read_page(markup, "http://h.example/")
    assert isinstance(page.text, str)


@given(st.lists(st.one_of(TAGS.map("<{}>".format), TAGS.map("</{}>".format), st.text("ab \n")), max_size=30))
def test_no_script_is_ever_text(parts: list[str]) -> None:
    for evil in ("<script>EVIL</script>", "<SCRIPT type='a>b'>EVIL</ScRiPt\n>", "<style>EVIL<p>EVIL</style>"):
        assert "EVIL" not in read_page(evil.join(["", *parts, ""])).text


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "piece",
    ["<", "</", "<a", "<a =", "<a b='", '<a href="', "<!--", "<!", "<?", "&", "&#1", "<ul><li>", "<svg>", "<td>", "= "],
)
def test_the_time_for_a_page_grows_with_its_length_alone(piece: str) -> None:
    def seconds(length: int) -> float:
        markup = "<a " + piece * (length // len(piece))
        begun = time.process_time()
        read_page(markup)
        return time.process_time() - begun

    few = min(seconds(20_000) for _ in range(3))
    assert seconds(200_000) < 40 * max(few, 0.005)


def test_of_a_huge_page_the_beginning_is_read() -> None:
    text = read_page("word " * 1_100_000).text
    assert text.endswith("[The page goes on; this is its beginning.]")
    assert len(text) < 5_100_000


async def test_the_system_resolves_names() -> None:
    found = await addresses.system_resolver()("localhost", 80)
    assert set(found) & {"127.0.0.1", "::1"}
    assert len(found) == len(set(found))


# Whatever the model or a server writes as a URL

URL_PIECES = st.sampled_from(
    [*"[]@:/?#%&=.\\ \t\0", "\u2100", "\uff0e", "\u00fc", "\ud800", "::1", "%5b", "a.com", "-1", "xn--a"]
)
ODD_URLS = st.lists(URL_PIECES, max_size=8).map(lambda pieces: "https://" + "".join(pieces))


@pytest.mark.parametrize(
    "url", ["https://][@", "https://[", "http://[::1]x", "https://:@", "https://a:b:c", "https://%00"]
)
async def test_what_is_no_url_is_an_error_in_words(url: str) -> None:
    result = await call(web_fetch(resolve=_resolves_nothing), url=url)
    assert result.is_error
    assert result.text.endswith(".")
    assert "Error" not in result.text


@settings(max_examples=25)
@example("https://][@")
@given(ODD_URLS)
def test_any_text_is_fetched_or_refused_in_words(url: str) -> None:
    result = asyncio.run(call(web_fetch(resolve=_resolves_nothing), url=url))
    assert result.is_error
    assert result.text


@example("https://][@")
@given(ODD_URLS)
def test_any_redirect_is_followed_or_refused_in_words(location: str) -> None:
    from yarl import URL

    with contextlib.suppress(fetching.FetchError):
        assert fetching._redirect_target(URL("https://example.com/a"), location).raw_host


async def _resolves_nothing(host: str, port: int) -> Sequence[str]:
    raise OSError("there is no such host")
