"""affinity: Kubernetes' Affinity, each of its three parts a feature of its own.

Required node affinity is ANDed into every term of the author's; all other terms are added.
"""

from __future__ import annotations

from webhook.partial import of_spec
from webhook.policy.scheduling import SchedulingFields
from webhook.steps.base import by_key, field_step

STEP = field_step(SchedulingFields, "affinity", lambda value: of_spec({"affinity": value}), each=by_key)
