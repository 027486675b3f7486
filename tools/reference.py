"""Writes docs/reference.md from the policy model, the reasons and the cases: `python tools/reference.py`.

Nothing is stated twice: descriptions and examples are those of the model's fields, types those of its schema,
the reason codes of a field those that its cases in tests/cases expect.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

sys.path.insert(0, str(Path(__file__).parents[1]))

from webhook import kinds, partial
from webhook.node_affinity import RequireNodes
from webhook.policy import grammar, grammar_volumes, guardrails, placeholders
from webhook.policy.conditions import Condition
from webhook.policy.model import LabelSelector, Match, PolicySpec, Requirement
from webhook.policy.role_block import RoleBlock
from webhook.policy.shapes import FieldOf
from webhook.reasons import Reason

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "reference.md"
CASES = ROOT / "tests" / "cases"
_OF_EVERY_FEATURE = (
    *(Reason.REPLACED, Reason.CONFLICT_KEPT, Reason.CONFLICT_REJECTED, Reason.EXECUTOR_NOT_REJECTED),
    *(Reason.POLICY_CONFLICT, Reason.SPARK_CONTAINER_NOT_FOUND, Reason.CONTAINER_NOT_FOUND),
    *(Reason.NO_VALUE, Reason.INVALID_VALUE, Reason.CONDITION_FAILED, Reason.EXCLUDED),
    *(Reason.WOULD_BE_INVALID, Reason.POLICY_WITHDRAWN),
)
_PLACEHOLDERS = {
    "APP_ID": "the application's id (label spark-app-selector)",
    "APP_NAME": "its name (label spark-app-name)",
    "EXECUTOR_ID": "the executor's number; none for drivers, and for pods of a StatefulSet or Deployment",
    "SPARK_VERSION": "the version of Spark (label spark-version)",
    "NAMESPACE": "the pod's namespace",
    "NAMESPACE_LABEL": "`{{NAMESPACE_LABEL:key}}`: a label of the namespace",
    "NAMESPACE_ANNOTATION": "`{{NAMESPACE_ANNOTATION:key}}`: an annotation of the namespace",
    "POD_LABEL": "`{{POD_LABEL:key}}`: a label of the pod, as its author set it",
}


def text() -> str:
    """The page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Policy reference"
    yield ""
    yield "<!-- Written by tools/reference.py from the policy model: change its descriptions instead. -->"
    yield ""
    yield from _contents()
    yield "## The policy"
    yield ""
    yield from _table(PolicySpec, "spec")
    for model, title in ((Match, "match"), (LabelSelector, "selectors"), (Requirement, "matchExpressions")):
        yield f"### {title}"
        yield ""
        yield from _table(model, "")
    yield "### conditions"
    yield ""
    yield from _table(Condition, "")
    for chapter in reversed(RoleBlock.__bases__):
        yield from _chapter(chapter)
    yield from _more()


def _contents() -> Iterator[str]:
    for chapter in reversed(RoleBlock.__bases__):
        links = ", ".join(f"[{name}](#{name.lower()})" for name in _own(chapter))
        yield f"- {_title(chapter)}: {links}"
    yield (
        "- [Spark's grammar](#sparks-grammar), [placeholders](#placeholders), [merging](#merging), "
        "[guardrails](#guardrails), [labels and annotations](#labels-and-annotations), "
        "[reason codes](#reason-codes)"
    )
    yield ""


def _own(chapter: Any) -> list[str]:
    return list(chapter.__annotations__)


def _title(chapter: Any) -> str:
    return (chapter.__doc__ or "").strip().rstrip(".")


def _chapter(chapter: Any) -> Iterator[str]:
    yield f"## {_title(chapter)}"
    yield ""
    for name in _own(chapter):
        field = RoleBlock.model_fields[name]
        yield f"### {name}"
        yield ""
        yield f"{field.description}"
        yield ""
        yield "```yaml"
        yield _yaml({name: (field.examples or [None])[0]})
        yield "```"
        yield ""
        for model in _models(field.annotation):
            yield from _table(model, "")
        yield f"Reason codes beside [those of every feature](#reason-codes): {_reasons(name)}."
        yield ""


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100).rstrip()


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in a field's type, outermost first."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def _table(model: type[BaseModel], where: str) -> Iterator[str]:
    yield f"| {where or 'field'} | type | |"
    yield "| --- | --- | --- |"
    shapes: dict[str, list[str]] = {}
    for name, field in model.model_fields.items():
        if field.exclude:
            continue
        if field.description is None:
            shape = next(part.shape for part in _field_of(field))
            shapes.setdefault(shape, []).append(name)
            continue
        needed = ", required" if field.is_required() else ""
        yield f"| `{name}` | {_type(field)}{needed} | {_cell(field)} |"
    for shape, names in shapes.items():
        listed = ", ".join(f"`{name}`" for name in names)
        yield f"| {listed} | as in Kubernetes' {shape} | |"
    yield ""
    for field in model.model_fields.values():
        for inner in _models(field.annotation):
            if inner.__name__ in ("VolumeMountItem", "OnDemandClaim"):
                yield from _table(inner, f"{_field_name(model, field)}: field")


def _field_name(model: type[BaseModel], field: FieldInfo) -> str:
    return next(name for name, one in model.model_fields.items() if one is field)


def _field_of(field: FieldInfo) -> Iterator[FieldOf]:
    waiting: list[Any] = [*field.metadata, field.annotation]
    while waiting:
        part = waiting.pop()
        if isinstance(part, FieldOf):
            yield part
        waiting += [*getattr(part, "__metadata__", ()), *get_args(part)]


def _cell(field: FieldInfo) -> str:
    default = field.default
    shown = ""
    if not field.is_required() and field.default_factory is None and default not in (None, [], {}, ""):
        shown = f" Default: `{_inline(default)}`."
    example = (field.examples or [None])[0]
    told = "" if example is None else f" Example: `{_inline(example)}`."
    return f"{field.description}{shown}{told}".replace("|", "\\|")


def _inline(value: Any) -> str:
    value = getattr(value, "value", value)
    if isinstance(value, dict | list):
        return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000).strip()
    return str(value).lower() if isinstance(value, bool) else str(value)


def _type(field: FieldInfo) -> str:
    """The type in a reader's words."""
    annotation = field.annotation
    if models := list(_models(annotation)):
        listed = str(annotation).startswith("list")
        return f"list of {models[0].__name__.removesuffix('Item')}" if listed else "object"
    names = {inner.__name__ for inner in _scalars(annotation)}
    if "dict" in names:
        return "list of objects" if str(annotation).startswith(("list", "typing.Annotated[list")) else "map"
    if "list" in names:
        return "list"
    if "int" in names:
        return "whole number"
    if "bool" in names:
        return "true or false"
    return "text"


def _scalars(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, type):
        yield annotation
    origin = getattr(annotation, "__origin__", None)
    if isinstance(origin, type):
        yield origin
    for inner in get_args(annotation):
        if inner is not NoneType and not isinstance(inner, str | int):
            yield from _scalars(inner)


def _reasons(field: str) -> str:
    """The reason codes that the cases, whatever they are about, expect of findings of this field."""
    of_field = re.compile(rf"(common|driver|executor)\.{field}\b")
    found: set[str] = set()
    for expect in _expectations():
        found |= {item["reason"] for item in expect.get("findings", ()) if of_field.match(item["field"])}
    ordered = [reason for reason in Reason if reason.value in found and reason not in _OF_EVERY_FEATURE]
    return ", ".join(f"`{reason}`" for reason in ordered) or "none"


@cache
def _expectations() -> tuple[Any, ...]:
    files = sorted(CASES.glob("*/*.yaml"))
    return tuple(yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)["expect"] for file in files)


def _more() -> Iterator[str]:
    yield "## Spark's grammar"
    yield ""
    yield (
        "In `spec.sparkConf` of a policy, and in a driver pod's annotation `sparkwebhook.dev/conf` (a "
        "`key=value` a line). `driver` keys are for drivers, `executor` keys for executors."
    )
    yield ""
    for key in grammar.known_keys():
        yield f"- `{key}`"
    yield ""
    yield (
        "Volumes: `mount.path` (required), `mount.readOnly`, `mount.subPath`, `mount.subPathExpr`, and by "
        "type:"
    )
    yield ""
    yield "| type | |"
    yield "| --- | --- |"
    for kind, options in grammar_volumes.OPTIONS.items():
        yield f"| `{kind}` | {', '.join(f'`{option}`' for option in options)} |"
    yield ""
    yield "## Placeholders"
    yield ""
    yield (
        "In any string. `{{NAME|default}}` has a default; without a value and a default the feature is "
        "skipped "
        "(`NoValue`). `\\{{` stands for two literal braces."
    )
    yield ""
    yield "| placeholder | |"
    yield "| --- | --- |"
    for name in (*placeholders.PLAIN, *placeholders.KEYED):
        yield f"| `{name}` | {_PLACEHOLDERS[name]} |"
    yield ""
    yield from _merging()
    yield "## Guardrails"
    yield ""
    yield (
        "Namespaced policies and pods' own requests may not ask for these, unless the server is started with "
        "`--allow NAME`. Cluster policies may; `lint` says so."
    )
    yield ""
    yield "| name | |"
    yield "| --- | --- |"
    for name, does in guardrails.EXPLAINED.items():
        yield f"| `{name}` | {does} |"
    yield ""
    yield "## Labels and annotations"
    yield ""
    yield "| all under `sparkwebhook.dev/` | on | |"
    yield "| --- | --- | --- |"
    yield "| label `inject: enabled` | namespace | opts the namespace in |"
    yield "| `exclude` | pod | `true`, or names of policies: not applied, unless they are mandatory |"
    yield "| `conf` | driver pod | its author's own requests, in [Spark's grammar](#sparks-grammar) |"
    yield "| `status` | pod | written by the webhook: what is in effect, what is not and why |"
    yield ""
    yield "## Reason codes"
    yield ""
    yield f"Every feature may end with {', '.join(f'`{reason}`' for reason in _OF_EVERY_FEATURE)}."
    yield ""
    yield "| code | meaning |"
    yield "| --- | --- |"
    for reason in Reason:
        yield f"| `{reason}` | {reason.explain} |"


def _merging() -> Iterator[str]:
    yield "## Merging"
    yield ""
    yield "What makes two items the same one; a field that is not here counts as a whole."
    yield ""
    yield "| list or map | the same one if |"
    yield "| --- | --- |"
    yield "| `containers`, `initContainers` | their `name` is, over both lists |"
    for prefix, table in (("", partial.SPEC), ("container's ", partial.CONTAINER)):
        for path, rule in _rules(table, ()):
            yield f"| {prefix}`{'.'.join(path)}` | {_rule(rule)} |"
    yield ""


def _rules(table: Any, within: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, rule in table.items():
        if isinstance(rule, dict):
            yield from _rules(rule, (*within, key))
        else:
            yield (*within, key), rule


_BY = {
    kinds.VOLUMES: "`name`",
    kinds.TOLERATIONS: "`key`, `operator`, `value`, `effect`",
    kinds.PULL_SECRETS: "`name`",
    kinds.ENV: "`name`",
    kinds.ENV_FROM: "`prefix`, kind and name",
    kinds.MOUNTS: "`mountPath`, normalised",
    kinds.VOLUME_DEVICES: "`devicePath`",
    kinds.PORTS: "`containerPort`, `protocol`",
    kinds.HOST_ALIASES: "`ip`; the host names join",
    kinds.SPREAD_CONSTRAINTS: "`topologyKey`, `whenUnsatisfiable`",
    kinds.READINESS_GATES: "`conditionType`",
    kinds.SCHEDULING_GATES: "`name`",
    kinds.RESOURCE_CLAIMS: "`name`",
    kinds.SYSCTLS: "`name`",
    kinds.DNS_OPTIONS: "`name`",
    kinds.CONTAINER_CLAIMS: "`name`, `request`",
}


def _rule(rule: Any) -> str:
    if rule is partial.KEYS:
        return "the key is"
    if rule is RequireNodes:
        return "never: all requirements hold together, ANDed into each of the author's terms"
    return _BY.get(rule, "all of it is")


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
    print(f"{TARGET.relative_to(ROOT)}: {len(text().splitlines())} lines")
