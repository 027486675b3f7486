"""`spark-webhook render`: what it prints where, and its exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonpatch
import pytest
import yaml
from click.testing import CliRunner

from tests import corpus, kubernetes_schema
from tests.cli.rendering import EXAMPLES, FULL_DRIVER, REJECTING, a_pod, pods, policy_file, render
from webhook import show
from webhook.cli import main
from webhook.reasons import Reason

# --- every recorded pod ----------------------------------------------------------------------------------


def _files() -> list[Path]:
    reviews = [corpus.CAPTURES / "reviews" / f"{name}.json" for name in corpus.pod_reviews()]
    return [*reviews, *(corpus.CAPTURES / "pods" / f"{name}.json" for name in corpus.PODS)]


@pytest.mark.parametrize("file", _files(), ids=lambda file: str(file.relative_to(corpus.CAPTURES)))
def test_every_recorded_pod_becomes_a_valid_one(file: Path) -> None:
    given = json.loads(file.read_text())
    before = given["request"]["object"] if given["kind"] == "AdmissionReview" else given
    if before["kind"] != "Pod":
        before = before["spec"]["template"]
    known = kubernetes_schema.problems(before)

    outcome = render("-n", "jobs", "-o", "json", file)
    assert outcome.exit_code == 0, outcome.stderr
    after = json.loads(outcome.stdout)
    # the API server's own objections to some of these pods are recorded too; ours adds none
    assert [problem for problem in kubernetes_schema.problems(after) if problem not in known] == []
    assert "Mutated" in outcome.stderr

    as_yaml = pods(render("-n", "jobs", file))
    assert json.dumps(as_yaml) == json.dumps(after)  # the order of keys too
    patch = json.loads(render("-n", "jobs", "-o", "patch", file).stdout)
    assert jsonpatch.apply_patch(before, patch) == after


# --- output ----------------------------------------------------------------------------------------------


def test_keys_keep_their_order_and_unknown_fields_stay() -> None:
    pod = a_pod(annotations={"z": "1", "a": "2"}, unknownToAll=True)
    after = pods(render("-n", "jobs", "-", stdin=json.dumps(pod)))
    assert list(after) == ["apiVersion", "kind", "metadata", "spec"]
    assert list(after["metadata"]["annotations"])[:2] == ["z", "a"]
    assert after["metadata"]["unknownToAll"] is True
    assert after["spec"]["containers"][0]["futureField"] == {"x": [1]}


TEXTS = [
    "on", "y", "N", "1.0", "1e3", "0o17", "017", "0x1F", "1_000", "12:30:45", "2026-01-01", "null", "~", "",
    ".inf", "true", "<<", "=", " a", "a: b", "a #b", "- a", "a\nb\n", "a\nb", " x\n y\n\n", "a \nb", "\n",
    "tab\there", "a\r\nb", "\u2028", "\x85", "é😀", "{a}", "[", "%x", "---", "a\n---\nb\n", "\x07",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_text_stays_text_in_yaml(text: str) -> None:
    pod = a_pod(annotations={"text": text})
    printed = render("-n", "jobs", "-", stdin=json.dumps(pod)).stdout
    assert show.parse(printed)[0]["metadata"]["annotations"]["text"] == text
    # a reader of YAML 1.1 that knows dates and sexagesimal numbers
    assert yaml.safe_load(printed)["metadata"]["annotations"]["text"] == text
    again = pods(render("-n", "jobs", "-", stdin=printed))
    assert again["metadata"]["annotations"]["text"] == text


def test_several_lines_are_a_block() -> None:
    pod = a_pod(annotations={"script": "set -e\nrun\n"})
    printed = render("-n", "jobs", "-", stdin=json.dumps(pod)).stdout
    assert "    script: |\n      set -e\n      run\n" in printed


def test_yaml_is_read_as_kubectl_reads_it() -> None:
    text = show.to_yaml(a_pod()) + "  restartPolicy: Never\n  hostname: 12:30:45\n"
    assert pods(render("-n", "jobs", "-", stdin=text))["spec"]["hostname"] == "12:30:45"


def test_anchors_are_copies() -> None:
    text = """
apiVersion: v1
kind: Pod
metadata: {name: pi, labels: &labels {spark-role: driver}, annotations: *labels}
spec: {containers: [{name: spark-kubernetes-driver, image: spark}]}
"""
    after = pods(render("-n", "jobs", "-", stdin=text))
    assert "example.com/cost-centre" in after["metadata"]["labels"]
    assert "example.com/cost-centre" not in after["metadata"]["annotations"]


def test_the_patch_holds_the_status_annotation() -> None:
    outcome = render("-n", "jobs", "-o", "patch", "-", stdin=json.dumps(a_pod()))
    patch = json.loads(outcome.stdout)
    assert isinstance(patch, list)
    assert "sparkwebhook.dev/status" in json.dumps(patch)


def test_the_diff_is_unified_and_without_colour_in_a_pipe() -> None:
    outcome = render("-o", "diff", FULL_DRIVER)
    assert outcome.exit_code == 0
    assert outcome.stdout.startswith("--- spark-pi-c15a47a22e92d345-driver\n+++ ")
    assert (
        "\n-    example.com/cost-centre: cc-1234\n+    example.com/cost-centre: cc-7301\n" in outcome.stdout
    )
    assert "\x1b" not in outcome.stdout


@pytest.mark.parametrize(("no_colour", "coloured"), [("", True), ("1", False)])
def test_the_diff_is_coloured_on_a_terminal(no_colour: str, coloured: bool) -> None:
    outcome = CliRunner(env={"NO_COLOR": no_colour}).invoke(
        main, ["render", "-p", str(EXAMPLES), "-o", "diff", str(FULL_DRIVER)], color=True
    )
    assert ("\x1b[32m+    example.com/cost-centre: cc-7301" in outcome.stdout) is coloured


def test_findings_stand_on_standard_error_with_their_code() -> None:
    outcome = render(FULL_DRIVER)
    assert re.search(r"ConflictKept: policy platform-defaults spec\.common\.nodeSelector", outcome.stderr)
    assert "Replaced: policy chargeback" in outcome.stderr
    assert "ConflictKept: policy" not in outcome.stdout


def test_a_pod_that_was_rendered_does_not_change_again() -> None:
    once = render("-n", "jobs", "-", stdin=json.dumps(a_pod())).stdout
    twice = render("-n", "jobs", "-", stdin=once)
    assert twice.stdout == once
    assert "Unchanged" in twice.stderr
    assert render("-n", "jobs", "-o", "patch", "-", stdin=once).stdout == "[]\n"
    assert render("-n", "jobs", "-o", "diff", "-", stdin=once).stdout == ""


# --- several pods ----------------------------------------------------------------------------------------


def test_every_pod_of_several_documents_is_rendered_and_the_rest_stays() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    text = "---\n".join(map(show.to_yaml, [a_pod(name="one"), service, a_pod(name="two")]))
    outcome = render("-n", "jobs", "-", stdin=text)
    one, kept, two = show.parse(outcome.stdout)
    assert kept == service
    assert [one["metadata"]["name"], two["metadata"]["name"]] == ["one", "two"]
    assert all(pod["metadata"]["labels"]["example.com/cost-centre"] == "cc-7301" for pod in (one, two))
    assert "Service: not a pod" in outcome.stderr
    as_list = json.loads(render("-n", "jobs", "-o", "json", "-", stdin=text).stdout)
    assert as_list == {"apiVersion": "v1", "kind": "List", "items": [one, kept, two]}


def test_every_pod_of_a_list_is_rendered() -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [a_pod(name="one"), a_pod(name="two")]})
    after = pods(render("-n", "jobs", "-", stdin=text))
    assert after["kind"] == "List"
    assert [pod["metadata"]["labels"]["team"] for pod in after["items"]] == ["data-platform"] * 2


def test_one_denied_pod_of_several_leaves_standard_output_empty(tmp_path: Path) -> None:
    other = a_pod(name="two")
    other["spec"]["containers"][0]["env"] = [{"name": "STAGE", "value": "prod"}]
    text = "---\n".join(map(show.to_yaml, [a_pod(name="one"), other]))
    outcome = render("-p", policy_file(tmp_path, REJECTING), "-", stdin=text)
    assert (outcome.exit_code, outcome.stdout) == (1, "")


# --- namespaces ------------------------------------------------------------------------------------------

BY_NAMESPACE = """
apiVersion: sparkwebhook.dev/v1alpha1
kind: ClusterSparkPodPolicy
metadata: {name: labels}
spec:
  match: {namespaceSelector: {matchLabels: {stage: prod}}}
  common: {labels: {seen: "{{NAMESPACE}}", tier: "{{NAMESPACE_LABEL:tier|none}}"}}
"""


@pytest.mark.parametrize(
    ("own", "options", "seen"),
    [
        (None, [], "default"),
        ("etl", [], "etl"),
        ("etl", ["-n", "jobs"], "jobs"),
        ("etl", ["--namespace", "jobs"], "jobs"),
    ],
)
def test_the_namespace_is_the_option_then_the_pods_then_default(
    own: str | None, options: list[str], seen: str, tmp_path: Path
) -> None:
    pod = a_pod(**({"namespace": own} if own else {}))
    file = policy_file(tmp_path, BY_NAMESPACE)
    outcome = render(
        "-p", file, "--namespace-labels", "stage=prod,tier=gold", *options, "-", stdin=json.dumps(pod)
    )
    labels = pods(outcome)["metadata"]["labels"]
    assert (labels["seen"], labels["tier"]) == (seen, "gold")


def test_a_reviews_namespace_goes_before_the_pods(tmp_path: Path) -> None:
    review = corpus.admission_review(a_pod(namespace="other"), namespace="jobs")
    file = policy_file(tmp_path, BY_NAMESPACE)
    outcome = render("-p", file, "--namespace-labels", "stage=prod", "-", stdin=json.dumps(review))
    assert pods(outcome)["metadata"]["labels"]["seen"] == "jobs"


def test_namespace_documents_among_the_policies_give_labels(tmp_path: Path) -> None:
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: etl, labels: {stage: prod}}\n"
    files = policy_file(tmp_path, BY_NAMESPACE), policy_file(tmp_path, namespace, "namespace.yaml")
    outcome = render("-p", files[0], "-p", files[1], "-n", "etl", "-", stdin=json.dumps(a_pod()))
    assert pods(outcome)["metadata"]["labels"]["seen"] == "etl"
    elsewhere = render("-p", files[0], "-p", files[1], "-n", "dev", "-", stdin=json.dumps(a_pod()))
    assert "NoPolicy" in elsewhere.stderr


# --- nothing to do, and no ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pod", "options", "reason"),
    [
        (a_pod(), ["-n", "elsewhere", "-p", "{team}"], Reason.NO_POLICY),
        (a_pod(labels={"spark-role": "driver", "example.com/no-team-libraries": ""}),
         ["-n", "jobs", "-p", "{team}"], Reason.NO_POLICY),
        (a_pod(labels={"spark-role": "shuffle"}), ["-n", "jobs"], Reason.UNKNOWN_SPARK_ROLE),
        (a_pod(labels={"app": "x"}), ["-n", "jobs"], Reason.NO_SPARK_ROLE),
        (a_pod(), ["-n", "kube-system"], Reason.SYSTEM_NAMESPACE),
        (a_pod(annotations={"kubernetes.io/config.mirror": "x"}), ["-n", "jobs"], Reason.MIRROR_POD),
    ],
)  # fmt: skip
def test_when_nothing_applies_it_says_why(pod: dict[str, Any], options: list[str], reason: Reason) -> None:
    given = [option.replace("{team}", str(EXAMPLES / "team-jobs.yaml")) for option in options]
    outcome = render(*given, "-", stdin=json.dumps(pod))
    assert pods(outcome) == pod
    assert f"{reason}: {reason.explain}" in outcome.stderr


@pytest.mark.parametrize("name", ["special/update-labels", "special/connect-exec"])
def test_other_operations_change_nothing_and_say_so(name: str) -> None:
    review = corpus.review(name)
    outcome = render("-", stdin=json.dumps(review))
    assert pods(outcome) == review["request"]["object"]
    assert re.search("NotACreate|NotAPod", outcome.stderr)


def test_a_denial_is_exit_code_1_and_a_message(tmp_path: Path) -> None:
    outcome = render("-p", policy_file(tmp_path, REJECTING), FULL_DRIVER)
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    assert "Denied" in outcome.stderr
    assert "stage" in outcome.stderr
    assert "env STAGE" in outcome.stderr
    assert "prod" not in outcome.stderr  # no value of the author's
