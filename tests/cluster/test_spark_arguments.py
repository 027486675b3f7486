"""A driver's arguments as a policy leaves them, given to the spark-submit that Spark's entry point calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpus, door
from tests.cluster.spark_submit import SparkSubmit

pytestmark = pytest.mark.xdist_group("cluster")

POLICY = """
apiVersion: sparkwebhook.dev/v1alpha1
kind: ClusterSparkPodPolicy
metadata: {name: a}
spec: {driver: {sparkConf: {spark.a: the policy's, spark.b: "two words, {{NAMESPACE}}"}}}
"""
SCRIPT = """
import sys
from pyspark import SparkContext
conf = SparkContext().getConf()
print([conf.get(key) for key in ("spark.a", "spark.b", "spark.c")], sys.argv[1:])
"""


@pytest.mark.parametrize("version", ["3.5.9", "4.3.0"])
def test_spark_takes_the_properties(version: str, tmp_path: Path) -> None:
    outcome = door.admit(corpus.review(f"{version}/cluster-python-driver"), door.policy_set(POLICY))
    (container,) = outcome.after["spec"]["containers"]
    command, *arguments = container["args"]
    assert command == "driver"

    properties, script = tmp_path / "spark.properties", tmp_path / "main.py"
    properties.write_text(
        "spark.master=local[1]\nspark.ui.enabled=false\nspark.a=the author's\nspark.c=also the author's\n"
    )
    script.write_text(SCRIPT)
    files = {"/opt/spark/conf/spark.properties": str(properties), "local:///opt/app/main.py": str(script)}
    options = [files.get(text, text) for text in arguments]
    process = SparkSubmit(version, ["--deploy-mode", "client", *options], tmp_path, {})
    process.start()
    process.wait()

    said = ["the policy's", "two words, jobs", "also the author's"]
    assert process.has_said(f"{said} ['--date', '2024-01-01']")
