"""The Spark pod webhook: Spark-style feature steps for the pods of any stock submitter.

The arrows between modules point one way: cli and server use admission, admission uses policy and steps,
steps use changes, changes use patch. Nothing on the way from admission downwards does I/O.
"""
