"""Spark's grammar: what it makes of a bare pod is what Spark itself makes of it; nothing that is written
raises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests import corpus, door
from webhook import spark
from webhook.kinds import ENV, MOUNTS, VOLUMES, ListKind
from webhook.policy import grammar, grammar_volumes
from webhook.policy.grammar import Wrong

Json = dict[str, Any]

CONFS = yaml.safe_load((Path(__file__).parent / "spark_conf.yaml").read_text(encoding="utf-8"))
PODS = {"driver": ("cluster-bare-01", "-01"), "executor": ("cluster-bare-executors-07", "-executors-06")}
# Spark makes the claim itself; here it is an ephemeral volume, which no webhook has to make.
ON_DEMAND = "cluster-volumes-ondemand-pvc"


@pytest.mark.parametrize("role", PODS)
@pytest.mark.parametrize("name", CONFS)
def test_it_is_what_spark_makes_of_the_same_properties(name: str, role: str) -> None:
    bare, suffix = PODS[role]
    policy = {"metadata": {"name": "a"}, "spec": {"sparkConf": _grouped(CONFS[name])}}
    document = {"apiVersion": "sparkwebhook.dev/v1alpha1", "kind": "ClusterSparkPodPolicy", **policy}
    review = corpus.admission_review(corpus.pod(f"3.5.9/{bare}"))
    ours = door.admit(review, door.policy_set(yaml.safe_dump(document))).after
    sparks = corpus.pod(f"3.5.9/{name}{suffix}")

    for field in ("labels", "annotations"):
        for key, value in (sparks["metadata"].get(field) or {}).items():
            if not spark.own_label(key) and key not in (ours["metadata"].get(field) or {}):
                pytest.fail(f"{field} {key}: {value}")
    assert (sparks["spec"].get("nodeSelector") or {}).items() <= (
        ours["spec"].get("nodeSelector") or {}
    ).items()
    if name != ON_DEMAND:
        _same_items(VOLUMES, sparks["spec"], ours["spec"])
    for kind in (ENV, MOUNTS):
        _same_items(kind, _container(sparks), _container(ours))


def _grouped(conf: dict[str, str]) -> dict[str, str]:
    """The properties that say something about pods; the others are Spark's alone."""
    kept = {
        key: value for key, value in conf.items() if key.startswith(("spark.kubernetes", "spark.executorEnv"))
    }
    wrong = [found.key for found in grammar.read(kept) if isinstance(found, Wrong)]
    return {key: value for key, value in kept.items() if key not in wrong}


def _container(pod: Json) -> Json:
    container: Json = next(c for c in pod["spec"]["containers"] if c["name"].startswith("spark-kubernetes"))
    return container


def _same_items(kind: ListKind, sparks: Json, ours: Json) -> None:
    """Whatever Spark has that is not Spark's own is here too, and the same."""
    have = {kind.identity(item): item for item in ours[kind.field]}
    for item in sparks[kind.field]:
        if not kind.owned(item) and not item["name"].startswith(spark.OWN_VOLUME_PREFIXES):
            assert kind.identity(item) in have, item
            found = have[kind.identity(item)]
            assert kind.canonical(_as_spark_says(found, item)) == kind.canonical(item)


def _as_spark_says(ours: Json, sparks: Json) -> Json:
    """Without what this Spark leaves out: mounts of secrets are read-only here, and hostPath has its type."""
    said = {key: value for key, value in ours.items() if key != "readOnly" or key in sparks}
    if "hostPath" in said:
        said["hostPath"] = {"path": said["hostPath"]["path"]}
    return said


texts = st.text(max_size=8) | st.sampled_from(
    ["true", "a:b", "/a", "1Gi", "OnDemand", "0440", "{{APP_ID}}", "a,b"]
)
parts = st.sampled_from(
    [
        *(
            "spark",
            "kubernetes",
            "driver",
            "executor",
            "volumes",
            "secrets",
            "secretKeyRef",
            "label",
            "mount",
        ),
        *(
            "path",
            "options",
            "node",
            "selector",
            "driverEnv",
            "executorEnv",
            "readOnly",
            "claimName",
            "a",
            "",
        ),
        *grammar_volumes.OPTIONS,
    ]
)
keys = (
    st.lists(parts, max_size=8).map(".".join)
    | st.builds(
        lambda role, kind, option: f"spark.kubernetes.{role}.volumes.{kind}.v.{option}",
        st.sampled_from(grammar.ROLES),
        st.sampled_from(sorted(grammar_volumes.OPTIONS)),
        st.sampled_from(
            sorted({option for options in grammar_volumes.OPTIONS.values() for option in options})
        ),
    )
    | st.builds(lambda key, name: key.replace("*", name), st.sampled_from(list(grammar.known_keys())), texts)
)


@given(st.dictionaries(keys, texts, max_size=6))
def test_nothing_that_is_written_raises_or_is_passed_over(pairs: dict[str, str]) -> None:
    found = list(grammar.read(pairs))
    for key in pairs:
        assert any(
            key.startswith(one.key) or one.key.startswith("spark.kubernetes.kerberos") for one in found
        )


@given(
    st.text(max_size=300)
    | st.dictionaries(keys, texts, max_size=5).map(
        lambda pairs: "\n".join(f"{key}={value}" for key, value in pairs.items())
    )
)
def test_an_annotation_never_harms(text: str) -> None:
    review = corpus.review("4.3.0/cluster-bare-driver")
    review["request"]["object"]["metadata"]["annotations"] = {"sparkwebhook.dev/conf": text}
    policies = door.policy_set("")
    first = door.admit(review, policies)
    assert first.decision.allowed
    assert door.new_problems(first) == []
    assert door.admit(door.again(first, review), policies).operations == []


def test_a_key_that_is_too_long_is_compared_with_none() -> None:
    """To compare a key costs more the longer it is, and anybody can write one."""
    for length, near in ((1, True), (500, False)):
        (found,) = grammar.read({"spark.kubernetes.driver.secret." + "a" * length: "/a"})
        assert isinstance(found, Wrong)
        assert ("did you mean" in found.message) is near


def test_no_part_of_a_value_is_told() -> None:
    review = corpus.review("4.3.0/cluster-bare-driver")
    conf = "spark.kubernetes.driverEnv.A={{HUNTER2}}"
    review["request"]["object"]["metadata"]["annotations"] = {"sparkwebhook.dev/conf": conf}
    (finding,) = door.admit(review, door.policy_set("")).decision.findings
    assert "HUNTER2" not in str(finding)
