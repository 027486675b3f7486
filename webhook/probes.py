"""Plain HTTP for the kubelet and Prometheus: /healthz, /readyz, /metrics. It must never show a pod's data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from aiohttp import web

from certs.serving import ServingCertificate
from webhook.metrics import Metrics

_LINES = 100


@dataclass(slots=True)
class Health:
    """What readiness is made of.

    Attributes:
        certificate: what is served; None while nobody listens yet
        loaded: policies in force, None before the first good set
        broken: the newest policies can't be put in force at all
        problems: what is wrong with policies, a line each
        troubles: asked for what else is not as it should be, a line each
    """

    certificate: ServingCertificate | None = None
    loaded: int | None = None
    broken: bool = False
    problems: tuple[str, ...] = ()
    draining: bool = False
    troubles: Callable[[], list[str]] = list

    def why_not_serving(self) -> str:
        """ "" or why reviews can't be answered at all; while draining they still are."""
        if self.loaded is not None:
            return ""
        return "no valid set of policies has been loaded yet"

    def report(self) -> tuple[bool, str]:
        """Ready or not, and a few lines for a human that say why."""
        lines = []
        ready = self.loaded is not None and self.certificate is not None and not self.draining
        if self.draining:
            lines.append("draining: shutting down, answering what still comes")
        if self.loaded is None:
            lines.append(f"policies: {self.why_not_serving()}")
        else:
            lines.append(f"policies: {self.loaded} in force")
        if self.problems:
            kept = "" if self.loaded is None else ", the last good set stays in force"
            what = (
                f"the newest set is invalid{kept}" if self.broken else "not in force, since they are invalid"
            )
            lines.append(f"policies: {what}:")
            lines += [f"  {problem}" for problem in self.problems[:_LINES]]
            if len(self.problems) > _LINES:
                lines.append(f"  and {len(self.problems) - _LINES} more")
        lines += self._certificate_lines()
        lines += self.troubles()
        return ready, "\n".join(["ready" if ready else "not ready", *lines, ""])

    def _certificate_lines(self) -> list[str]:
        certificate = self.certificate
        if certificate is None:
            return ["tls: not listening yet"]
        expired = " (expired)" if certificate.expires <= datetime.now(UTC) else ""
        lines = [f"tls: certificate valid until {certificate.expires:%Y-%m-%dT%H:%M:%SZ}{expired}"]
        if certificate.problem:
            lines.append(f"tls: the newest files can't be used: {certificate.problem}")
        return lines


def application(health: Health, metrics: Metrics) -> web.Application:
    """The routes of the probe port."""

    async def healthz(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_request: web.Request) -> web.Response:
        ready, text = health.report()
        return web.Response(status=200 if ready else 503, text=text)

    async def scrape(request: web.Request) -> web.Response:
        body, content_type = metrics.render(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    app = web.Application()
    for path, handler in (("/healthz", healthz), ("/readyz", readyz), ("/metrics", scrape)):
        app.router.add_get(path, handler)
    return app
