"""Volumes are named after Secrets and ConfigMaps, whose names may be longer and hold dots."""

from __future__ import annotations

import json
import posixpath
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests import corpus, door

Json = dict[str, Any]
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_STATED = {"optional": True}


def _shortened(text: str) -> str:
    return text[:253].rstrip(".-")


_part = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?", fullmatch=True)
_names = st.lists(_part, min_size=1, max_size=5).map(".".join).map(_shortened)
_long = st.builds(lambda name, tail: f"{name}.{'x' * 253}"[:252] + tail, _names, st.sampled_from("0a"))
names = st.one_of(_names, _long, st.sampled_from(["0", "1.2.3", "9" * 253, "a" * 63, "a" * 64, "a-volume"]))
families = st.one_of(
    st.lists(names, min_size=1, max_size=4, unique=True),
    # the same but for their very ends
    st.builds(
        lambda name, ends: [f"{name[:252].rstrip('.-')}{end}" for end in ends],
        names,
        st.lists(st.sampled_from("0123456789abc"), min_size=2, max_size=4, unique=True),
    ),
)


def mounted(secrets: list[str], config_maps: list[str], *, optional: bool) -> dict[tuple[str, str], str]:
    """(kind, object) -> the volume's name, as the Spark container of a bare driver gets them."""
    options = _STATED if optional else {}
    asked = {
        field: [{"name": name, "mountPath": f"/{field}/{at}", **options} for at, name in enumerate(listed)]
        for field, listed in (("secrets", secrets), ("configMaps", config_maps))
    }
    policy = {
        "apiVersion": "sparkwebhook.dev/v1alpha1",
        "kind": "ClusterSparkPodPolicy",
        "metadata": {"name": "p"},
        "spec": {"common": asked},
    }
    outcome = door.admit(corpus.review("4.3.0/cluster-bare-driver"), door.policy_set(json.dumps(policy)))
    assert outcome.decision.findings == []
    assert door.new_problems(outcome) == []
    volumes = {volume["name"]: volume for volume in outcome.after["spec"]["volumes"]}
    found: dict[tuple[str, str], str] = {}
    for mount in outcome.after["spec"]["containers"][0]["volumeMounts"]:
        field, at = posixpath.split(mount["mountPath"])
        if field in ("/secrets", "/configMaps"):
            volume = volumes[mount["name"]]
            name = str(asked[field[1:]][int(at)]["name"])
            source = volume.get("secret", {}).get("secretName") or volume.get("configMap", {}).get("name")
            assert source == name
            found[field, name] = mount["name"]
    return found


@given(families, families, st.booleans())
def test_every_object_has_a_volume_of_its_own(
    secrets: list[str], config_maps: list[str], optional: bool
) -> None:
    found = mounted(secrets, config_maps, optional=optional)

    assert len(found) == len(secrets) + len(config_maps)
    assert len(set(found.values())) == len(found)
    assert all(len(name) <= 63 and _LABEL.fullmatch(name) for name in found.values())


@given(names, families)
def test_a_name_depends_on_nothing_else(name: str, others: list[str]) -> None:
    alone = mounted([name], [], optional=False)
    among = mounted([*(other for other in others if other != name), name], others, optional=False)

    assert among["/secrets", name] == alone["/secrets", name]


@given(st.lists(st.sampled_from(["a", "b.c", "."]), min_size=1, max_size=4), st.sampled_from(["", "/", "//"]))
def test_a_path_means_the_same_however_it_is_written(parts: list[str], end: str) -> None:
    plain = "/" + "/".join(part for part in parts if part != ".")
    odd = "/" + "//".join(parts) + end
    policy = (
        "{apiVersion: sparkwebhook.dev/v1alpha1, kind: ClusterSparkPodPolicy, metadata: {name: p}, "
        f"spec: {{common: {{secrets: [{{name: ours, mountPath: '{odd}'}}]}}}}}}"
    )
    review = corpus.review("4.3.0/cluster-bare-driver")
    spec = review["request"]["object"]["spec"]
    spec["volumes"].append({"name": "theirs", "emptyDir": {}})
    spec["containers"][0]["volumeMounts"].append({"name": "theirs", "mountPath": plain})

    outcome = door.admit(review, door.policy_set(policy))

    assert [str(finding.reason) for finding in outcome.decision.findings] == ["ConflictKept"]
