"""annotations: annotations of the pod, within the 256 KiB that Kubernetes allows for all of them."""

from __future__ import annotations

from webhook.steps.base import map_step

STEP = map_step("annotations", "annotation", label_values=False)
