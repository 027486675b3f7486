"""`spark-webhook render` on what it cannot use: exit code 2, every message on standard error."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests import corpus
from tests.cli.rendering import REJECTING, a_pod, pods, policy_file, render

_REVIEW = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
BAD_INPUT = {
    "empty": b"",
    "only comments": b"# nothing\n---\n",
    "binary": b"\x89PNG\r\n\x1a\n\x00\x00",
    "control characters": b"kind: Pod\x00",
    "not UTF-8": "kind: Pöd".encode("latin-1"),
    "no YAML": b"kind: Pod\n  metadata: {\n",
    "truncated JSON": b'{"kind": "Pod", "metadata": {',
    "a key twice": b"kind: Pod\nkind: Pod\n",
    "a list": b"- kind: Pod\n",
    "a number": b"5",
    "text": b"hello",
    "null": b"null",
    "no kind": b"{}",
    "a Deployment": b"kind: Deployment\napiVersion: apps/v1\n",
    "an empty List": b"kind: List\napiVersion: v1\nitems: []\n",
    "a List without items": b"kind: List\napiVersion: v1\n",
    "a List of nonsense": b"kind: List\napiVersion: v1\nitems: [5, x, {}]\n",
    "a pod without metadata": b"kind: Pod\napiVersion: v1\n",
    "containers of text": b"kind: Pod\nmetadata: {labels: {spark-role: driver}}\nspec: {containers: x}\n",
    "labels that are a list": b"kind: Pod\nmetadata: {name: x, labels: [spark-role]}\nspec: {}\n",
    "infinity": b"kind: Pod\nmetadata: .inf\n",
    "deeply nested": b"[" * 100_000,
    "deeply nested YAML": b"{a: " * 100_000,
    "a foreign YAML tag": b"kind: !!python/object:os.system Pod\n",
    "a review without a request": json.dumps(_REVIEW).encode(),
    "a review of a null": json.dumps(_REVIEW | {"request": None}).encode(),
    "a review without a uid": json.dumps(_REVIEW | {"request": {"object": a_pod()}}).encode(),
    "a v1beta1 review": json.dumps(
        {"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {"uid": "1"}}
    ).encode(),
    "a review of a deletion": json.dumps(corpus.review("special/delete-pending-1")).encode(),
}  # fmt: skip


@pytest.mark.parametrize("content", BAD_INPUT.values(), ids=BAD_INPUT.keys())
def test_unusable_input_is_exit_code_2_and_one_line(content: bytes) -> None:
    outcome = render("-n", "jobs", "-", stdin=content)
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert len(outcome.stderr.splitlines()) == 1, outcome.stderr
    assert outcome.stderr.startswith("<stdin>: ")


def test_errors_in_yaml_have_a_place(tmp_path: Path) -> None:
    file = policy_file(tmp_path, "kind: Pod\nmetadata:\n  name: a\n  name: b\n", "pod.yaml")
    outcome = render(file)
    assert (
        outcome.stderr == f"{file}: neither YAML nor JSON: line 4, column 3: the key 'name' is there twice\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["missing.yaml"],
        ["."],
        [],
        ["-p", "missing", "-"],
        ["-o", "xml", "-"],
        ["--namespace-labels", "team", "-"],
        ["--namespace-labels", "=x", "-"],
    ],
)
def test_unusable_arguments_are_exit_code_2(arguments: list[str]) -> None:
    outcome = render(*arguments, stdin=json.dumps(a_pod()))
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert "Error: " in outcome.stderr


def test_broken_policies_are_exit_code_2_and_all_are_named(tmp_path: Path) -> None:
    policy_file(tmp_path, REJECTING.replace("onConflict", "onConflikt"), "a.yaml")
    policy_file(tmp_path, REJECTING.replace("value: test", "value: 5"), "b.yaml")
    policy_file(tmp_path, "not: [yaml", "c.yaml")
    outcome = render("-p", tmp_path, "-", stdin=json.dumps(a_pod()))
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    lines = outcome.stderr.splitlines()
    assert [
        re.match(rf"{re.escape(str(tmp_path))}/(.)\.yaml:(\d+):\d+: ", line) is not None for line in lines
    ]
    assert {line.removeprefix(f"{tmp_path}/")[0] for line in lines} == set("abc")


def test_guarded_items_need_the_same_option_as_the_server(tmp_path: Path) -> None:
    text = """
apiVersion: sparkwebhook.dev/v1alpha1
kind: SparkPodPolicy
metadata: {name: host, namespace: jobs}
spec:
  common:
    volumes: [{name: data, hostPath: {path: /srv/data}, mounts: [{mountPath: /srv/data}]}]
"""
    file = policy_file(tmp_path, text)
    refused = render("-p", file, "-n", "jobs", "-", stdin=json.dumps(a_pod()))
    assert refused.exit_code == 2
    assert "hostPath" in refused.stderr
    allowed = render("-p", file, "-n", "jobs", "--allow", "hostPath", "-", stdin=json.dumps(a_pod()))
    assert pods(allowed)["spec"]["volumes"][0]["hostPath"] == {"path": "/srv/data"}
