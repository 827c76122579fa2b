"""The tables that are requested."""

from dataclasses import dataclass

BASE = 10000


@dataclass(frozen=True)
class Case:
    """A table of float32 in a format."""

    seq_len: int
    d_model: int
    extension: str = "npy"
    base: int = BASE

    def __str__(self) -> str:
        return f"{self.seq_len}×{self.d_model} .{self.extension}"

    @property
    def query(self) -> str:
        base = "" if self.base == BASE else f"&base={self.base}"
        return f"seq_len={self.seq_len}&d_model={self.d_model}{base}"

    @property
    def file_name(self) -> str:
        return f"{self.seq_len}x{self.d_model}.{self.extension}"

    @property
    def npy_bytes(self) -> int:
        """The length of the .npy file: a header of 128 bytes and 4 for each element."""
        return 128 + 4 * self.seq_len * self.d_model
