"""labels: labels of the pod. Spark's own, by which its services and allocators select, can't be asked for."""

from __future__ import annotations

from webhook.steps.base import map_step

STEP = map_step("labels", "label", label_values=True)
