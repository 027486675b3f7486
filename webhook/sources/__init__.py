"""Where customization comes from. A source reads, checks and compiles; it must never decide on a pod."""
