"""An application that waits for its executors: its one job ends when they have come, so never here."""

from pyspark import SparkContext

context = SparkContext()
print("the application is running", flush=True)
context.parallelize(range(2), 2).count()
