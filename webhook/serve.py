"""The serving process: wires source, certificate, listeners and signals together, and knows when to stop.

All the work is elsewhere. What a user got wrong is one line on stderr and exit code 2, never a traceback.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop
from aiohttp import web

from certs import throwaway
from certs.serving import ServingCertificate, UnusableCertificate
from webhook import logs
from webhook.logs import fields, frames
from webhook.metrics import Metrics
from webhook.probes import Health, application
from webhook.reviewer import Reviewer
from webhook.server import MAX_BODY, Limits, MutateServer
from webhook.sources.directory import DirectorySource, Reading

_log = logging.getLogger(__name__)

_UNUSABLE = 2


@dataclass(frozen=True)
class ServeOptions:
    """What `spark-webhook serve` was asked for.

    Attributes:
        policies: directory of policies and Namespace documents
        tls_cert, tls_key: PEM files, both or neither; without them a throwaway certificate for localhost
        host: address of both listeners
        port, probe_port: 0 takes any free one
        allowed: guardrails lifted for namespaced policies
        own_namespace: where the webhook runs; its pods are never touched
        log_format: of logs.FORMATS
        log_level: of logs.LEVELS
        shutdown_delay: seconds after SIGTERM in which requests are still taken while /readyz already fails:
            as long as it takes until no API server sends new ones here
        max_body: bytes of one request body
    """

    policies: Path
    tls_cert: Path | None = None
    tls_key: Path | None = None
    host: str = "0.0.0.0"
    port: int = 8443
    probe_port: int = 8080
    allowed: frozenset[str] = frozenset()
    own_namespace: str = field(default_factory=lambda: os.environ.get("POD_NAMESPACE") or "spark-webhook")
    log_format: str = "json"
    log_level: str = "info"
    shutdown_delay: float = 5.0
    max_body: int = MAX_BODY


class _Unusable(Exception):
    """The options can't be served; `str()` says why."""


def run(options: ServeOptions) -> int:
    """Serve until SIGTERM or SIGINT. Returns the process's exit code: 0, or 2 for unusable options."""
    # An admission makes a thousand objects and no cycle; reference counts free them. Look for cycles rarely.
    gc.set_threshold(50_000, 20, 20)
    stream = logs.Stream()
    logs.set_up(options.log_format, options.log_level, stream)
    try:
        return uvloop.run(serve(options, stream))
    finally:
        stream.close()


async def serve(options: ServeOptions, stream: logs.Stream) -> int:
    """As `run`, on the running event loop, with the log already set up to go to the stream."""
    asyncio.get_running_loop().set_exception_handler(_unexpected)
    try:
        with _certificate_files(options) as (certificate, key):
            await _serve(options, ServingCertificate(certificate, key), stream)
    except (_Unusable, UnusableCertificate) as error:
        print(f"spark-webhook serve: {error}", file=sys.stderr)
        return _UNUSABLE
    return 0


async def _serve(options: ServeOptions, certificate: ServingCertificate, stream: logs.Stream) -> None:
    if not options.policies.is_dir():
        raise _Unusable(f"--policies {options.policies}: there is no such directory")
    stopping = _signals()
    metrics, health = Metrics(), Health(certificate)
    admissions = logs.AdmissionLog(options.log_format, options.log_level, stream)
    reviewer = Reviewer(metrics, admissions)
    server = MutateServer(reviewer.answer, health.why_not_serving, metrics, Limits(body=options.max_body))
    source = DirectorySource(
        options.policies,
        allowed=options.allowed,
        own_namespace=options.own_namespace,
        on_reading=lambda reading: _take(reading, reviewer, health, metrics),
    )
    _tell_certificate(certificate, metrics)
    await source.reload()
    probes = web.AppRunner(application(health, metrics), access_log=None, shutdown_timeout=1.0)
    await probes.setup()
    background: list[asyncio.Task[None]] = []
    try:
        probe_port = await _listen_for_probes(probes, options)
        port = await _listen(server, options, certificate)
        host = f"[{options.host}]" if ":" in options.host else options.host
        print(f"serving https on {host}:{port}, probes on {host}:{probe_port}", flush=True)
        background = [
            _in_background(source.watch()),
            _in_background(certificate.watch(lambda: _tell_certificate(certificate, metrics))),
        ]
        await stopping.wait()
        health.draining = True
        server.drain()
        _log.info("draining", extra=fields(seconds=options.shutdown_delay))
        stopping.clear()
        await _pause(options.shutdown_delay, unless=stopping)
        await server.close()
        admissions.flush()
        _log.info("stopped")
    finally:
        admissions.flush()
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        await probes.cleanup()


def _take(reading: Reading, reviewer: Reviewer, health: Health, metrics: Metrics) -> None:
    """Put a reading in force, all at once, or say why it is not."""
    metrics.policy_reload(broken=reading.policies is None)
    health.problems = reading.problems
    if reading.policies is None:
        kept = "none are" if health.loaded is None else "the last good set stays"
        for problem in reading.problems:
            _log.error(f"invalid policies, {kept} in force", extra=fields(problem=str(problem)))
        return
    reviewer.policies = reading.policies
    health.loaded = len(reading.policies)
    metrics.policies_loaded.set(health.loaded)
    _log.info("policies in force", extra=fields(count=health.loaded))


def _tell_certificate(certificate: ServingCertificate, metrics: Metrics) -> None:
    metrics.certificate_expiry.set(certificate.expires.timestamp())
    metrics.certificate_broken.set(bool(certificate.problem))
    if certificate.problem:
        _log.error("the old certificate stays in use", extra=fields(problem=certificate.problem))
    else:
        _log.info("certificate in use", extra=fields(expires=certificate.expires.isoformat()))


@contextmanager
def _certificate_files(options: ServeOptions) -> Iterator[tuple[Path, Path]]:
    """The certificate and key to serve; throwaway ones live as long as the context."""
    if options.tls_cert is not None and options.tls_key is not None:
        yield options.tls_cert, options.tls_key
        return
    if options.tls_cert is not None or options.tls_key is not None:
        raise _Unusable("--tls-cert and --tls-key go together: give both, or none for a throwaway")
    with tempfile.TemporaryDirectory(prefix="spark-webhook-") as directory:
        made = throwaway.make(Path(directory))
        print(f"CA certificate: {made.ca}", flush=True)
        yield made.certificate, made.key


async def _listen(server: MutateServer, options: ServeOptions, certificate: ServingCertificate) -> int:
    try:
        return await server.start(options.host, options.port, certificate.context)
    except OSError as error:
        raise _cannot_listen("--port", options.host, options.port, error) from None


async def _listen_for_probes(probes: web.AppRunner, options: ServeOptions) -> int:
    try:
        await web.TCPSite(probes, options.host, options.probe_port).start()
    except OSError as error:
        raise _cannot_listen("--probe-port", options.host, options.probe_port, error) from None
    return int(probes.addresses[0][1])


def _cannot_listen(option: str, host: str, port: int, error: OSError) -> _Unusable:
    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
    return _Unusable(f"{option}: cannot listen on {host} port {port}: {reason or error}")


def _signals() -> asyncio.Event:
    """Set by SIGTERM and SIGINT."""
    event = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, event.set)
    return event


async def _pause(seconds: float, *, unless: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await unless.wait()


def _in_background(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """A task that runs for ever; if it ends by an exception, the log says so."""
    task = asyncio.create_task(work)
    task.add_done_callback(_ended)
    return task


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("a background task died, this is a bug", extra=fields(traceback=frames(error)))


def _unexpected(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What the event loop could not give to anybody."""
    error = context.get("exception")
    more = fields(traceback=frames(error)) if isinstance(error, BaseException) else {}
    _log.error(str(context.get("message", "event loop error")), extra=more)
