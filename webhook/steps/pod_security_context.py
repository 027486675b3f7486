"""podSecurityContext: the security context of the whole pod, key by key."""

from __future__ import annotations

from webhook.partial import of_spec
from webhook.policy.pod_fields import PodFields
from webhook.steps.base import by_key, field_step

STEP = field_step(
    PodFields, "podSecurityContext", lambda value: of_spec({"securityContext": value}), each=by_key
)
