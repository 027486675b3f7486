"""runtimeClassName: the pod's RuntimeClass; the overhead of another class goes with it."""

from __future__ import annotations

from webhook.partial import of_spec
from webhook.policy.scheduling import SchedulingFields
from webhook.steps.base import field_step

STEP = field_step(SchedulingFields, "runtimeClassName", lambda value: of_spec({"runtimeClassName": value}))
