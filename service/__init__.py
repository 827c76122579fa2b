"""The reference server for positional encodings."""

import os

__version__ = "0.1.0"

# NumPy reads it when it is imported. With more threads one request could take all cores, and the
# server of the child processes could not fork: a process with threads must not.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
