"""What a policy must leave alone: things of Spark and of this webhook. It says what to use instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pydantic import ValidationInfo

from webhook import spark
from webhook.defaults import mount_path
from webhook.policy import values

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"


def _taken(hint: str | None, owner: str = "Spark") -> str | None:
    """The error for something of Spark's, from what `webhook.spark` says about it."""
    if hint is None:
        return None
    if not hint:
        return f"set by {owner} itself and can't be changed by a policy"
    return f"set by Spark itself; use `{hint}`"


def env(name: str) -> str | None:
    return _taken(spark.own_env(name))


def volume(name: str) -> str | None:
    return _taken(spark.own_volume(name), "Spark or Kubernetes")


def path(path: str) -> str | None:
    return _taken(spark.own_path(mount_path(path)), "Spark or Kubernetes")


def label(key: str) -> str | None:
    if key.startswith(values.OWN_PREFIX):
        return f"labels under {values.OWN_PREFIX} are the webhook's own: use another prefix"
    return _taken("") if spark.own_label(key) else None


def annotation(key: str) -> str | None:
    if key.startswith(values.OWN_PREFIX):
        return f"annotations under {values.OWN_PREFIX} are the webhook's own: use another prefix"
    if key == MIRROR_ANNOTATION:
        return "set by Kubernetes itself and can't be changed by a policy"
    return None


def _free(check: Callable[[str], str | None], rule: str) -> values.Checked:
    """The check, and a CEL rule that knows a part of it."""

    def validate(value: str, _info: ValidationInfo) -> str:
        if problem := check(value):
            raise values.fault(problem)
        return value

    message = "set by Spark, Kubernetes or this webhook itself and can't be changed by a policy"
    return values.Checked(validate, {"x-kubernetes-validations": [{"rule": rule, "message": message}]})


def _none_of(names: Iterable[str], *prefixes: str) -> str:
    tests = [f"!(self in [{', '.join(repr(name) for name in sorted(names))}])"]
    return " && ".join(tests + [f"!self.startsWith('{prefix}')" for prefix in prefixes])


free_env = _free(env, _none_of(spark.OWN_ENV, *spark.OWN_ENV_PREFIXES))
free_volume = _free(volume, _none_of(spark.OWN_VOLUMES, *spark.OWN_VOLUME_PREFIXES))
free_path = _free(path, _none_of({*spark.OWN_PATHS, spark.TOKEN_PATH}))
free_label = _free(label, _none_of(spark.LABELS, values.OWN_PREFIX))
free_annotation = _free(annotation, _none_of({MIRROR_ANNOTATION}, values.OWN_PREFIX))
