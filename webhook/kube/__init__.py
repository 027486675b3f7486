"""The API server as a client sees it: the one place that knows Kubernetes' API. It knows nothing of pods."""
