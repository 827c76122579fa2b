"""Measurements in processes of their own.

How fast NumPy gets memory for large arrays depends on what the process had before: rows of a report
would change with the rows above them.
"""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

# The forkserver of a process is that of posref's children.
_CONTEXT = get_context("spawn")


def in_new_process(
    work: Callable[Arguments, Result], *arguments: Arguments.args, **options: Arguments.kwargs
) -> Result:
    """Call a function in a new process, on the cores that this one had at the first call."""
    with ProcessPoolExecutor(1, mp_context=_CONTEXT) as pool:
        return pool.submit(work, *arguments, **options).result()
