"""Spark properties of a driver, set through the arguments of its container.

DriverCommandFeatureStep makes the arguments `driver [--proxy-user U] --properties-file F --class C resource
...` (2.4: `driver`, `driver-py` or `driver-r`), which the image's entry point hands to spark-submit; a
`--conf key=value` before `--class` goes before the properties file. The file itself is in a ConfigMap,
which is never read here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from webhook.plan import Change, Plan, Refusal, not_found
from webhook.pod import Containers
from webhook.reasons import Reason

_COMMANDS = ("driver", "driver-py", "driver-r")
_OPTION, _END = "--conf", "--class"


class SetSparkProperty:
    """A property should have this value on the driver's command line.

    Args:
        key: `spark.sql.shuffle.partitions`
        value: as spark-submit takes it
    """

    __slots__ = ("feature", "key", "value")

    def __init__(self, key: str, value: str) -> None:
        self.feature = ""
        self.key = key
        self.value = value

    def same_wish(self, other: Change) -> bool:
        """See Change.same_wish."""
        return isinstance(other, SetSparkProperty) and other.value == self.value

    def described(self) -> Iterable[tuple[Hashable, Containers | None, Hashable]]:
        """See Change.described."""
        yield ("sparkConf", self.key), None, self.value

    def check(self, plan: Plan) -> Refusal | None:
        """See Change.check."""
        container = plan.pod.spark_container
        if container is None:
            return not_found("Spark")
        options = container.string_list("args")
        end = _end_of_options(options)
        if end is None:
            return Refusal(Reason.NO_SPARK_ARGUMENTS)
        place = ("sparkConf", self.key)
        refusal = plan.claim(container.view, place, self)
        if refusal is not None:
            return refusal
        wanted = f"{self.key}={self.value}"
        found = [at for at in _values(options[:end]) if options[at].partition("=")[0].strip() == self.key]
        if not found:
            plan.edits.append((container.insert_before, ("args", _END), [_OPTION, wanted]))
        elif options[found[-1]] != wanted:  # of several the last one counts
            refusal = plan.conflict(container.view, place, self)
            if refusal is not None:
                return refusal
            plan.edits.append((container.replace_text, ("args", options[found[-1]]), wanted))
        return None


def _end_of_options(arguments: Sequence[str]) -> int | None:
    """The index before which options of spark-submit can stand; None if these are other arguments."""
    if not arguments or arguments[0] not in _COMMANDS or "--properties-file" not in arguments:
        return None
    return arguments.index(_END) if _END in arguments else None


def _values(options: Sequence[str]) -> Iterable[int]:
    return (at + 1 for at, option in enumerate(options[:-1]) if option == _OPTION)
