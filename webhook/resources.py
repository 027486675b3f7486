"""Resources of containers: sizes as Kubernetes, Java and Spark write them, and a limit of memory beside a
request.

It must never lower a limit below its request: Kubernetes would refuse the pod.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from decimal import Decimal

from webhook.defaults import quantity
from webhook.fields import limit_ranger_set
from webhook.objects import ObjectView
from webhook.plan import Change, Plan, Refusal, not_found
from webhook.pod import Containers, containers_of
from webhook.reasons import Reason

_PATH = ("resources", "limits")
_MEBI = 1024**2
# Spark's JavaUtils.byteStringAs; an upper case letter is a Kubernetes quantity's.
_JAVA = re.compile(r"([0-9]+)([kmgtp])b?")
_FACTOR = re.compile(r"([0-9]+(?:\.[0-9]+)?)x")


def memory_limit_error(text: str) -> str | None:
    """What is wrong with a limit of memory as a policy states it; None if nothing is."""
    if match := _FACTOR.fullmatch(text):
        return None if Decimal(match[1]) >= 1 else "a factor below 1 would be less than the request"
    if _JAVA.fullmatch(text) or (quantity(text) or 0) > 0:
        return None
    return (
        "not a size: write a quantity (8Gi), a size as Spark has it (8g), or a factor of the request (1.5x)"
    )


def memory_limit(text: str, request: Decimal | None) -> Decimal | None:
    """Bytes of the limit, never below the request; None for a factor of a request that is not there."""
    if match := _FACTOR.fullmatch(text):
        return None if request is None else max(request, _whole_mebi(request * Decimal(match[1])))
    if match := _JAVA.fullmatch(text):
        found: Decimal | None = Decimal(match[1]) * 1024 ** ("kmgtp".index(match[2]) + 1)
    else:
        found = quantity(text)
    return None if found is None else max(found, request or found)


def _whole_mebi(size: Decimal) -> Decimal:
    return -(-size // _MEBI) * _MEBI


def as_quantity(size: Decimal) -> str:
    """Bytes as Spark and Kubernetes write them: in MiB where that is exact."""
    return f"{int(size // _MEBI)}Mi" if size % _MEBI == 0 else str(-(-size // 1))


class EnsureMemoryLimit:
    """The limit of memory of containers should have a size, or be a multiple of the request.

    The limit that Spark itself set (its request) is nobody's wish.

    Args:
        text: as `memory_limit` reads it
        containers: `Spark`, `All` or names
    """

    __slots__ = ("containers", "feature", "text")

    def __init__(self, text: str, containers: str | Sequence[str]) -> None:
        self.feature = ""
        self.text = text
        self.containers: Containers = containers_of(containers)

    def same_wish(self, other: Change) -> bool:
        """See Change.same_wish."""
        return isinstance(other, EnsureMemoryLimit) and other.text == self.text

    def described(self) -> Iterable[tuple[Hashable, Containers | None, Hashable]]:
        """See Change.described."""
        yield ("container", *_PATH, "memory"), self.containers, self.text

    def check(self, plan: Plan) -> Refusal | None:
        """See Change.check."""
        views = plan.pod.objects(self.containers, _PATH)
        if views is None:
            return not_found(self.containers)
        for view in views:
            refusal = self._check(plan, view)
            if refusal is not None:
                return refusal
        return None

    def _check(self, plan: Plan, view: ObjectView) -> Refusal | None:
        refusal = plan.claim(view, "memory", self)
        if refusal is not None:
            return refusal
        container = view.root
        have, request = view.get("memory"), container.descend(("resources", "requests")).get("memory")
        want = memory_limit(self.text, quantity(request))
        if want is None:
            plan.stays(view, "memory", Reason.WOULD_BE_INVALID)
            return Refusal(Reason.WOULD_BE_INVALID, "no request of memory to take a multiple of")
        if quantity(have) == want:
            return None
        if have is not None:
            own = plan.pod.spark_container
            spark_set_it = own is not None and container is own.view and quantity(have) == quantity(request)
            ranged = limit_ranger_set(plan.pod, container.get("name"), "limits", "memory")
            if not (spark_set_it or ranged):
                refusal = plan.conflict(view, "memory", self)
                if refusal is not None:
                    return refusal
        plan.edit_once(view.put, "memory", as_quantity(want))
        return None
