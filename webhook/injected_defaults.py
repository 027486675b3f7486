"""What a container that a policy adds has by default: it passes the `restricted` Pod Security Standard and
has requests and limits. Whatever the policy states goes before.

https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
"""

from __future__ import annotations

from typing import Any

from webhook.defaults import quantity
from webhook.kinds import Json

REQUESTS: Json = {"cpu": "50m", "memory": "64Mi"}
LIMITS: Json = {"cpu": "500m", "memory": "256Mi"}


def completed(container: Json) -> Json:
    """A copy of a policy's container with these defaults."""
    context = container.get("securityContext") or {}
    result = {**container, "securityContext": {**_restricted(context), **context}}
    stated = container.get("resources") or {}
    result["resources"] = {**stated, **_resources(stated.get("requests") or {}, stated.get("limits") or {})}
    return result


def _restricted(context: Json) -> Json:
    capabilities = context.get("capabilities") or {}
    found: Json = {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    # Kubernetes refuses the two together, and a kubelet runs nothing as root that must not be.
    if context.get("privileged") or {"SYS_ADMIN", "CAP_SYS_ADMIN"}.intersection(
        capabilities.get("add") or ()
    ):
        del found["allowPrivilegeEscalation"]
    if context.get("runAsUser") == 0:
        del found["runAsNonRoot"]
    if not context.get("privileged"):
        found["capabilities"] = {"drop": ["ALL"]}
    return found


def _resources(requests: Json, limits: Json) -> Json:
    """Requests and limits with the defaults, which never contradict what is stated."""
    asked, most = dict(requests), dict(limits)
    for name, default in LIMITS.items():
        # A limit alone is the request too: Kubernetes' own rule.
        if name not in most:
            most[name] = _greater(asked.get(name, default), default)
            asked.setdefault(name, REQUESTS[name])
    return {"requests": asked, "limits": most} if asked else {"limits": most}


def _greater(one: Any, other: Any) -> Any:
    return one if (quantity(one) or 0) > (quantity(other) or 0) else other
