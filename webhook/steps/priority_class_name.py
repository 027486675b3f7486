"""priorityClassName: the pod's PriorityClass.

The priority and preemptionPolicy that the Priority admission plugin has worked out before any webhook go with
it in the same patch; the plugin works them out anew.
"""

from __future__ import annotations

from webhook.partial import of_spec
from webhook.policy.scheduling import SchedulingFields
from webhook.steps.base import field_step

STEP = field_step(SchedulingFields, "priorityClassName", lambda value: of_spec({"priorityClassName": value}))
