"""A real control plane on loopback, the product installed in it, and what is tested there."""
