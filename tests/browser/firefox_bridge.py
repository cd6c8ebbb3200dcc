"""Start a stock Firefox for Playwright, which talks to it over WebDriver BiDi.

    python firefox_bridge.py FIREFOX ARGUMENT ...

Playwright sends a few commands that an older Firefox does not know, and takes each refusal for a
failure. This program starts Firefox, passes messages in both directions, and reports success for a
command in OPTIONAL that Firefox refuses as unknown. A Firefox that knows the commands runs them.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

OPTIONAL = {"emulation.setMediaFeaturesOverride"}
LISTENING = re.compile(r"WebDriver BiDi listening on ws://([^:/]+):(\d+)")


def read_exactly(stream: socket.socket, count: int) -> bytes:
    """Read a number of bytes.

    Raises:
        EOFError: if the connection ends before.
    """
    found = bytearray()
    while len(found) < count:
        part = stream.recv(min(count - len(found), 1 << 16))
        if not part:
            raise EOFError
        found += part
    return bytes(found)


def read_head(stream: socket.socket) -> bytes:
    """Read the head of an HTTP message, with its empty line."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += read_exactly(stream, 1)
    return head


def frames(stream: socket.socket) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield the header, the mask and the payload of each WebSocket frame (RFC 6455, section 5.2)."""
    while True:
        header = read_exactly(stream, 2)
        size = header[1] & 0x7F
        if size >= 126:
            extended = read_exactly(stream, 2 if size == 126 else 8)
            header, size = header + extended, int.from_bytes(extended, "big")
        mask = read_exactly(stream, 4) if header[1] & 0x80 else b""
        payload = read_exactly(stream, size)
        yield header, mask, payload


def unmask(payload: bytes, mask: bytes) -> bytes:
    """Return a payload without its mask."""
    length = len(payload)
    key = int.from_bytes((mask * (length // 4 + 1))[:length], "big")
    return (int.from_bytes(payload, "big") ^ key).to_bytes(length, "big")


def text_frame(text: bytes) -> bytes:
    """Return an unmasked WebSocket frame with text of less than 126 bytes."""
    assert len(text) < 126, text
    return bytes([0x81, len(text)]) + text


class Bridge:
    """The connection of Playwright to Firefox."""

    def __init__(self, client: socket.socket, firefox: socket.socket) -> None:
        self.client, self.firefox = client, firefox
        self.optional = set[int]()
        # Firefox checks the host. Without extensions, frames are not compressed.
        host, port = firefox.getpeername()
        head = re.sub(rb"(?i)sec-websocket-extensions:[^\r]*\r\n", b"", read_head(client))
        head = re.sub(rb"(?i)\r\nhost:[^\r]*", f"\r\nHost: {host}:{port}".encode(), head)
        firefox.sendall(head)
        client.sendall(read_head(firefox))

    def pass_commands(self) -> None:
        """Pass the frames of Playwright to Firefox, and remember the optional commands."""
        for header, mask, payload in frames(self.client):
            text = unmask(payload, mask)
            if any(method.encode() in text for method in OPTIONAL):
                command = json.loads(text)
                if command.get("method") in OPTIONAL:
                    self.optional.add(command["id"])
            self.firefox.sendall(header + mask + payload)

    def pass_answers(self) -> None:
        """Pass the frames of Firefox to Playwright."""
        for header, mask, payload in frames(self.firefox):
            if self.optional and b'"unknown command"' in payload:
                answer = json.loads(payload)
                if answer.get("error") == "unknown command" and answer.get("id") in self.optional:
                    success = {"type": "success", "id": answer["id"], "result": {}}
                    self.client.sendall(text_frame(json.dumps(success).encode()))
                    continue
            self.client.sendall(header + mask + payload)


def pass_frames(run: object, bridge: Bridge) -> None:
    """Run one direction until a connection ends, and end the other direction."""
    assert callable(run)
    try:
        run()
    except (EOFError, OSError):
        for stream in (bridge.client, bridge.firefox):
            try:
                stream.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


def serve(listener: socket.socket, address: tuple[str, int]) -> None:
    """Connect each client with Firefox."""
    while True:
        client, _ = listener.accept()
        bridge = Bridge(client, socket.create_connection(address))
        for run in (bridge.pass_commands, bridge.pass_answers):
            threading.Thread(target=pass_frames, args=(run, bridge), daemon=True).start()


def main() -> int:
    """Run Firefox until it ends; return its exit status."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    process = subprocess.Popen(sys.argv[1:], stderr=subprocess.PIPE, text=True, errors="replace")
    assert process.stderr is not None
    for line in process.stderr:
        if found := LISTENING.search(line):
            address = (found[1], int(found[2]))
            threading.Thread(target=serve, args=(listener, address), daemon=True).start()
            line = line.replace(f"{address[0]}:{address[1]}", f"127.0.0.1:{port}")
        sys.stderr.write(line)
        sys.stderr.flush()
    return process.wait()


if __name__ == "__main__":
    sys.exit(main())
