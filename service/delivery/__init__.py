"""The way from a request to its answer, the same for every endpoint."""
