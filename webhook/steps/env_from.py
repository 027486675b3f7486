"""envFrom: all keys of a Secret or ConfigMap as environment variables, one item per source and prefix."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from webhook.changes import Change, EnsureItem
from webhook.kinds import ENV_FROM, Json
from webhook.policy.items import EnvFromItem
from webhook.steps.base import Step


def changes(item: EnvFromItem) -> Sequence[Change]:
    """The source."""
    return [EnsureItem(ENV_FROM, _source(item), item.containers)]


def _source(item: EnvFromItem) -> Json:
    fields = {"prefix": item.prefix, "configMapRef": item.configMapRef, "secretRef": item.secretRef}
    return {key: value for key, value in fields.items() if value is not None}


def _identity(item: EnvFromItem) -> Hashable:
    return ENV_FROM.identity(_source(item))


def _subject(item: EnvFromItem) -> str:
    if item.secretRef is not None:
        return f"envFrom secret {item.secretRef.get('name')}"
    return f"envFrom configMap {(item.configMapRef or {}).get('name')}"


STEP = Step(field="envFrom", changes=changes, identity=_identity, subject=_subject)
