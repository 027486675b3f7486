"""shareProcessNamespace: containers see each other's processes."""

from __future__ import annotations

from webhook.partial import of_spec
from webhook.policy.pod_fields import PodFields
from webhook.steps.base import field_step

STEP = field_step(PodFields, "shareProcessNamespace", lambda value: of_spec({"shareProcessNamespace": value}))
