"""hostAliases: lines of /etc/hosts; the host names of one address join the author's."""

from __future__ import annotations

from webhook.kinds import HOST_ALIASES
from webhook.partial import of_spec
from webhook.policy.pod_fields import PodFields
from webhook.steps.base import by_item, field_step

STEP = field_step(
    PodFields, "hostAliases", lambda value: of_spec({"hostAliases": value}), each=by_item(HOST_ALIASES)
)
