"""env: environment variables, literal or by reference.

A variable goes before those of the pod that refer to it by `$(NAME)`.
With `join` the value is joined to the author's literal value instead of competing with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from webhook.changes import Change, EnsureItem, JoinEnv
from webhook.kinds import ENV, Json
from webhook.policy.items import EnvItem
from webhook.steps.base import Step


def changes(item: EnvItem) -> Sequence[Change]:
    """The variable, or the text to join to it."""
    if item.join is not None:
        return [JoinEnv(item.name, item.value or "", item.join, item.containers)]
    variable: Json = {"name": item.name}
    if item.valueFrom is not None:
        variable["valueFrom"] = item.valueFrom
    else:
        variable["value"] = item.value or ""
    return [EnsureItem(ENV, variable, item.containers)]


STEP = Step(
    field="env",
    changes=changes,
    identity=lambda item: item.name,
    subject=lambda item: f"env {item.name}",
)
