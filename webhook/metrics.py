"""The numbers of one server, in Prometheus' text format; every name starts with `spark_webhook_`.

It must never label with what a pod's author can choose: labels are roles, reason codes and HTTP codes only.
Which policy a finding is about stands in the log line, not here: policies come and go, series stay.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder

from webhook.admission import Decision
from webhook.reasons import Reason
from webhook.spark import DRIVER, EXECUTOR

# A decision takes tens of microseconds to a few milliseconds; the API server waits seconds.
_BUCKETS = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0)


class Metrics:
    """Counters of one server process. `registry` is its own, so that two servers in one process can't mix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(namespace="spark_webhook", registry=self.registry)
        self._admissions = Counter(
            "spark_webhook_admissions",
            "Answered admission reviews by Spark role and outcome",
            ["role", "reason"],
            registry=self.registry,
        )
        self._findings = Counter(
            "spark_webhook_findings",
            "Policy features that were not applied as written, by reason",
            ["reason"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "spark_webhook_admission_seconds",
            "Time from the whole request body to the answer's bytes",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._http_errors = Counter(
            "spark_webhook_http_errors",
            "Requests that were answered with an HTTP error",
            ["code"],
            registry=self.registry,
        )
        self._in_flight = Gauge(
            "spark_webhook_in_flight_requests",
            "Requests whose body is being read or decided on",
            registry=self.registry,
        )
        self.policies_loaded = Gauge(
            "spark_webhook_policies_loaded", "Policies in force", registry=self.registry
        )
        self.policy_source_broken = Gauge(
            "spark_webhook_policy_source_broken",
            "1 while the newest policies are invalid and an older set is in force, or none",
            registry=self.registry,
        )
        self.policies_invalid = Gauge(
            "spark_webhook_policies_invalid",
            "Policy objects that are not in force, since they are invalid",
            registry=self.registry,
        )
        self._watches = Gauge(
            "spark_webhook_watch_connected",
            "1 while changes of this resource are heard of, 0 while the API server can't be watched",
            ["resource"],
            registry=self.registry,
        )
        self._reloads = Counter(
            "spark_webhook_policy_reloads",
            "Policy sets read, by result (ok, broken)",
            ["result"],
            registry=self.registry,
        )
        self.certificate_expiry = Gauge(
            "spark_webhook_certificate_expiry_timestamp_seconds",
            "When the serving certificate expires (Unix time)",
            registry=self.registry,
        )
        self.certificate_broken = Gauge(
            "spark_webhook_certificate_broken",
            "1 while the certificate files cannot be used and an older certificate is served",
            registry=self.registry,
        )
        # labels() looks a child up under a lock each time: the few that exist are kept at hand.
        self._admission_children: dict[tuple[str, Reason], Counter] = {}
        self._finding_children: dict[Reason, Counter] = {}

    def admission(self, decision: Decision, seconds: float) -> None:
        """Count one answered review that took this long."""
        role = decision.role if decision.role in (DRIVER, EXECUTOR) else "other"
        key = (role, decision.reason)
        child = self._admission_children.get(key)
        if child is None:
            child = self._admission_children[key] = self._admissions.labels(*key)
        child.inc()
        self._seconds.observe(seconds)
        for finding in decision.findings:
            counter = self._finding_children.get(finding.reason)
            if counter is None:
                counter = self._finding_children[finding.reason] = self._findings.labels(finding.reason)
            counter.inc()

    def http_error(self, code: int) -> None:
        """Count one HTTP error answer."""
        self._http_errors.labels(str(code)).inc()

    def policy_reload(self, *, broken: bool) -> None:
        """Count one reading of the policies."""
        self._reloads.labels("broken" if broken else "ok").inc()
        self.policy_source_broken.set(broken)

    def watch_connected(self, resource: str, connected: bool) -> None:
        """Say whether changes of a resource are heard of."""
        self._watches.labels(resource).set(connected)

    def watch_in_flight(self, count: Callable[[], float]) -> None:
        """Ask this function for the requests in flight whenever the metrics are read."""
        self._in_flight.set_function(count)

    def render(self, accept: str) -> tuple[bytes, str]:
        """The text for a scraper that accepts these types, and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type
