"""nodeSelector: labels that the pod's node must have, added to those that the pod asks for already."""

from __future__ import annotations

from webhook.steps.base import map_step

STEP = map_step("nodeSelector", "nodeSelector", label_values=True)
