"""The network between one worker and the database: it can stand still, and it can break in a commit."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Literal

CommitCut = Literal["before", "after"]
"""Whether the connection breaks before the server sees the commit, or before the worker sees its answer."""

_COMMIT = b"COMMIT;"
_EXECUTION = b"B"  # how asyncpg begins the messages that run a prepared statement
_READY = b"Z\0\0\0\5"  # how the server ends an answer, before it says where its transaction stands
_BLOCK = 1 << 16


class Proxy:
    """Passes bytes between a UNIX socket of its own and the server's."""

    def __init__(self, folder: Path, server_folder: Path) -> None:
        self.folder = folder
        self._upstream = str(server_folder / ".s.PGSQL.5432")
        self._flows = asyncio.Event()
        self._flows.set()
        self._next_commit: CommitCut | None = None
        self.commits_cut = 0
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen."""
        self.folder.mkdir()
        self._server = await asyncio.start_unix_server(self._serve, self.folder / ".s.PGSQL.5432")

    def close(self) -> None:
        """Stop listening."""
        self._flows.set()
        if self._server is not None:
            self._server.close()

    async def stand_still(self, seconds: float) -> None:
        """Hold back every byte for a while, then pass all of them on: statements arrive late."""
        self._flows.clear()
        try:
            await asyncio.sleep(seconds)
        finally:
            self._flows.set()

    def break_in_next_commit(self, cut: CommitCut) -> None:
        """Break the next connection that commits, in the middle of it."""
        self._next_commit = cut

    async def _serve(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        await self._flows.wait()
        try:
            server_in, server_out = await asyncio.open_unix_connection(self._upstream)
        except OSError:
            client_out.transport.abort()
            return
        link = _Link(self, client_in, client_out, server_in, server_out)
        await link.run()

    async def flow(self) -> None:
        """Wait while the network stands still."""
        await self._flows.wait()

    def cut_of(self, block: bytes, *, idle: bool) -> CommitCut | None:
        """How the connection that carries this block breaks now, if it does; `idle` outside a transaction."""
        commits = _COMMIT in block or (idle and block.startswith(_EXECUTION))
        if self._next_commit is None or not commits:
            return None
        cut, self._next_commit = self._next_commit, None
        self.commits_cut += 1
        return cut


class _Link:
    """One connection through the proxy."""

    def __init__(
        self,
        proxy: Proxy,
        client_in: asyncio.StreamReader,
        client_out: asyncio.StreamWriter,
        server_in: asyncio.StreamReader,
        server_out: asyncio.StreamWriter,
    ) -> None:
        self._proxy = proxy
        self._client_in, self._client_out = client_in, client_out
        self._server_in, self._server_out = server_in, server_out
        self._answer_is_lost = False
        self._is_idle = False

    async def run(self) -> None:
        """Pass bytes until one side ends, or the plan breaks the connection."""
        pumps = [asyncio.create_task(self._to_server()), asyncio.create_task(self._to_client())]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            self._client_out.transport.abort()
            self._server_out.transport.abort()

    async def _to_server(self) -> None:
        with contextlib.suppress(OSError):
            while block := await self._client_in.read(_BLOCK):
                await self._proxy.flow()
                cut = self._proxy.cut_of(block, idle=self._is_idle)
                if cut == "before":
                    return
                self._answer_is_lost = cut == "after"
                self._server_out.write(block)
                await self._server_out.drain()

    async def _to_client(self) -> None:
        with contextlib.suppress(OSError):
            while block := await self._server_in.read(_BLOCK):
                await self._proxy.flow()
                if self._answer_is_lost:
                    return
                if block[:-1].endswith(_READY):
                    self._is_idle = block.endswith(b"I")
                self._client_out.write(block)
                await self._client_out.drain()
