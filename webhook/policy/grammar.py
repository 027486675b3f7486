"""Spark's own configuration keys as the features of a policy: one key, or the keys of one volume, is one
feature.

The keys are those of org.apache.spark.deploy.k8s.Config (Spark 2.4 to 4.3) and this project's additions:
config maps, and types of volumes that Spark does not have. It must never raise for what somebody wrote, and
never put a value into a message.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from webhook.policy import grammar_volumes
from webhook.policy.role_block import RoleBlock

Json = dict[str, Any]
Item = Callable[[str, str], Json]
"""(what stands in the key, value) -> a role block with this item alone. ValueError: a message."""

_K8S = "spark.kubernetes."
ROLES = ("driver", "executor")


class Wish(NamedTuple):
    """What a key asks for.

    Attributes:
        key: as it is written; of a volume what its keys have in common
        role: `driver`, `executor`; "" for both
        block: a role block with nothing else in it
    """

    key: str
    role: str
    block: RoleBlock


class Wrong(NamedTuple):
    """A key that asks for nothing, and why."""

    key: str
    message: str


def _secret(name: str, value: str) -> Json:
    return {"secrets": [{"name": name, "mountPath": value}]}


def _config_map(name: str, value: str) -> Json:
    return {"configMaps": [{"name": name, "mountPath": value}]}


def _secret_key(name: str, value: str) -> Json:
    secret, colon, key = value.partition(":")
    if not colon or ":" in key:
        raise ValueError("write it as name:key, of a Secret and of a key in it")
    return {"env": [{"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}]}


def _env(name: str, value: str) -> Json:
    return {"env": [{"name": name, "value": value}]}


def _map(field: str) -> Item:
    return lambda key, value: {field: {key: value}}


def _scalar(field: str) -> Item:
    return lambda _key, value: {field: value}


def _pull_secrets(_key: str, value: str) -> Json:
    return {"imagePullSecrets": [{"name": name.strip()} for name in value.split(",")]}


def _cpu(kind: str) -> Item:
    return lambda _key, value: {"resources": {kind: {"cpu": value}}}


def _tmpfs(_key: str, value: str) -> Json:
    if value != "true":
        raise ValueError("only true asks for anything")
    return {"localDirs": {"emptyDir": {"medium": "Memory"}}}


# Keys that end with a name of the author's: what stands before it -> (role, item).
_PREFIXES: dict[str, tuple[str, Item]] = {
    f"{_K8S}driverEnv.": ("driver", _env),
    "spark.executorEnv.": ("executor", _env),
    f"{_K8S}node.selector.": ("", _map("nodeSelector")),
}
_WHOLE: dict[str, tuple[str, Item]] = {
    f"{_K8S}scheduler.name": ("", _scalar("schedulerName")),
    f"{_K8S}hadoop.configMapName": ("", lambda _key, value: {"hadoop": {"configMap": value}}),
    f"{_K8S}kerberos.krb5.configMapName": ("", lambda _key, value: {"kerberos": {"krb5ConfigMap": value}}),
    f"{_K8S}container.image.pullSecrets": ("", _pull_secrets),
    f"{_K8S}local.dirs.tmpfs": ("", _tmpfs),
}
for _role in ROLES:
    _PREFIXES |= {
        f"{_K8S}{_role}.secrets.": (_role, _secret),
        f"{_K8S}{_role}.secretKeyRef.": (_role, _secret_key),
        f"{_K8S}{_role}.configMaps.": (_role, _config_map),
        f"{_K8S}{_role}.label.": (_role, _map("labels")),
        f"{_K8S}{_role}.annotation.": (_role, _map("annotations")),
        f"{_K8S}{_role}.node.selector.": (_role, _map("nodeSelector")),
    }
    _WHOLE |= {
        f"{_K8S}{_role}.scheduler.name": (_role, _scalar("schedulerName")),
        f"{_K8S}{_role}.limit.cores": (_role, _cpu("limits")),
        f"{_K8S}{_role}.request.cores": (_role, _cpu("requests")),
        f"{_K8S}authenticate.{_role}.serviceAccountName": (_role, _scalar("serviceAccountName")),
    }
_VOLUMES = {f"{_K8S}{role}.volumes.": role for role in ROLES}
_TOKENS = f"{_K8S}kerberos.tokenSecret."
# Where Spark has properties of its own, which only look like a key of the grammar.
_PLAIN = ("spark.executor.", "spark.driver.")
_LONGEST_COMPARED = 120
_KNOWN = (*_PREFIXES, *_WHOLE, *_VOLUMES, f"{_TOKENS}name", f"{_TOKENS}itemKey")


def known_keys() -> Iterator[str]:
    """The keys that are known, for a reader."""
    for key in sorted((*_KNOWN, *(f"{prefix}TYPE.NAME." for prefix in _VOLUMES))):
        if key not in _VOLUMES:
            yield f"{key}*" if key.endswith(".") else key


def first_key(key: str, pairs: Mapping[str, str]) -> str:
    """The key as it is written, for what several keys have in common: the first of them."""
    return key if key in pairs else next(one for one in pairs if one.startswith(f"{key}."))


def read(pairs: Mapping[str, str]) -> Iterator[Wish | Wrong]:
    """What keys and their values ask for, in the order in which they are written."""
    volumes: dict[str, tuple[str, Json]] = {}
    for key, value in pairs.items():
        prefix = next((prefix for prefix in _VOLUMES if key.startswith(prefix)), None)
        if prefix is None:
            continue
        kind, _, rest = key[len(prefix) :].partition(".")
        name, _, option = rest.partition(".")
        if option:
            _, options = volumes.setdefault(f"{prefix}{kind}.{name}", (_VOLUMES[prefix], {}))
            options[option] = value
        else:
            yield Wrong(
                key, f"write it as {prefix}<type>.<name>.mount.path, .mount.readOnly or .options.<option>"
            )
    for prefix, (role, options) in volumes.items():
        kind, _, name = prefix.partition(".volumes.")[2].partition(".")
        yield _checked(prefix, role, grammar_volumes.block, kind, name, options)
    for key, value in pairs.items():
        if not key.startswith((*_VOLUMES, _TOKENS)):
            yield _of_key(key, value)
    yield from _token_secret(pairs)


def _of_key(key: str, value: str) -> Wish | Wrong:
    if found := _WHOLE.get(key):
        role, item = found
        return _checked(key, role, item, "", value)
    for prefix, (role, item) in _PREFIXES.items():
        if key.startswith(prefix) and len(key) > len(prefix):
            return _checked(key, role, item, key[len(prefix) :], value)
    return Wrong(key, _unknown(key))


def _token_secret(pairs: Mapping[str, str]) -> Iterator[Wish | Wrong]:
    fields = {"name": "tokenSecret", "itemKey": "tokenItemKey"}
    stated = {key.removeprefix(_TOKENS): value for key, value in pairs.items() if key.startswith(_TOKENS)}
    for field in stated.keys() - fields.keys():
        yield Wrong(_TOKENS + field, _unknown(_TOKENS + field))
    kerberos = {fields[field]: value for field, value in stated.items() if field in fields}
    if kerberos:
        yield _checked(f"{_TOKENS}{next(iter(stated))}", "", lambda: {"kerberos": kerberos})


def _checked(key: str, role: str, block: Callable[..., Json], *arguments: Any) -> Wish | Wrong:
    try:
        return Wish(key, role, RoleBlock.model_validate(block(*arguments)))
    except ValidationError as error:
        return Wrong(key, "; ".join(_said(error)))
    except ValueError as error:
        return Wrong(key, str(error))


def _said(error: ValidationError) -> Iterable[str]:
    for one in error.errors(include_url=False, include_input=False):
        field = one["loc"][-1] if one["loc"] else ""
        at = one.get("ctx", {}).get("at") or ()
        place = at[-1] if at else field
        yield one["msg"] if place == "[key]" else f"{place}: {one['msg']}"


def _unknown(key: str) -> str:
    # Comparing costs more the longer a key is, and anybody can write one into an annotation.
    comparable = len(key) <= _LONGEST_COMPARED and not key.startswith(_PLAIN)
    if comparable and (near := _nearest(key)):
        return f"not a key of Spark's grammar here, did you mean {near}?"
    if key.startswith("spark."):
        return (
            "not a key that says anything about pods: a property for the driver is set with sparkConf in the "
            "block driver, or where the job is submitted"
        )
    return "not a key of Spark's grammar: it begins with spark.kubernetes. or spark.executorEnv."


def _nearest(key: str) -> str | None:
    """The known key that is most like this one, with the author's name at its end."""
    parts = key.split(".")
    written: dict[str, str] = {}
    for known in _KNOWN:
        depth = known.rstrip(".").count(".") + 1
        rest = ".".join(parts[depth:])
        written[".".join(parts[:depth]).lower() + "\0" + known] = known + (
            rest if known.endswith(".") else ""
        )
    best, found = 0.86, None
    for label, suggestion in written.items():
        have, _, known = label.partition("\0")
        matcher = difflib.SequenceMatcher(None, have, known.rstrip(".").lower())
        # Cheap upper bounds first: most known keys are nothing like it.
        if matcher.real_quick_ratio() <= best or matcher.quick_ratio() <= best:
            continue
        likeness = matcher.ratio()
        if likeness > best and suggestion != key:
            best, found = likeness, suggestion
    return found
