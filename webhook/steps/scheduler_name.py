"""schedulerName: the scheduler that places the pod."""

from __future__ import annotations

from webhook.partial import of_spec
from webhook.policy.scheduling import SchedulingFields
from webhook.steps.base import field_step

STEP = field_step(SchedulingFields, "schedulerName", lambda value: of_spec({"schedulerName": value}))
