"""`spark-webhook lint`: all errors with their places, notes, the summary, exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from webhook.cli import main

EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"
GOOD = """\
apiVersion: sparkwebhook.dev/v1alpha1
kind: ClusterSparkPodPolicy
metadata: {name: good}
spec: {common: {labels: {team: etl}}}
"""
# three errors in one file, each of another kind
BROKEN = """\
apiVersion: sparkwebhook.dev/v1alpha1
kind: ClusterSparkPodPolicy
metadata: {name: broken}
spec:
  onConflikt: Keep
  common:
    env:
      - {name: SPARK_USER, value: etl}
      - {name: APP, value: "{{APPID}}"}
"""


def lint(*arguments: str | Path) -> Result:
    """Runs the command as a shell would."""
    return CliRunner().invoke(main, ["lint", *map(str, arguments)])


def test_the_examples_have_no_errors() -> None:
    outcome = lint(EXAMPLES)
    assert outcome.exit_code == 0
    assert outcome.stdout == "5 policies, 1 namespace, 0 errors, 1 note\n"
    (note,) = outcome.stderr.splitlines()
    assert note.startswith(f"{EXAMPLES}/team-jobs.yaml:")
    assert ": note: " in note


def test_all_errors_of_all_files_are_named_with_their_places(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(BROKEN)
    (tmp_path / "b.yaml").write_text(GOOD)
    (tmp_path / "c.json").write_text('{"kind": ')
    outcome = lint(tmp_path)
    assert outcome.exit_code == 1
    assert outcome.stdout == "1 policy, 0 namespaces, 4 errors, 0 notes\n"
    first, second, third, last = outcome.stderr.splitlines()
    assert first.startswith(f"{tmp_path}/a.yaml:5:3: spec.onConflikt: ")
    assert "onConflict" in first
    assert second.startswith(f"{tmp_path}/a.yaml:8:16: spec.common.env[0].name: ")
    assert third.startswith(f"{tmp_path}/a.yaml:9:28: spec.common.env[1].value: ")
    assert "did you mean {{APP_ID}}" in third
    assert last.startswith(f"{tmp_path}/c.json:1:")


def test_two_definitions_of_one_policy_are_an_error_across_files(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(GOOD)
    outcome = lint(tmp_path / "a.yaml", tmp_path / "b.yaml")
    assert outcome.exit_code == 1
    assert "b.yaml:" in outcome.stderr
    assert "a.yaml" in outcome.stderr


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\x00", b"\xff\xfe", b"- 5\n", b"text"])
def test_a_file_that_is_no_policy_is_an_error(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(content)
    outcome = lint(tmp_path)
    assert outcome.exit_code == 1
    assert outcome.stderr.startswith(f"{tmp_path}/a.yaml:1:")


def test_a_guarded_item_is_an_error_unless_it_is_allowed(tmp_path: Path) -> None:
    policy = GOOD.replace("Cluster", "").replace("{name: good}", "{name: good, namespace: jobs}")
    volume = "{name: data, hostPath: {path: /srv}, mounts: [{mountPath: /srv}]}"
    (tmp_path / "a.yaml").write_text(policy.replace("labels: {team: etl}", f"volumes: [{volume}]"))
    assert lint(tmp_path).exit_code == 1
    assert lint("--allow", "hostPath", tmp_path).exit_code == 0


@pytest.mark.parametrize("arguments", [[], ["missing"], ["--allow", "everything", "."]])
def test_unusable_arguments_are_exit_code_2(arguments: list[str]) -> None:
    outcome = lint(*arguments)
    assert outcome.exit_code == 2
    assert "Error: " in outcome.stderr


def test_an_empty_directory_has_nothing_wrong(tmp_path: Path) -> None:
    outcome = lint(tmp_path)
    assert (outcome.exit_code, outcome.stdout) == (0, "0 policies, 0 namespaces, 0 errors, 0 notes\n")


def test_a_real_process_says_it_on_standard_error(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(BROKEN)
    outcome = subprocess.run(
        [sys.executable, "-m", "webhook", "lint", "a.yaml"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert outcome.returncode == 1
    assert outcome.stdout == "0 policies, 0 namespaces, 3 errors, 0 notes\n"
    assert [line.split(":", 1)[0] for line in outcome.stderr.splitlines()] == ["a.yaml"] * 3
