"""lifecycle: hooks of containers, each a feature of its own."""

from __future__ import annotations

from webhook.steps.base import split_step

STEP = split_step("lifecycle")
