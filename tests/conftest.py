"""How long hypothesis searches: a little by default, long with HYPOTHESIS_PROFILE=deep."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]

# The default run is the same on every machine: what it finds, it finds again.
settings.register_profile(
    "fast", max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=_SLOW
)
settings.register_profile("deep", max_examples=2000, deadline=None, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))
