"""The filtering proxy by itself. 127.0.0.1 stands for a public address; all others count as they are."""

from __future__ import annotations

import http.server
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.coding.sandbox.allowed_hosts import AllowedHosts
from outrider.coding.sandbox.host_proxy import HostProxy
from outrider.providers.transport.addresses import why_private
from tests.lengths import examples

PATIENCE = 60


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with the request's own fields. `/away` redirects to another host."""

    def do_GET(self) -> None:
        self.send_response(302 if self.path == "/away" else 200)
        self.send_header("Location", "http://evil.test/")
        self.end_headers()
        self.wfile.write(f"{self.path}\n{self.headers}".encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(address: str = "127.0.0.1") -> Iterator[int]:
    with http.server.ThreadingHTTPServer((address, 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


@pytest.fixture
def port() -> Iterator[int]:
    with serving() as port:
        yield port


LISTENERS: list[socket.socket] = []


@pytest.fixture(autouse=True, scope="module")
def close_listeners() -> Iterator[None]:
    yield
    for listener in LISTENERS:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


class Proxied:
    """A proxy on loopback, the names that it looked up, and what it said."""

    def __init__(
        self, *entries: str, names: Mapping[str, list[list[str]]] | None = None, public: str = "127.0.0.1"
    ) -> None:
        self.looked_up: list[str] = []
        self.said: list[str] = []
        self._names = names or {}
        self._public = public
        proxy = HostProxy(AllowedHosts(entries), self._why_private, self._resolve, self.said.append)
        listener = socket.create_server(("127.0.0.1", 0))
        LISTENERS.append(listener)
        self.port = listener.getsockname()[1]
        threading.Thread(target=proxy.serve, args=[listener], daemon=True).start()

    def _why_private(self, address: str) -> str:
        return "" if address == self._public else why_private(address)

    def _resolve(self, host: str, port: int) -> Sequence[str]:
        self.looked_up.append(host)
        answers = self._names[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def get(self, url: str, body: bytes | None = None) -> str:
        """Return the body of a response, or its number and sentence."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": f"http://127.0.0.1:{self.port}"}))
        try:
            return str(opener.open(url, body, PATIENCE).read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return f"{error.code} {error.read().decode()}"

    def connected(self, target: str) -> tuple[socket.socket, bytes]:
        """Ask for a tunnel. Return the connection, and the response."""
        client = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        client.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        return client, client.recv(65_536)


def test_an_allowed_name_is_reached_with_a_plain_request(port: int) -> None:
    proxy = Proxied(f"pypi.test:{port}", names={"pypi.test": [["127.0.0.1"]]})
    said = proxy.get(f"http://user:pass@pypi.test:{port}/simple/?x=1")
    assert said.startswith(f"/simple/?x=1\nHost: pypi.test:{port}\n")
    assert "Proxy-" not in said
    assert proxy.get(f"http://pypi.test:{port}").startswith("/\n")
    assert proxy.get(f"http://pypi.test:{port}/", b"x" * 3_000_000) == "x" * 3_000_000
    assert proxy.said == []


def test_an_allowed_name_is_reached_through_a_tunnel(port: int) -> None:
    proxy = Proxied(f"pypi.test:{port}", names={"pypi.test": [["127.0.0.1"]]})
    client, answer = proxy.connected(f"pypi.test:{port}")
    assert answer == b"HTTP/1.1 200 Connection established\r\n\r\n"
    with client:
        client.sendall(b"GET /tunnel HTTP/1.0\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        assert b"/tunnel" in client.makefile("rb").read()


def test_both_directions_of_a_tunnel_flow_at_once() -> None:
    size, got = 4_000_000, list[int]()
    with socket.create_server(("127.0.0.1", 0)) as server:
        proxy = Proxied(f"127.0.0.1:{server.getsockname()[1]}")
        client, _ = proxy.connected(f"127.0.0.1:{server.getsockname()[1]}")
        ends = [client, server.accept()[0]]
        for end in ends:
            end.settimeout(PATIENCE)
        # Each sends everything before it reads.
        senders = [threading.Thread(target=end.sendall, args=[bytes(size)]) for end in ends]
        for sender in senders:
            sender.start()
        for end in ends:
            received = 0
            while received < size:
                received += len(end.recv(1 << 20))
            got.append(received)
            end.close() if end is ends[1] else None
        for sender in senders:
            sender.join()
        client.close()
    assert got == [size, size]


def test_another_host_is_refused_without_a_look_up() -> None:
    proxy = Proxied("pypi.test", names={"secret.evil.test": [["127.0.0.1"]]})
    sentence = "outrider: secret.evil.test:80 is not reached: the setting sandbox.allow_hosts does not name it."
    assert proxy.get("http://secret.evil.test/") == f"403 {sentence}\n"
    assert proxy.get("http://secret.evil.test/again") == f"403 {sentence}\n"
    client, answer = proxy.connected("secret.evil.test:443")
    client.close()
    assert b"403 Forbidden" in answer
    assert proxy.looked_up == []
    assert proxy.said == [sentence, sentence.replace(":80", ":443")]


def test_another_port_is_refused(port: int) -> None:
    proxy = Proxied("pypi.test", names={"pypi.test": [["127.0.0.1"]]})
    assert proxy.get(f"http://pypi.test:{port}/").startswith(f"403 outrider: pypi.test:{port} is not reached")


@pytest.mark.parametrize("entry", ["pypi.test", "*"])
@pytest.mark.parametrize(
    "host",
    [
        *("10.0.0.1", "169.254.169.254", "127.0.0.2", "127.2", "2130706434", "0x7f000002", "0", "224.0.0.1"),
        *("[::1]", "[::ffff:127.0.0.2]", "[fe80::1]", "[fd00::1]", "[64:ff9b::a00:1]", "[::]"),
    ],
)
def test_private_addresses_are_refused(host: str, entry: str) -> None:
    proxy = Proxied(entry)
    assert proxy.get(f"http://{host}/").startswith("403 outrider: ")
    client, answer = proxy.connected(f"{host}:443")
    client.close()
    assert b"403 Forbidden" in answer


def test_a_public_address_needs_an_entry(port: int) -> None:
    assert Proxied("pypi.test").get(f"http://127.0.0.1:{port}/").startswith("403 ")
    assert Proxied(f"*:{port}").get(f"http://127.0.0.1:{port}/").startswith("/\n")
    assert Proxied(f"127.0.0.1:{port}").get(f"http://127.0.0.1:{port}/").startswith("/\n")


def test_a_private_address_is_reached_if_it_is_listed(port: int) -> None:
    url, names = f"http://db.test:{port}/", {"db.test": [["127.0.0.1"]]}
    assert Proxied(f"*:{port}", names=names, public="").get(url).startswith("403 outrider: db.test has the address")
    assert Proxied(f"db.test:{port}", f"127.0.0.0/8:{port}", names=names, public="").get(url).startswith("/\n")
    assert Proxied(f"localhost:{port}", public="").get(f"http://127.0.0.1:{port}/").startswith("/\n")


def test_a_name_with_a_private_address_is_refused(port: int) -> None:
    proxy = Proxied(f"*:{port}", names={"evil.test": [["169.254.169.254"]]})
    sentence = (
        "403 outrider: evil.test has the address 169.254.169.254, which is link-local: it is reached only if "
        "sandbox.allow_hosts names the address.\n"
    )
    assert proxy.get(f"http://evil.test:{port}/") == sentence


def test_a_name_that_changes_its_address_leads_nowhere(port: int) -> None:
    with serving("127.0.0.2") as private:
        assert private
        proxy = Proxied(f"*:{port}", names={"evil.test": [["127.0.0.1"], ["127.0.0.2"]]})
        assert proxy.get(f"http://evil.test:{port}/").startswith("/\n")
        assert proxy.looked_up == ["evil.test"]  # once: what was checked is what is connected to
        assert proxy.get(f"http://evil.test:{port}/").startswith("403 ")
        mixed = Proxied(f"*:{port}", names={"evil.test": [["127.0.0.2", "127.0.0.1"]]})
        assert mixed.get(f"http://evil.test:{port}/").startswith("/\n")


def test_a_redirect_to_another_host_is_refused(port: int) -> None:
    proxy = Proxied(f"127.0.0.1:{port}")
    assert proxy.get(f"http://127.0.0.1:{port}/away").startswith("403 outrider: evil.test:80 is not reached")


def test_a_second_request_on_a_connection_does_not_change_the_host(port: int) -> None:
    with serving("127.0.0.2") as private:
        proxy = Proxied(f"127.0.0.1:{port}")
        with closing(socket.create_connection(("127.0.0.1", proxy.port), PATIENCE)) as client:
            first = f"GET http://127.0.0.1:{port}/first HTTP/1.1\r\n\r\n"
            second = f"GET http://127.0.0.2:{private}/second HTTP/1.1\r\nHost: 127.0.0.2:{private}\r\n\r\n"
            client.sendall((first + second).encode())
            said = client.makefile("rb").read()
    assert b"/first" in said
    assert b"Host: 127.0.0.2" not in said


@pytest.mark.parametrize(
    "head",
    [
        *("GET / HTTP/1.1", "CONNECT x HTTP/1.1", "CONNECT x:y HTTP/1.1", "CONNECT :80 HTTP/1.1", "nonsense", ""),
        *(
            "GET ftp://127.0.0.1/ HTTP/1.1",
            "CONNECT [1:2]:99999 HTTP/1.1",
            "CONNECT a:b:80 HTTP/1.1",
            "GET http:// HTTP/1.1",
        ),
        "CONNECT " + "9" * 60_000 + ":80 HTTP/1.1",
        "x" * 70_000,
    ],
)
def test_what_is_no_request_is_answered(head: str) -> None:
    proxy = Proxied("pypi.test")
    with closing(socket.create_connection(("127.0.0.1", proxy.port), PATIENCE)) as client:
        client.sendall(f"{head}\r\n\r\n".encode())
        client.shutdown(socket.SHUT_WR)
        assert client.makefile("rb").read(9) in (b"HTTP/1.1 ", b"")
    assert proxy.get("http://evil.test/").startswith("403 ")


@settings(max_examples=examples(100))
@given(st.binary(max_size=60), st.sampled_from(["CONNECT ", "GET http://", ""]))
def test_no_request_reaches_anything_or_ends_the_proxy(shared: Proxied, data: bytes, start: str) -> None:
    with closing(socket.create_connection(("127.0.0.1", shared.port), PATIENCE)) as client:
        client.sendall(start.encode() + data + b" HTTP/1.1\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        answer = client.makefile("rb").read(12)
    assert answer[:10] in (b"HTTP/1.1 4", b"")
    assert shared.looked_up == []


@pytest.fixture(scope="module")
def shared() -> Proxied:
    return Proxied("pypi.test")


def test_a_sentence_has_no_control_characters() -> None:
    proxy = Proxied("pypi.test")
    client, answer = proxy.connected("a\x1b[31m\x07.test:443")
    client.close()
    assert b"403" in answer
    assert [all(each.isprintable() for each in sentence) for sentence in proxy.said] == [True]
