"""Real Spark with the product installed: what drivers and executors get, and that nothing else is changed.

Everything is made twice, in a namespace that opted in and in one with the same labels that did not. What a
pod has and its twin has not is compared with data/spark/expected.yaml.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from string import Template
from typing import TypeVar

import pytest
import yaml

from tests.cluster import objects
from tests.cluster.control_plane import ControlPlane
from tests.cluster.difference import comparable, difference
from tests.cluster.objects import OPTED_IN, STATUS, Json
from tests.cluster.spark import EXECUTORS, Driver, Spark, make_account, pods
from tests.cluster.webhook import Webhook

pytestmark = pytest.mark.xdist_group("cluster")

T = TypeVar("T")
# By the release of Spark.
Made = Callable[[str], T]
Sparks = tuple[Spark, Spark]

OPEN, CLOSED = "spark-opted-in", "spark-left-alone"
DATA = Path(__file__).parent / "data" / "spark"
# What authors have already: a variable that is joined, and a node selector that stays.
AUTHORS = {
    "spark.kubernetes.driverEnv.JAVA_TOOL_OPTIONS": "-Dauthors=yes",
    "spark.executorEnv.JAVA_TOOL_OPTIONS": "-Dauthors=yes",
    "spark.kubernetes.node.selector.disk": "hdd",
}
ALLOCATOR = "spark.kubernetes.allocation.pods.allocator"

# Where an executor's number will stand, in pods that a controller makes.
UNASSIGNED = "EXECID"
# Items that the policies have for one role only.
ONE_ROLE = ("LAKE_ACCESS", "scratch")

OLD, NEW = "3.5.9", "4.3.0"
both = pytest.mark.parametrize("version", [OLD, NEW])
both_and_older = pytest.mark.parametrize("version", [OLD, pytest.param(NEW, marks=pytest.mark.older)])


@dataclass(frozen=True)
class Twins:
    """Pods of the namespace that opted in, and of the other one.

    Attributes:
        reviews: how many the webhook answered for both together
    """

    opened: list[Json]
    closed: list[Json]
    reviews: float = 0


@pytest.fixture(scope="module", autouse=True)
def _policies(cluster: ControlPlane, webhook: Webhook) -> Iterator[None]:
    for name, opted_in in ((OPEN, OPTED_IN), (CLOSED, {})):
        cluster.namespace(name, {"example.com/lake": "write", **opted_in})
        cluster.kubectl("annotate", "--overwrite", "namespace", name, "example.com/team=data-platform")
        make_account(cluster, name)
    text = Template((DATA / "policies.yaml").read_text()).substitute(NAMESPACE=OPEN, CLOSED=CLOSED)
    policies = list(yaml.safe_load_all(text))
    cluster.apply(*policies)
    webhook.wait_for_policies(len(policies))
    yield
    cluster.kubectl("delete", "-f", "-", stdin=text)


# Each of these is made when a test first asks for it, once for each release of Spark: the order of the tests
# is not ours to say.


@pytest.fixture(scope="module")
def sparks(cluster: ControlPlane) -> Made[Sparks]:
    """The release in the namespace that opted in, and in the other one."""
    return lambda version: (Spark(cluster, version, OPEN), Spark(cluster, version, CLOSED))


@pytest.fixture(scope="module")
def drivers(webhook: Webhook, sparks: Made[Sparks]) -> Made[Twins]:
    """The driver pods of cluster mode."""

    @cache
    def make(version: str) -> Twins:
        before = webhook.admissions()
        pod, twin = _at_once(*(partial(spark.submit, "by-cluster", AUTHORS) for spark in sparks(version)))
        return Twins([pod], [twin], webhook.admissions() - before)

    return make


@pytest.fixture(scope="module")
def outside(webhook: Webhook, sparks: Made[Sparks]) -> Made[Twins]:
    """The executors of drivers outside of the cluster, in client mode."""

    @cache
    def make(version: str) -> Twins:
        before = webhook.admissions()
        clients = [spark.client("by-client", AUTHORS) for spark in sparks(version)]
        found, twins = _at_once(*(partial(_executors, client) for client in clients))
        return Twins(found, twins, webhook.admissions() - before)

    return make


@pytest.fixture(scope="module")
def inside(cluster: ControlPlane, sparks: Made[Sparks], drivers: Made[Twins]) -> Made[dict[str, Twins]]:
    """The executors of drivers in the cluster, by allocator."""

    @cache
    def make(version: str) -> dict[str, Twins]:
        opened, closed = sparks(version)
        ours, theirs = *drivers(version).opened, *drivers(version).closed

        def of_one_application() -> tuple[list[Json], Twins]:
            # One after the other: each would count and delete the other's executors.
            direct = _executors(opened.driver_of(ours, {}))
            conf = {ALLOCATOR: "statefulset"}
            return direct, _controlled(cluster, "statefulset", opened.driver_of(ours, conf))

        def the_others() -> tuple[list[Json], Twins | None]:
            direct = _executors(closed.driver_of(theirs, {}))
            if version == OLD:
                return direct, None
            # As a notebook does it: client mode in a pod.
            conf = {ALLOCATOR: "deployment", "spark.kubernetes.driver.pod.name": ours["metadata"]["name"]}
            client = opened.client("by-notebook", {**AUTHORS, **conf})
            return direct, _controlled(cluster, "deployment", client)

        with ThreadPoolExecutor() as pool:
            first, second = pool.submit(of_one_application), pool.submit(the_others)
            (direct, statefulset), (twins, deployment) = first.result(), second.result()
        found = {"direct": Twins(direct, twins), "statefulset": statefulset}
        return found if deployment is None else {**found, "deployment": deployment}

    return make


@both_and_older
def test_the_driver_of_cluster_mode(drivers: Made[Twins], version: str) -> None:
    _check("driver", drivers(version), application="by-cluster")


@both_and_older
def test_executors_of_a_driver_outside_of_the_cluster(outside: Made[Twins], version: str) -> None:
    _check("executor", outside(version), application="by-client")


@both
def test_executors_of_the_driver_of_cluster_mode(
    inside: Made[dict[str, Twins]], drivers: Made[Twins], version: str
) -> None:
    direct, driver = inside(version)["direct"], drivers(version).opened[0]["metadata"]
    _check("executor", direct, application="by-cluster")
    for executor in direct.opened:
        assert executor["metadata"]["ownerReferences"][0]["uid"] == driver["uid"]
        assert executor["metadata"]["labels"]["spark-app-selector"] == driver["labels"]["spark-app-selector"]


@both
def test_executors_of_a_statefulset(inside: Made[dict[str, Twins]], version: str) -> None:
    _check("executor", inside(version)["statefulset"], application="by-cluster")


def test_executors_of_a_deployment(inside: Made[dict[str, Twins]]) -> None:
    _check("executor", inside(NEW)["deployment"], application="by-notebook")


@both
def test_drivers_and_executors_get_the_same(
    drivers: Made[Twins], inside: Made[dict[str, Twins]], version: str
) -> None:
    """But for what the policies say of one role."""
    driver = _of_both_roles(drivers(version).opened[0], drivers(version).closed[0])
    for allocator in ("direct", "statefulset"):
        executors = inside(version)[allocator]
        for pod, twin in zip(executors.opened, executors.closed, strict=True):
            assert _of_both_roles(pod, twin) == driver


@both
def test_a_namespace_that_did_not_opt_in_is_left_alone(
    drivers: Made[Twins], outside: Made[Twins], version: str
) -> None:
    for twins, expected in ((drivers(version), 1), (outside(version), EXECUTORS)):
        assert all(STATUS not in pod["metadata"].get("annotations", {}) for pod in twins.closed)
        # One for each pod of the other namespace.
        assert twins.reviews == expected


@both
def test_spark_cleans_up_after_itself(outside: Made[Twins], sparks: Made[Sparks], version: str) -> None:
    """The driver has ended, and nobody but itself knew that these pods were its own."""
    opened, _ = sparks(version)
    application = outside(version).opened[0]["metadata"]["labels"]["spark-app-selector"]
    selector = f"spark-role=executor,spark-app-selector={application}"
    objects.until("the executors are gone", lambda: not opened.pods(selector))


def _check(role: str, twins: Twins, *, application: str) -> None:
    """Each pod differs from its twin by what is expected and by nothing else."""
    for pod, twin in zip(twins.opened, twins.closed, strict=True):
        labels = pod["metadata"]["labels"]
        number = labels.get("spark-exec-id", "none")
        text = Template((DATA / "expected.yaml").read_text()).substitute(
            APPLICATION=application,
            VERSION=labels["spark-version"],
            EXECUTOR="none" if number == UNASSIGNED else number,
        )
        found, expected = difference(comparable(twin), comparable(pod)), yaml.safe_load(text)[role]
        assert found == expected, _lines_that_differ(expected, found)


def _lines_that_differ(expected: Json, found: Json) -> str:
    before, after = (yaml.safe_dump(value, width=110).splitlines() for value in (expected, found))
    return "\n".join(difflib.unified_diff(before, after, "expected", "found", lineterm=""))


def _of_both_roles(pod: Json, twin: Json) -> Json:
    """What was added, without what is for one role only."""
    added = difference(comparable(twin), comparable(pod))["added"]
    (container,) = added["spec"].pop("containers")
    # Annotations hold the executor's number, and the status.
    del added["metadata"]["annotations"], container["name"]
    found = {**added["metadata"], **added["spec"], **container}
    for field in ("env", "volumes", "volumeMounts"):
        found[field] = [item for item in found[field] if item["name"] not in ONE_ROLE]
    return found


def _executors(driver: Driver) -> list[Json]:
    with driver:
        return driver.executors


def _controlled(cluster: ControlPlane, kind: str, driver: Driver) -> Twins:
    """Executors that a controller makes of Spark's template, and those of the same in the other namespace."""
    with driver:
        application = driver.executors[0]["metadata"]["labels"]["spark-app-selector"]
        name = f"spark-{kind[0]}-{application}-0"
        workload = json.loads(cluster.kubectl("get", kind, name, "-n", OPEN, "-o", "json").stdout)
        workload["metadata"] = {"name": name, "namespace": CLOSED}
        del workload["status"]
        cluster.apply(workload)
        selector = f"spark-role=executor,spark-app-selector={application}"

        def all_executors() -> list[Json] | None:
            found = pods(cluster, CLOSED, selector)
            return found if len(found) == EXECUTORS else None

        other, _ = objects.until(f"the pods of {kind} {name}", all_executors)
        cluster.kubectl("delete", kind, name, "-n", CLOSED)
        return Twins(driver.executors, other)


def _at_once(*actions: Callable[[], T]) -> list[T]:
    with ThreadPoolExecutor(len(actions)) as pool:
        return [future.result() for future in [pool.submit(action) for action in actions]]
