"""`python -m webhook` is the command `spark-webhook`."""

from webhook.cli import main

main(prog_name="spark-webhook")
