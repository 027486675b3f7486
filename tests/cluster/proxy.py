"""A TCP proxy in front of the API server: connections through it can be held up, cut and counted."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import yaml


class Proxy:
    """A context manager.

    Attributes:
        sent: bytes that clients have sent so far
        connections: how many clients have connected so far
    """

    def __init__(self, url: str) -> None:
        """`url` is the API server's, with host and port."""
        parts = urlsplit(url)
        assert parts.hostname
        assert parts.port
        self._target = parts.hostname, parts.port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._open: set[asyncio.StreamWriter] = set()
        self._through = asyncio.Event()
        self._through.set()
        self.sent = self.connections = 0
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop
        ).result(10)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def kubeconfig(self, like: Path, directory: Path) -> Path:
        """A copy of a kubeconfig that goes through the proxy."""
        config = yaml.safe_load(like.read_text())
        for cluster in config["clusters"]:
            cluster["cluster"]["server"] = f"https://127.0.0.1:{self.port}"
        path = directory / f"through-{self.port}.kubeconfig"
        path.write_text(json.dumps(config))
        return path

    def hold(self) -> None:
        """Cut all connections, and let new ones wait."""
        self._loop.call_soon_threadsafe(self._through.clear)
        self.cut()

    def release(self) -> None:
        """Let through who waits, and everybody after them."""
        self._loop.call_soon_threadsafe(self._through.set)

    def cut(self) -> None:
        """Cut all connections."""
        self._loop.call_soon_threadsafe(self._cut)

    def _cut(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def _close(self) -> None:
        self._server.close()
        self._cut()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        try:
            await self._through.wait()
            far_reader, far_writer = await asyncio.open_connection(*self._target)
            self._open.add(far_writer)
            await asyncio.gather(
                self._copy(reader, far_writer, count=True), self._copy(far_reader, writer, count=False)
            )
            self._open.discard(far_writer)
        except OSError:
            pass
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, count: bool) -> None:
        try:
            while data := await reader.read(1 << 16):
                if count:
                    self.sent += len(data)
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.transport.abort()
