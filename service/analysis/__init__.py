"""Identification and diagnosis of arrays; independent of HTTP."""
