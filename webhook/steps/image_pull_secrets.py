"""imagePullSecrets: Secrets with which the pod's images are pulled."""

from __future__ import annotations

from collections.abc import Sequence

from webhook.changes import Change, EnsureItem
from webhook.kinds import PULL_SECRETS
from webhook.policy.items import ImagePullSecretItem
from webhook.steps.base import Step


def changes(item: ImagePullSecretItem) -> Sequence[Change]:
    """The reference to the secret."""
    return [EnsureItem(PULL_SECRETS, {"name": item.name})]


STEP = Step(
    field="imagePullSecrets",
    changes=changes,
    identity=lambda item: item.name,
    subject=lambda item: f"imagePullSecret {item.name}",
)
