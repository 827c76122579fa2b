"""The metrics, their sharing among processes, and the request log."""
