"""Load by many clients with mixed requests: correctness, latency and cost."""
