"""Reviews that no API server would send: answered or refused by name, never a crash.

Whatever is accepted still gets a patch that applies.
"""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import jsonpatch
import orjson
from hypothesis import given
from hypothesis import strategies as st

from tests import corpus, door
from webhook import review as wire
from webhook.admission import MalformedPod, admit

Json = dict[str, Any]

# Something of every step, in every container, with and without placeholders.
POLICIES = door.policy_set("""
apiVersion: sparkwebhook.dev/v1alpha1
kind: ClusterSparkPodPolicy
metadata: {name: everything}
spec:
  priority: 1
  onConflict: Replace
  match:
    podSelector: {matchExpressions: [{key: absent, operator: DoesNotExist}]}
  common:
    secrets:
      - {name: lake, mountPath: /etc/lake, containers: All}
      - {name: gcs, mountPath: /gcs, type: GCPServiceAccount}
    configMaps: [{name: "{{POD_LABEL:team|none}}", mountPath: /etc/team}]
    volumes:
      - {name: scratch, emptyDir: {medium: Memory}, mounts: [{mountPath: /mnt/scratch, containers: All}]}
      - {name: spark-data, nfs: {server: a, path: "/{{NAMESPACE}}"}, mounts: [{mountPath: /mnt/nfs}]}
    env:
      - {name: STAGE, value: "{{APP_ID}} {{APP_NAME|x}} {{SPARK_VERSION|x}}", containers: All}
      - {name: PYTHONPATH, value: /opt/lake, join: ":"}
      - {name: DB_PASSWORD, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    envFrom: [{configMapRef: {name: common-env}, containers: All}]
    hadoop: {configMap: hadoop-conf}
    labels: {team: lake, owner: lake}
    annotations: {prometheus.io/scrape: "false", a: b}
    nodeSelector: {pool: lake, a: b}
    tolerations:
      - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute}
      - {key: dedicated, value: spark, effect: NoSchedule}
    imagePullSecrets: [{name: regcred}, {name: mirror}]
---
apiVersion: sparkwebhook.dev/v1alpha1
kind: ClusterSparkPodPolicy
metadata: {name: whole}
spec:
  atomic: true
  onConflict: Reject
  match: {podSelector: {matchLabels: {spark-role: driver}}}
  common:
    env: [{name: LEVEL, value: info}, {name: GREETING, value: "{{POD_LABEL:spark-app-name}}"}]
    labels: {owner: "{{POD_LABEL:team|x}}"}
""")

REVIEW = corpus.review("4.3.0/cluster-full-driver")

values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=8),
        st.sampled_from(["name", "mountPath", "driver", "executor", "spark-role", "$(X)", "/"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(st.text(max_size=4), st.sampled_from(["name", "value", "mountPath"])), inner, max_size=3
        ),
    ),
    max_leaves=6,
)


@st.composite
def damaged(draw: st.DrawFn) -> Json:
    """A recorded review with a few of its values replaced, dropped, doubled or wrapped."""
    review = corpus.review(draw(st.sampled_from(corpus.REVIEWS)))
    for _ in range(draw(st.integers(1, 4))):
        _damage(draw, review)
    return review


def _damage(draw: st.DrawFn, review: Json) -> None:
    # down from the top or, mostly, from the pod, since that is the part that is read
    holder: Any = review["request"] if isinstance(review.get("request"), dict) else review
    if draw(st.integers(0, 4)) and isinstance(holder.get("object"), dict):
        holder = holder["object"]
    while True:
        keys = (
            [key for key in holder if key != "managedFields"]
            if isinstance(holder, dict)
            else range(len(holder))
        )
        if not keys:
            return
        key = draw(st.sampled_from(keys))
        value = holder[key]
        if not isinstance(value, dict | list) or not value or not draw(st.integers(0, 3)):
            break
        holder = value
    match draw(st.sampled_from(["replace", "null", "drop", "wrap", "double"])):
        case "replace":
            holder[key] = draw(values)
        case "null":
            holder[key] = None
        case "drop":
            del holder[key]
        case "wrap":
            holder[key] = [value]
        case "double" if isinstance(holder, list):
            holder.append(copy.deepcopy(value))
        case _:
            holder[key] = {}


def refused(status: int, message: str) -> None:
    assert 400 <= status < 500
    assert message.isprintable()


def answer(body: bytes) -> Json | None:
    """What the HTTP handler would answer; None for a refusal that names what is wrong."""
    try:
        request = wire.decode(body)
        decision = admit(request, POLICIES)
    except wire.BadReview as error:
        refused(error.status, error.message)
        return None
    except MalformedPod as error:
        refused(400, error.message)
        return None
    response = json.loads(wire.encode(request["uid"], decision))["response"]
    for text in response.get("warnings", []):
        assert text.isprintable()
        assert len(text) <= 120
    if "patch" in response:
        before = orjson.loads(body)["request"]["object"]
        operations = json.loads(base64.b64decode(response["patch"]))
        assert jsonpatch.JsonPatch(operations).apply(before) == request["object"]
    return dict(response)


@given(damaged())
def test_a_damaged_review_is_answered_or_refused(review: Json) -> None:
    answer(orjson.dumps(review))


@given(values)
def test_any_json_is_answered_or_refused(value: Any) -> None:
    answer(orjson.dumps(value))
    answer(orjson.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": value}))


@given(values)
def test_any_object_is_answered_or_refused(value: Any) -> None:
    answer(orjson.dumps({**REVIEW, "request": {**REVIEW["request"], "object": value}}))


@given(st.sampled_from(corpus.REVIEWS), st.data())
def test_a_cut_or_corrupt_body_is_refused(name: str, data: st.DataObject) -> None:
    body = corpus.body(corpus.review(name))
    place = data.draw(st.integers(0, len(body) - 2))

    assert answer(body[:place]) is None
    answer(body[:place] + data.draw(st.binary(min_size=1, max_size=3)) + body[place + 1 :])


def test_undamaged_reviews_are_answered() -> None:
    for name in corpus.REVIEWS:
        response = answer(corpus.body(corpus.review(name)))
        assert response is not None, name
        assert ("patch" in response) == (name in corpus.pod_reviews() and response["allowed"]), name
