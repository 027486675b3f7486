"""serviceAccountName: the pod's ServiceAccount.

The API server has mounted a token before any webhook is asked; its volume names no account, so what is in
it is of the new one.
"""

from __future__ import annotations

from webhook.partial import of_spec
from webhook.policy.pod_fields import PodFields
from webhook.steps.base import field_step

STEP = field_step(PodFields, "serviceAccountName", lambda value: of_spec({"serviceAccountName": value}))
