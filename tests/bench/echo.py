"""The server to compare with: aiohttp at its barest (its low-level server without routes and access log,
C parser, uvloop) over the same TLS settings. It reads a request's whole body and answers fixed bytes: as
many as the number that is its path, `POST /2048`.

    python -m tests.bench.echo CERTIFICATE KEY      prints its port, then serves until it is terminated
"""

from __future__ import annotations

import asyncio
import ssl
import sys

import uvloop
from aiohttp import web


async def main(certificate: str, key: str) -> None:
    answers: dict[str, bytes] = {}

    async def echo(request: web.BaseRequest) -> web.Response:
        await request.read()
        path = request.path
        if path not in answers:
            answers[path] = b"x" * int(path[1:])
        return web.Response(body=answers[path], content_type="application/json")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.num_tickets = 0
    server = await asyncio.get_running_loop().create_server(
        web.Server(echo, access_log=None), "127.0.0.1", 0, ssl=context
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
