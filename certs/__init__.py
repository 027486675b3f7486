"""The serving certificate of the webhook."""
