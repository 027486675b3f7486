"""What Kubernetes' validation of a pod says of fields together, as far as policies can bring them together.

An API server refuses an invalid pod even under `failurePolicy: Ignore`, and its error names nobody, so a
feature whose result would be invalid must not be applied. The rules are those of
k8s.io/kubernetes/pkg/apis/core/validation; single values are checked with the policy. Pure; it never changes
a pod, and a problem's text holds no value.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

from webhook.changes import EnsureItem
from webhook.containers import EnsureContainer
from webhook.defaults import mount_path, quantity
from webhook.fields import NOT_FOR_INIT_CONTAINERS, EnsureField
from webhook.kinds import PORTS, Json
from webhook.plan import Change

_LISTS = ("initContainers", "containers")
_HOST_NAMESPACES = ("hostNetwork", "hostPID", "hostIPC")
# What of the kernel's parameters belongs to a namespace that a pod may share with its node.
_OF_A_NAMESPACE = {
    "hostNetwork": ("net.",),
    "hostIPC": ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."),
}
# First keys of the fields that stand in one of the rules below.
_DELICATE = frozenset(
    {
        *("resources", "resourceClaims", "securityContext", "shareProcessNamespace", "hostUsers"),
        *("dnsPolicy", "dnsConfig", "terminationGracePeriodSeconds", "nodeName", "schedulingGates"),
        *(NOT_FOR_INIT_CONTAINERS + _HOST_NAMESPACES),
    }
)


class Problem(NamedTuple):
    """Why a pod is invalid.

    Attributes:
        text: for a reader
        places: the fields that don't go together: name of the container or None for the spec, path from there
    """

    text: str
    places: tuple[tuple[str | None, tuple[str, ...]], ...]


def delicate(changes: Iterable[Change]) -> bool:
    """True if what is asked for stands in a rule, so that the result has to be looked at."""
    return any(
        change.path[0] in _DELICATE
        if isinstance(change, EnsureField)
        else change.place[0] is PORTS or bool(_DELICATE.intersection(change.place[0].within))
        if isinstance(change, EnsureItem)
        else isinstance(change, EnsureContainer) or getattr(change, "delicate", False)
        for change in changes
    )


def problems(spec: Json) -> Iterator[Problem]:
    """What is wrong with a pod's spec that has Kubernetes' types."""
    yield from _of_pod(spec)
    for field in _LISTS:
        for container in spec.get(field) or ():
            name = container.get("name")
            own = (*container_problems(container, field), *_of_references(container, spec))
            for text, fields in own:
                yield Problem(f"{text}, in container {name}", tuple((name, path) for path in fields))
    yield from _host_ports(spec)


def _of_pod(spec: Json) -> Iterator[Problem]:
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        yield _together("shareProcessNamespace", "hostPID")
    if spec.get("hostUsers") is False:
        for field in _HOST_NAMESPACES:
            if spec.get(field):
                yield _together("hostUsers", field)
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield _together("nodeName", "schedulingGates")
    if spec.get("dnsPolicy") == "None" and not (spec.get("dnsConfig") or {}).get("nameservers"):
        yield Problem("dnsPolicy None without nameservers", ((None, ("dnsPolicy",)),))
    yield from _sysctls(spec)
    yield from _sleeps(spec)


def _sysctls(spec: Json) -> Iterator[Problem]:
    """Kernel parameters of a namespace that is the node's."""
    for item in (spec.get("securityContext") or {}).get("sysctls") or ():
        name = (item.get("name") or "").replace("/", ".")
        for field, prefixes in _OF_A_NAMESPACE.items():
            if spec.get(field) and name.startswith(prefixes):
                yield Problem(f"a sysctl of the node's own beside {field}", ((None, (field,)),))


def _sleeps(spec: Json) -> Iterator[Problem]:
    """Hooks that sleep for longer than the pod may take to end."""
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is None:
        return
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for hook, handler in (container.get("lifecycle") or {}).items():
            if ((handler.get("sleep") or {}).get("seconds") or 0) > grace:
                yield Problem(
                    f"a sleep of {hook} that is longer than terminationGracePeriodSeconds",
                    (
                        (None, ("terminationGracePeriodSeconds",)),
                        (container.get("name"), ("lifecycle", hook)),
                    ),
                )


def _together(one: str, other: str) -> Problem:
    return Problem(f"{one} beside {other}", ((None, (one,)), (None, (other,))))


_Found = tuple[str, tuple[tuple[str, ...], ...]]


def container_problems(container: Json, field: str) -> Iterator[_Found]:
    """What is wrong with a container by itself, also with a part of one: the text, and the fields' paths.

    Args:
        field: the list that it stands in
    """
    yield from resource_problems(container.get("resources") or {})
    context = container.get("securityContext") or {}
    if context.get("allowPrivilegeEscalation") is False:
        escalation = ("securityContext", "allowPrivilegeEscalation")
        if context.get("privileged"):
            yield "allowPrivilegeEscalation: false beside privileged", (
                escalation, ("securityContext", "privileged"),
            )  # fmt: skip
        added = (context.get("capabilities") or {}).get("add") or ()
        if {"SYS_ADMIN", "CAP_SYS_ADMIN"}.intersection(added):
            yield "allowPrivilegeEscalation: false beside the capability SYS_ADMIN", (escalation,)
    if field == "initContainers" and container.get("restartPolicy") != "Always":
        for part in NOT_FOR_INIT_CONTAINERS:
            if container.get(part):
                yield f"an init container that runs to its end has no {part}", ((part,),)


def _of_references(container: Json, spec: Json) -> Iterator[_Found]:
    names = {volume.get("name") for volume in spec.get("volumes") or ()}
    mounts = container.get("volumeMounts") or ()
    if any(mount.get("name") not in names for mount in mounts):
        yield "a mount without its volume", ()
    paths = [mount_path(mount.get("mountPath") or "") for mount in mounts]
    if len(set(paths)) < len(paths):
        yield "two mounts at one path", ()
    known = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    if any(
        claim.get("name") not in known for claim in (container.get("resources") or {}).get("claims") or ()
    ):
        yield "a claim that the pod does not have", ()


def resource_problems(resources: Json) -> Iterator[_Found]:
    """What is wrong with requests and limits that stand together."""
    limits = resources.get("limits") or {}
    for name, amount in (resources.get("requests") or {}).items():
        request, limit = quantity(amount), quantity(limits.get(name))
        fields = (("resources", "requests", name), ("resources", "limits", name))
        if request is None:
            continue
        if not can_be_overcommitted(name):
            if request != limit:
                yield f"a request of {name} that is not its limit", fields
        elif limit is not None and limit < request:
            yield f"a limit of {name} below its request", fields


def can_be_overcommitted(resource: str) -> bool:
    """False for extended resources (GPUs) and huge pages, whose request must be their limit."""
    native = "/" not in resource or resource.partition("/")[0].endswith("kubernetes.io")
    return native and not resource.startswith("hugepages-")


def _host_ports(spec: Json) -> Iterator[Problem]:
    """Ports of the node: each only once, and with the node's network the same as the container's."""
    taken: set[Hashable] = set()
    for field in _LISTS:
        for container in spec.get(field) or ():
            # Init containers run one after the other.
            seen: set[Hashable] = taken if field == "containers" else set()
            for port in container.get("ports") or ():
                number = port.get("hostPort")
                if spec.get("hostNetwork"):
                    if number and number != port.get("containerPort"):
                        yield _port_problem("hostPort and containerPort differ", container)
                    number = port.get("containerPort")
                place = (number, port.get("protocol") or "TCP", port.get("hostIP") or "")
                if number and place in seen:
                    yield _port_problem("two containers have one port of the node", container)
                seen.add(place)


def _port_problem(text: str, container: Json) -> Problem:
    return Problem(f"{text}, in container {container.get('name')}", ((None, ("hostNetwork",)),))


def new_problem(before: Json, after: Json) -> Problem | None:
    """The first problem of a spec that it did not have before."""
    known = {problem.text for problem in problems(before)}
    return next((problem for problem in problems(after) if problem.text not in known), None)
