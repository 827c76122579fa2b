"""Metrics, their counters across processes, and the request log."""
