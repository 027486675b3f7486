"""HTTP for the API server: one route, limits, deadlines, drain. Knows nothing of pods or policies.

Every request that was read gets an answer, and every error answer is a Kubernetes `Status` object. It must
never log per request, never wait inside a decision, and never let a client's mistake reach the log as a
traceback. aiohttp's low-level server is used without its Application: for one path, routing costs as much as
reading the request does.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs, urlsplit

from aiohttp import HttpVersion11, web
from aiohttp.abc import AbstractStreamWriter

from webhook.logs import fields, frames
from webhook.metrics import Metrics
from webhook.review import BadReview, status_object

PATH = "/mutate"
MAX_BODY = 7 << 20

_log = logging.getLogger(__name__)

_JSON = "application/json"
_DEFAULT_DEADLINE, _LONGEST_DEADLINE = 10.0, 30.0  # seconds: the API server's default and maximum
_LAG_PERIOD = 0.1  # seconds between two looks at how late the event loop is
_QUIET, _QUIETS = 0.25, 20  # seconds without a request after which idle connections are closed; tries
_HANDSHAKE = 10.0  # seconds for a TLS handshake
_LINGER = 2.0  # seconds to read and drop a refused body, so that the client sees the answer and not a reset
_GOODBYE = 2.0  # seconds for a client to take its last answer and to close its side
_BACKLOG = 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """What clients may cost. Sizes in bytes, times in seconds.

    body: the API server takes objects of up to 3 MiB, and a review may hold an old and a new one in an
        envelope: 7 MiB refuse nothing that could otherwise be stored.
    reading: all bodies together that are still arriving; beyond it new ones are asked to come back.
    body_time: for a body to arrive.
    lag: how late the event loop may be before new requests are asked to come back. A decision waits for
        nothing, so the loop's own queue is the only one, and its age tells that it is too long.
    keep_alive: for idle connections; the API server closes them after 90 s and must be the one who does.
    """

    body: int = MAX_BODY
    reading: int = 64 << 20
    body_time: float = 10.0
    lag: float = 1.0
    keep_alive: float = 120.0


class MutateServer:
    """The HTTPS listener.

    `answer` turns a whole request body into the answer's body; it raises BadReview for what cannot be
    answered, and whatever else it raises becomes a 500. `why_not_ready` is asked before a request is read:
    "" or the reason to send the client away for a second.
    """

    def __init__(
        self,
        answer: Callable[[bytes], bytes],
        why_not_ready: Callable[[], str],
        metrics: Metrics,
        limits: Limits,
    ) -> None:
        self._answer = answer
        self._why_not_ready = why_not_ready
        self._metrics = metrics
        self._limits = limits
        self._draining = False
        self._bodies = self._bytes = 0
        self._no_bodies = asyncio.Event()
        self._no_bodies.set()
        self._late = 0.0
        self._listener: asyncio.Server | None = None
        self._lag_timer: asyncio.TimerHandle | None = None
        self._connections = _Connections(
            self._handle,
            self._protocol_error,
            keepalive_timeout=limits.keep_alive,
            lingering_time=_LINGER,
            # The API server never compresses; what is not inflated cannot be a bomb.
            auto_decompress=False,
            access_log=None,
        )
        metrics.watch_in_flight(lambda: self._bodies)

    async def start(self, host: str, port: int, context: ssl.SSLContext, *, reuse_port: bool = False) -> int:
        """Listen, and return the port (the one chosen for 0). Raises OSError if that cannot be.

        `reuse_port`: other processes may listen there too, and share the connections.
        """
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            self._connections,
            host,
            port,
            ssl=context,
            backlog=_BACKLOG,
            reuse_port=reuse_port,
            ssl_handshake_timeout=_HANDSHAKE,
            ssl_shutdown_timeout=_GOODBYE,
        )
        self._watch_lag(loop, loop.time())
        return int(self._listener.sockets[0].getsockname()[1])

    def drain(self) -> None:
        """Go on accepting and answering, but let each connection end with its next answer."""
        self._draining = True

    async def close(self) -> None:
        """Stop accepting, answer what was read, then close. Bounded by the limits' `body_time` and 15 s."""
        self.drain()
        if self._listener is not None:
            self._listener.close()
        # What was accepted a moment ago is still on its way through the handshake: wait until it is quiet.
        for _ in range(_QUIETS):
            answered = self._connections.requests_count
            await asyncio.sleep(_QUIET)
            if self._connections.requests_count == answered:
                break
        await self._no_bodies.wait()
        self._connections.pre_shutdown()
        await self._connections.shutdown(_LINGER)
        with suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE + _LINGER):
                await self._connections.all_gone.wait()
        if self._lag_timer is not None:
            self._lag_timer.cancel()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            deadline = self._check(request)
            content = request.content
            if content.is_eof():
                body = content.read_nowait()
                if len(body) > self._limits.body:
                    raise self._too_large()
            else:
                body = await self._read(request, deadline)
            answer = self._answer(body)
        except BadReview as error:
            return self._error(_HttpError(error.status, error.message))
        except _HttpError as error:
            return self._error(error)
        except (web.RequestPayloadError, ConnectionError):
            return self._error(_HttpError(400, "the request body ended early or is badly framed", close=True))
        except Exception as error:
            return self._error(_fault(error))
        if request.keep_alive and request.version == HttpVersion11 and not self._draining:
            return _Answer(answer)
        response = web.Response(body=answer, headers=_HEADERS)
        if self._draining:
            response.force_close()
        return response

    def _check(self, request: web.BaseRequest) -> float:
        """The request's deadline in seconds; raises _HttpError if it need not be read."""
        path, deadline = _target(request.raw_path)
        if path != PATH:
            raise _HttpError(404, f"there is nothing here but POST {PATH}")
        if request.method != "POST":
            raise _HttpError(405, f"{PATH} takes POST only", Allow="POST")
        headers = request.headers
        if headers.get("Content-Type") != _JSON and request.content_type != _JSON:
            raise _HttpError(415, f"the Content-Type must be {_JSON}")
        if headers.get("Content-Encoding", "identity") != "identity":
            raise _HttpError(415, "send the review uncompressed, without Content-Encoding")
        if reason := self._why_not_ready():
            raise _HttpError(503, reason)
        if self._late > self._limits.lag:
            raise _HttpError(503, "too many requests at once, ask again")
        return deadline

    async def _read(self, request: web.BaseRequest, deadline: float) -> bytes:
        """A body that did not arrive together with its head: counted, limited and timed."""
        limits, content = self._limits, request.content
        if (request.content_length or 0) > limits.body:
            raise self._too_large()
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        body = bytearray()
        self._bodies += 1
        self._no_bodies.clear()
        try:
            async with asyncio.timeout(min(limits.body_time, deadline - min(0.5, deadline / 5))):
                while chunk := await content.readany():
                    body += chunk
                    self._bytes += len(chunk)
                    if len(body) > limits.body:
                        raise self._too_large()
                    if self._bytes > limits.reading:
                        raise _HttpError(503, "too many large requests at once, ask again")
        except TimeoutError:
            raise _HttpError(408, "the request body did not arrive in time", close=True) from None
        finally:
            self._bytes -= len(body)
            self._bodies -= 1
            if not self._bodies:
                self._no_bodies.set()
        return bytes(body)

    def _too_large(self) -> _HttpError:
        return _HttpError(413, f"the request body is larger than {self._limits.body} bytes")

    def _error(self, error: _HttpError) -> web.StreamResponse:
        self._metrics.http_error(error.code)
        headers = {**_HEADERS, **error.headers}
        if error.code == 503:
            # With it the API server asks again each second until its deadline, without it it gives up.
            headers["Retry-After"] = "1"
        body = status_object(error.code, error.message)
        response = web.Response(status=error.code, body=body, headers=headers)
        if error.close or self._draining:
            response.force_close()
        return response

    def _protocol_error(self) -> web.StreamResponse:
        return self._error(_HttpError(400, "the request is not valid HTTP/1.1", close=True))

    def _watch_lag(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        now = loop.time()
        self._late = now - due
        due = now + _LAG_PERIOD
        self._lag_timer = loop.call_at(due, self._watch_lag, loop, due)


class _HttpError(Exception):
    """An answer that is no answer to the review. `close`: the connection cannot be used any more."""

    def __init__(self, code: int, message: str, *, close: bool = False, **headers: str) -> None:
        super().__init__(message)
        self.code, self.message, self.close, self.headers = code, message, close, headers


def _fault(error: Exception) -> _HttpError:
    """Our own fault: the client gets a number, the log has the frames."""
    number = uuid.uuid4().hex[:12]
    _log.error("a request failed, this is a bug", extra=fields(error_id=number, traceback=frames(error)))
    return _HttpError(500, f"the webhook failed on this request; its log says more under {number}")


_HEADERS = {"Content-Type": _JSON, "Server": "spark-webhook"}


class _Answer(web.StreamResponse):
    """An answer of 200 to a client that keeps the connection, written in one piece.

    web.Response builds, checks and serializes a header map for each answer, a sixth of the whole request.
    """

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self._bytes = body
        self._out: AbstractStreamWriter | None = None

    @property
    def keep_alive(self) -> bool:
        return True

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter:
        self._out = request.writer
        return request.writer

    async def write_eof(self, data: bytes = b"") -> None:
        assert self._out is not None
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nDate: %b\r\n\r\n"
        await self._out.write(head % (len(self._bytes), _date(int(time.time()))) + self._bytes)


class _Connections(web.Server):
    """aiohttp's server with our answer to what is no HTTP.

    `all_gone`: the last byte of every connection is sent and its end confirmed; aiohttp itself forgets a
    connection as soon as it has decided to close it.
    """

    def __init__(
        self, handler: Any, protocol_error: Callable[[], web.StreamResponse], **options: Any
    ) -> None:
        super().__init__(handler, **options)
        self.protocol_error = protocol_error
        self.all_gone = asyncio.Event()
        self.all_gone.set()
        self._options = options
        self._running = asyncio.get_running_loop()
        self._open = 0

    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=self._running, **self._options)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._open += 1
        self.all_gone.clear()

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._open -= 1
        if not self._open:
            self.all_gone.set()


class _Connection(web.RequestHandler):
    """One client connection. What aiohttp logs as errors here are the mistakes of clients."""

    __slots__ = ("_errors",)

    def __init__(self, connections: _Connections, **options: Any) -> None:
        super().__init__(connections, **options)
        self._errors = connections.protocol_error

    def handle_error(self, *_args: Any, **_kwargs: Any) -> web.StreamResponse:
        return self._errors()

    def log_exception(self, *args: Any, **kwargs: Any) -> None:
        _log.debug(*args, **kwargs)


@lru_cache(maxsize=1)
def _date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode("ascii")


_DURATION = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


@lru_cache(maxsize=256)
def _target(raw_path: str) -> tuple[str, float]:
    """Path and deadline (seconds) of a request target; an unusable `timeout` counts as absent."""
    try:
        url = urlsplit(raw_path)
        text = parse_qs(url.query).get("timeout", [""])[-1]
    except ValueError:
        return "", _DEFAULT_DEADLINE
    parts = _DURATION.findall(text)
    deadline = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or not deadline:
        deadline = _DEFAULT_DEADLINE
    return url.path, min(deadline, _LONGEST_DEADLINE)
