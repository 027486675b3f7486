"""ports: ports of containers; two of one number and protocol are the same one."""

from __future__ import annotations

from collections.abc import Sequence

from webhook.changes import Change, EnsureItem
from webhook.kinds import PORTS
from webhook.policy.containers import PortItem
from webhook.steps.base import Step


def changes(item: PortItem) -> Sequence[Change]:
    """The port."""
    port = item.model_dump(exclude={"onConflict", "containers"}, exclude_unset=True)
    return [EnsureItem(PORTS, port, item.containers)]


STEP = Step(
    field="ports",
    changes=changes,
    identity=lambda item: PORTS.identity({"containerPort": item.containerPort, "protocol": item.protocol}),
    subject=lambda item: f"port {item.containerPort}",
)
