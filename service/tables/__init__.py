"""Exact tables: which numbers they hold and how those are computed. Nothing here knows of HTTP."""
