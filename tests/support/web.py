"""A web server on loopback that misbehaves when told to, and remembers what it was asked."""

from __future__ import annotations

import hashlib
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(kw_only=True)
class Page:
    """A file on the server, and how it misbehaves: after `well` GETs, for its next `times`, in one of these ways."""

    data: bytes
    etag: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    ranges: bool = True
    matches: bool = True  # whether it minds If-Match
    well: int = 0
    times: int = 0
    status: int | None = None  # answers with this one
    reset_after: int | None = None  # breaks the connection after so many bytes
    end_after: int | None = None  # ends the body early, politely
    shift: int = 0  # sends a range that begins elsewhere
    becomes: bytes | None = None  # other content from then on

    def tag(self) -> str:
        return self.etag or f'"{hashlib.sha1(self.data).hexdigest()}"'


@dataclass
class WebServer:
    address: str
    pages: dict[str, Page] = field(default_factory=dict)
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)  # method, path, range
    lock: threading.Lock = field(default_factory=threading.Lock)

    def gets(self, path: str) -> list[str | None]:
        """The ranges that were asked of a file, in order."""
        return [wanted for method, at, wanted in self.asked if method == "GET" and at == path]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    web: WebServer

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def _answer(self, *, body: bool) -> None:
        wanted = self.headers.get("Range")
        with self.web.lock:
            self.web.asked.append((self.command, self.path, wanted))
            page = self.web.pages.get(self.path)
            bad = page is not None and body and page.times > 0
            if page is not None and body and page.well > 0:
                page.well, bad = page.well - 1, False
            elif bad:
                assert page is not None
                page.times -= 1
            elif page is not None and body and page.becomes is not None:
                page.data, page.becomes = page.becomes, None
            data, tag = (page.data, page.tag()) if page else (b"", "")
        if page is None or (bad and page.status):
            return self._only(404 if page is None else page.status or 500)
        if page.matches and self.headers.get("If-Match") not in (None, tag):
            return self._only(412)
        start, stop = 0, len(data)
        partly = body and wanted is not None and page.ranges
        if partly:
            assert wanted is not None
            first, last = wanted.removeprefix("bytes=").split("-")
            start, stop = int(first), min(int(last) + 1, len(data))
            if bad:
                start, stop = start + page.shift, stop + page.shift
        self.send_response(206 if partly else 200)
        self.send_header("Content-Length", str(stop - start))
        if page.etag != "":
            self.send_header("ETag", tag)
        self.send_header("Last-Modified", "Sun, 01 Mar 2026 04:00:00 GMT")
        if partly:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")
        for name, value in page.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if not body:
            return None
        content = data[start:stop]
        if bad and page.reset_after is not None:
            self.wfile.write(content[: page.reset_after])
            self.wfile.flush()
            # closing with unsent data lingering for no time makes it a reset
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
        elif bad and page.end_after is not None:
            self.wfile.write(content[: page.end_after])
            self.close_connection = True
        else:
            self.wfile.write(content)
        return None

    def _only(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


@contextmanager
def web_server() -> Iterator[WebServer]:
    """A server without files until the block ends."""
    web = WebServer("")
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"web": web}))
    server.daemon_threads = True
    web.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
