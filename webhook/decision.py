"""What the webhook says of one request: the Decision, its findings, and the warnings that a submitter sees.

Values only. It must never hold a value of a pod or of a policy beside the patch itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from webhook import status
from webhook.patch import Operation
from webhook.policy import requests
from webhook.reasons import Reason

_MAX_WARNING = 120
_MAX_WARNINGS = 4096


@dataclass(frozen=True, slots=True)
class Finding:
    """What a reader should know of one feature of a policy.

    Attributes:
        reason: why
        policy: `name`, or `namespace/name`
        field: where the policy states it, below spec (`common.env[2]`); "" for the policy as a whole
        subject: what it is about (`env LAKE_TOKEN`)
        detail: what else matters (the policy that won, the placeholder without a value)
    """

    reason: Reason
    policy: str
    field: str
    subject: str
    detail: str = ""

    def __str__(self) -> str:
        detail = f" ({self.detail})" if self.detail else ""
        # The field's path ends in what it is about already.
        ends = {self.field.rpartition("[")[2].removesuffix("]"), self.field.rpartition(".")[2]}
        subject = "" if self.subject.rpartition(" ")[2] in ends else f": {self.subject}"
        return f"{self.short()}{subject}: {self.reason.explain}{detail}"

    def short(self) -> str:
        """Reason, policy and field alone."""
        if self.policy == requests.ANNOTATION:
            return f"{self.reason}: annotation {self.policy} {self.field.removeprefix('sparkConf')}"
        where = f" spec.{self.field}" if self.field else ""
        return f"{self.reason}: policy {self.policy}{where}"


@dataclass(slots=True)
class Decision:
    """What the webhook says of one request.

    Attributes:
        allowed: False only for `onConflict: Reject`
        reason: what became of the pod as a whole; the status annotation alone is no mutation
        operations: the patch, ready for JSON; empty if nothing changes
        findings: features that are not in effect, or that replaced a value of the author's
        policies: names of the policies that matched, in order
        message: why the pod is denied, for its submitter; "" if it is not
        role, namespace, pod: of whom this is; a pod without a name is `<generateName>*`
    """

    allowed: bool
    reason: Reason
    operations: list[Operation] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    policies: tuple[str, ...] = ()
    message: str = ""
    role: str = ""
    namespace: str = ""
    pod: str = ""

    def warnings(self) -> list[str]:
        """What the submitter should see, as the wire wants it.

        At most 120 characters each and 4096 in all, without control characters
        (https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#response).
        """
        told = [finding for finding in self.findings if finding.reason is not Reason.EXCLUDED]
        lines = list(dict.fromkeys(_warning(finding) for finding in told))
        kept: list[str] = []
        room = _MAX_WARNINGS - _MAX_WARNING
        for line in lines:
            room -= len(line.encode())
            if room < 0:
                kept.append(
                    f"and {len(lines) - len(kept)} more: see the pod's annotation {status.ANNOTATION}"
                )
                break
            kept.append(line)
        return kept


def _warning(finding: Finding) -> str:
    text = str(finding)
    if len(text) > _MAX_WARNING and len(finding.short()) > _MAX_WARNING:
        # The policy's name gives way: reason and field tell more than the end of a long name.
        spare = _MAX_WARNING - (len(finding.short()) - len(finding.policy)) - 1
        text = finding.short().replace(finding.policy, finding.policy[: max(spare, 20)] + "…", 1)
    if len(text) > _MAX_WARNING:
        text = text[: _MAX_WARNING - 1] + "…"
    return "".join(char if char.isprintable() else " " for char in text)
