"""`spark-webhook render` for tests: running it, and pods to run it on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from tests import corpus
from webhook import show
from webhook.cli import main

EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"
FULL_DRIVER = corpus.CAPTURES / "reviews" / "3.5.9" / "cluster-full-driver.json"

REJECTING = """
apiVersion: sparkwebhook.dev/v1alpha1
kind: ClusterSparkPodPolicy
metadata: {name: stage}
spec:
  onConflict: Reject
  common:
    env: [{name: STAGE, value: test}]
"""


def render(*arguments: str | Path, stdin: str | bytes | None = None) -> Result:
    """Runs the command as a shell would, with the example policies unless `-p` is given."""
    given = [str(argument) for argument in arguments]
    policies = [] if "-p" in given else ["-p", str(EXAMPLES)]
    return CliRunner().invoke(main, ["render", *policies, *given], input=stdin)


def a_pod(**metadata: Any) -> dict[str, Any]:
    """A small driver pod that nothing was filled in for."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pi-driver", "labels": {"spark-role": "driver"}, **metadata},
        "spec": {
            "containers": [{"name": "spark-kubernetes-driver", "image": "spark", "futureField": {"x": [1]}}]
        },
    }


def policy_file(folder: Path, text: str, name: str = "policy.yaml") -> Path:
    """A file with this policy."""
    file = folder / name
    file.write_text(text)
    return file


def pods(outcome: Result) -> Any:
    """The one document of a YAML result."""
    assert outcome.exit_code == 0, outcome.stderr
    (document,) = show.parse(outcome.stdout)
    return document
