"""The reference server for positional encodings."""

__version__ = "0.1.0"
