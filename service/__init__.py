"""The reference server for positional encodings."""

import os

__version__ = "0.1.0"

# NumPy reads it when it is imported: otherwise one request could take all cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
