"""securityContext: the security context of containers, key by key."""

from __future__ import annotations

from webhook.steps.base import split_step

STEP = split_step("securityContext")
