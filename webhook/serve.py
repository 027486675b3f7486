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
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from webhook.sources.directory import DirectorySource
from webhook.sources.reading import Reading

if TYPE_CHECKING:
    from webhook.cluster import Cluster

_log = logging.getLogger(__name__)

_UNUSABLE = 2


@dataclass(frozen=True)
class KubeOptions:
    """How to use the cluster.

    Attributes:
        kubeconfig: None: as the pod's service account, or by $KUBECONFIG
        tls_secret: the Secret of the own namespace that holds the certificate, made by the server where it is
            empty; "": the certificate comes from files
        service: the Service of the own namespace that the API server calls
        webhook_configuration: the MutatingWebhookConfiguration whose caBundle is to be written
    """

    kubeconfig: Path | None = None
    tls_secret: str = ""
    service: str = "spark-webhook"
    webhook_configuration: str = "spark-webhook"


@dataclass(frozen=True)
class ServeOptions:
    """What `spark-webhook serve` was asked for.

    Attributes:
        policies: directory of policies and Namespace documents; None with `kube`
        kube: take policies and namespaces from the cluster
        tls_cert, tls_key: PEM files, both or neither; without them, and without kube.tls_secret, a throwaway
            certificate for localhost
        host: address of both listeners
        port, probe_port: 0 takes any free one
        allowed: guardrails lifted for namespaced policies
        own_namespace: where the webhook runs; its pods are never touched
        log_format: of logs.FORMATS
        log_level: of logs.LEVELS
        shutdown_delay: seconds after SIGTERM in which requests are still taken while /readyz already fails:
            as long as it takes until no API server sends new ones here
        max_body: bytes of one request body
        reuse_port: several processes may share address and port
    """

    policies: Path | None = None
    kube: KubeOptions | None = None
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
    reuse_port: bool = False


class _Unusable(Exception):
    """The options can't be served; `str()` says why."""


def run(options: ServeOptions) -> int:
    """Serve until SIGTERM or SIGINT. Returns the process's exit code: 0, or 2 for unusable options."""
    # An admission makes a thousand objects and no cycle; reference counts free them. Look for cycles rarely.
    gc.set_threshold(50_000, 20, 20)
    # A thread checks policies: admissions should not wait the usual 5 ms for their turn, again and again.
    sys.setswitchinterval(0.0005)
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
        async with AsyncExitStack() as stack:
            await _serve(options, stream, stack)
    except (_Unusable, UnusableCertificate) as error:
        print(f"spark-webhook serve: {error}", file=sys.stderr)
        return _UNUSABLE
    return 0


async def _serve(options: ServeOptions, stream: logs.Stream, stack: AsyncExitStack) -> None:
    """Serve until a signal; what has to be undone at the end goes onto the stack, in its order."""
    stopping = _signals()
    metrics, health = Metrics(), Health()
    admissions = logs.AdmissionLog(options.log_format, options.log_level, stream)
    stack.callback(admissions.flush)
    reviewer = Reviewer(metrics, admissions)
    server = MutateServer(reviewer.answer, health.why_not_serving, metrics, Limits(body=options.max_body))
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spark-webhook-")))

    def take(reading: Reading) -> None:
        _take(reading, reviewer, health, metrics)

    if options.kube is None:
        files = _certificate_files(options, directory)
        certificate = ServingCertificate(*files)
        source = await _read_directory(options, take)
        probe_port = await _listen_for_probes(health, metrics, options, stack)
        _in_background(source.watch(), stack)
    else:
        cluster = await _connect(options, options.kube, directory, metrics, take)
        stack.push_async_callback(cluster.close)
        reviewer.look_up, health.troubles = cluster.source.look_up, cluster.troubles
        probe_port = await _listen_for_probes(health, metrics, options, stack)
        _in_background(cluster.run(), stack)
        if cluster.secret is not None:
            await _first(cluster.secret.ready, stopping)
            files = cluster.secret.certificate, cluster.secret.key
        else:
            files = _certificate_files(options, directory)
        if stopping.is_set():
            return
        certificate = ServingCertificate(*files)
    _tell_certificate(certificate, metrics)
    _in_background(certificate.watch(lambda: _tell_certificate(certificate, metrics)), stack)
    port = await _listen(server, options, certificate)
    health.certificate = certificate
    host = f"[{options.host}]" if ":" in options.host else options.host
    print(f"serving https on {host}:{port}, probes on {host}:{probe_port}", flush=True)
    await stopping.wait()
    health.draining = True
    server.drain()
    _log.info("draining", extra=fields(seconds=options.shutdown_delay))
    stopping.clear()
    await _pause(options.shutdown_delay, unless=stopping)
    await server.close()
    admissions.flush()
    _log.info("stopped")


async def _read_directory(options: ServeOptions, take: Callable[[Reading], None]) -> DirectorySource:
    if options.policies is None or not options.policies.is_dir():
        raise _Unusable(f"--policies {options.policies}: there is no such directory")
    source = DirectorySource(
        options.policies, allowed=options.allowed, own_namespace=options.own_namespace, on_reading=take
    )
    await source.reload()
    return source


async def _connect(
    options: ServeOptions,
    kube: KubeOptions,
    directory: Path,
    metrics: Metrics,
    take: Callable[[Reading], None],
) -> Cluster:
    # Who serves files should not pay for this import: the library has a class for each kind of object.
    from webhook.cluster import Cluster  # noqa: PLC0415
    from webhook.kube.client import KubeClient, UnusableConfiguration  # noqa: PLC0415

    try:
        client = await KubeClient.connect(kube.kubeconfig)
    except UnusableConfiguration as error:
        raise _Unusable(f"--kube: {error}") from None
    return Cluster(client, options, kube, directory=directory, metrics=metrics, on_reading=take)


def _take(reading: Reading, reviewer: Reviewer, health: Health, metrics: Metrics) -> None:
    """Put a reading in force, all at once, or say why it is not."""
    broken = reading.policies is None
    metrics.policy_reload(broken=broken)
    for problem in reading.problems:
        if problem not in health.problems:
            kept = "" if not broken else "none are" if health.loaded is None else "the last good set stays"
            message = f"invalid policies, {kept} in force" if broken else "a policy is not in force"
            _log.error(message, extra=fields(problem=problem))
    health.problems, health.broken = reading.problems, broken
    metrics.policies_invalid.set(reading.left_out)
    if reading.policies is None:
        return
    reviewer.policies = reading.policies
    if health.loaded != len(reading.policies):
        _log.info("policies in force", extra=fields(count=len(reading.policies)))
    health.loaded = len(reading.policies)
    metrics.policies_loaded.set(health.loaded)


def _tell_certificate(certificate: ServingCertificate, metrics: Metrics) -> None:
    metrics.certificate_expiry.set(certificate.expires.timestamp())
    metrics.certificate_broken.set(bool(certificate.problem))
    if certificate.problem:
        _log.error("the old certificate stays in use", extra=fields(problem=certificate.problem))
    else:
        _log.info("certificate in use", extra=fields(expires=certificate.expires.isoformat()))


def _certificate_files(options: ServeOptions, directory: Path) -> tuple[Path, Path]:
    """The certificate and key to serve; throwaway ones are made in the directory."""
    if options.tls_cert is not None and options.tls_key is not None:
        return options.tls_cert, options.tls_key
    if options.tls_cert is not None or options.tls_key is not None:
        raise _Unusable("--tls-cert and --tls-key go together: give both, or none for a throwaway")
    made = throwaway.make(directory)
    print(f"CA certificate: {made.ca}", flush=True)
    return made.certificate, made.key


async def _listen(server: MutateServer, options: ServeOptions, certificate: ServingCertificate) -> int:
    try:
        return await server.start(
            options.host, options.port, certificate.context, reuse_port=options.reuse_port
        )
    except OSError as error:
        raise _cannot_listen("--port", options.host, options.port, error) from None


async def _listen_for_probes(
    health: Health, metrics: Metrics, options: ServeOptions, stack: AsyncExitStack
) -> int:
    probes = web.AppRunner(application(health, metrics), access_log=None, shutdown_timeout=1.0)
    await probes.setup()
    stack.push_async_callback(probes.cleanup)
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


async def _first(*events: asyncio.Event) -> None:
    """Wait until one of them is set."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()


def _in_background(work: Coroutine[Any, Any, None], stack: AsyncExitStack) -> None:
    """Do this until the stack unwinds; if it ends by an exception, the log says so."""
    task = asyncio.create_task(work)
    task.add_done_callback(_ended)

    async def end() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(end)


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("a background task died, this is a bug", extra=fields(traceback=frames(error)))


def _unexpected(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What the event loop could not give to anybody."""
    error = context.get("exception")
    more = fields(traceback=frames(error)) if isinstance(error, BaseException) else {}
    _log.error(str(context.get("message", "event loop error")), extra=more)
