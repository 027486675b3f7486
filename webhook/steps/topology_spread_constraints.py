"""topologySpreadConstraints: how pods are spread over zones and nodes."""

from __future__ import annotations

from webhook.kinds import SPREAD_CONSTRAINTS
from webhook.partial import of_spec
from webhook.policy.scheduling import SchedulingFields
from webhook.steps.base import by_item, field_step

STEP = field_step(
    SchedulingFields,
    "topologySpreadConstraints",
    lambda value: of_spec({"topologySpreadConstraints": value}),
    each=by_item(SPREAD_CONSTRAINTS),
)
