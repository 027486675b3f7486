"""From the bytes of a review to the bytes of its answer: decode, decide, count, log, encode.

It must never wait for anything, and its log line must never hold a value of the pod: names and reasons only.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from webhook.admission import Decision, MalformedPod, admit
from webhook.logs import AdmissionLog
from webhook.metrics import Metrics
from webhook.policy.policy_set import PolicySet
from webhook.review import BadReview, decode, encode, without_managed_fields

# A policy set that conflicts with a pod a hundred times says so in a line that a log collector still takes.
_FINDINGS_IN_A_LINE = 50


class Reviewer:
    """Answers reviews by `policies`, which may be replaced at any time: a request sees one set only.

    Attributes:
        look_up: told of a namespace that should be known and is not; if it still is not afterwards, the
            client is asked to come again
    """

    def __init__(self, metrics: Metrics, log: AdmissionLog) -> None:
        self.policies: PolicySet | None = None
        self.look_up: Callable[[str], None] = lambda _: None
        self._metrics = metrics
        self._log = log

    def answer(self, body: bytes) -> bytes:
        """The AdmissionReview that answers this one.

        Raises:
            BadReview: it cannot be answered.
        """
        start = time.perf_counter()
        request = _decode(body)
        policies = self._policies_for(request.get("namespace"))
        try:
            decision = admit(request, policies)
        except MalformedPod as error:
            raise BadReview(400, f"request.object is not a pod: {error}") from None
        answer = encode(request["uid"], decision)
        seconds = time.perf_counter() - start
        self._metrics.admission(decision, seconds)
        if decision.operations or decision.findings or not decision.allowed:
            level = logging.INFO if decision.allowed else logging.WARNING
            if self._log.enabled(level):
                message = "pod admitted" if decision.allowed else "pod denied"
                self._log.write(level, message, _line(request["uid"], decision, seconds))
        return answer

    def _policies_for(self, namespace: Any) -> PolicySet:
        policies = self.policies
        if policies is None:
            raise BadReview(503, "no valid set of policies has been loaded yet")
        if isinstance(namespace, str) and namespace and not policies.knows(namespace):
            # Its labels decide which policies are for it, so there is no answer without them.
            self.look_up(namespace)
            policies = self.policies or policies
            if not policies.knows(namespace):
                raise BadReview(503, "the namespace is not known yet")
        return policies


def _decode(body: bytes) -> dict[str, Any]:
    try:
        return decode(without_managed_fields(body))
    except BadReview:
        return decode(body)  # whatever is wrong is told of the body as it came


def _line(uid: str, decision: Decision, seconds: float) -> dict[str, Any]:
    findings = [
        {
            "reason": finding.reason,
            "policy": finding.policy,
            "field": finding.field,
            "subject": finding.subject,
        }
        for finding in decision.findings[:_FINDINGS_IN_A_LINE]
    ]
    line = {
        "uid": uid,
        "namespace": decision.namespace,
        "pod": decision.pod,
        "role": decision.role,
        "reason": decision.reason,
        "policies": decision.policies,
        "operations": len(decision.operations),
        "findings": findings,
        "duration_ms": round(seconds * 1000, 3),
    }
    if (more := len(decision.findings) - len(findings)) > 0:
        line["findings_omitted"] = more
    return line
