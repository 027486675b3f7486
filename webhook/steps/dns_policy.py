"""dnsPolicy: how the pod resolves names."""

from __future__ import annotations

from webhook.partial import of_spec
from webhook.policy.pod_fields import PodFields
from webhook.steps.base import field_step

STEP = field_step(PodFields, "dnsPolicy", lambda value: of_spec({"dnsPolicy": value}))
