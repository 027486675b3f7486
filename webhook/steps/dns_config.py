"""dnsConfig: nameservers, search domains and options, added to the author's."""

from __future__ import annotations

from webhook.partial import of_spec
from webhook.policy.pod_fields import PodFields
from webhook.steps.base import by_key, field_step

STEP = field_step(PodFields, "dnsConfig", lambda value: of_spec({"dnsConfig": value}), each=by_key)
