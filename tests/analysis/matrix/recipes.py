"""A recipe: everything that fixes the numbers of a table, mistakes included, and its evaluation."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tests.analysis.matrix.engines import Engine, Exponents, engine_named
from tests.analysis.matrix.floats import Floats, rounded
from tests.analysis.matrix.rules import Rule, written

Packed: TypeAlias = dict[str, NDArray[Any]]

CONCAT_CONVENTIONS = ("fairseq", "tensor2tensor", "whisper", "marian")
LAST_IS_ONE = ("fairseq", "tensor2tensor", "whisper")
SWAPPED = {
    "half": "interleaved",
    "interleaved": "half",
    "concat": "flat",
    "flat": "concat",
    "paper": "sin_concat",
    "sin_concat": "paper",
}
TWO_ARRAYS = ("half", "interleaved", "compact")


@dataclass(frozen=True)
class Recipe:
    """A table of cosines and sines.

    Attributes:
        positions: the position of each row (S,), or (3, S) with a section.
        asked: the query parameters of the positions, without ``seq_len`` where it is implied.
        convention: that of a sinusoidal table; nothing for a rotary one.
        zero_row: the position whose row is zeros, as fairseq's padding.
        narrow: the stage that is rounded to ``narrow_kind``.
        turned: how many pairs turn; the others have cosine 1.
        late_rule: the rule of positions from ``late_from`` on.
        exchanged: whether cosines and sines have each other's place.
    """

    engine: str
    kind: str
    pack: str
    width: int
    rule: Rule
    positions: Floats
    asked: Mapping[str, str] = field(default_factory=dict)
    convention: str = ""
    section: tuple[int, ...] = ()
    is_interleaved: bool = False
    zero_row: int | None = None
    slip: str = ""
    frequency_factor: float = 1.0
    narrow: str = ""
    narrow_kind: str = "bfloat16"
    turned: int | None = None
    turned_alone: bool = False
    attention_power: int = 1
    sine_sign: int = 1
    late_rule: Rule | None = None
    late_from: int = 0
    decimals: int | None = None
    exchanged: bool = False
    transposed: bool = False

    @property
    def rows(self) -> int:
        return int(self.positions.shape[-1])

    @property
    def tool(self) -> Engine:
        return engine_named(self.engine)

    @property
    def is_rope(self) -> bool:
        return not self.convention

    def on(self, positions: Floats) -> "Recipe":
        """Return the recipe at other positions."""
        return replace(self, positions=positions)

    def query(self) -> dict[str, str]:
        """Return the query parameters, positions excluded."""
        if not self.is_rope:
            query = {"convention": self.convention, "d_model": str(self.width)}
            if self.convention == "vaswani" and self.pack == "sin_concat":
                query["layout"] = "concatenated"
            is_usual = self.rule.base == 10000
            return query if is_usual else query | {"base": written(self.rule.base)}
        query = {"head_dim": str(self.width), **self.rule.query()}
        if self.rule.rotary != self.width:
            query["rotary_dim"] = str(self.rule.rotary)
        if self.section:
            query["mrope_section"] = ",".join(map(str, self.section))
        if self.is_interleaved:
            query["mrope_interleaved"] = "true"
        if self.pack in {"cos", "sin"}:
            return query | {"pack": "half", "part": self.pack}
        return query | {"pack": self.pack}

    def exponents(self) -> tuple[Exponents, Exponents]:
        """Return the exponents of the base for sines and for cosines."""
        width = self.rule.rotary if self.is_rope else self.width
        n = width // 2
        right = 1 / (n - 1) if self.convention in LAST_IS_ONE else 2 / width
        strides = {
            "channel": 1 / width,
            "last-one": 1 / max(n - 1, 1),
            "doubled": 4 / width,
            "not-last-one": 2 / width,
        }
        exponents = Exponents(n, strides.get(self.slip, right))
        starts = {"cosine-channel": 1 / width, "cosine-doubled": 2 / width}
        if self.slip == "cosine-doubled":
            exponents = replace(exponents, stride=4 / width)
        return exponents, replace(exponents, start=starts.get(self.slip, 0.0))

    def places(self) -> Floats:
        """Return the positions (S, 1), or those of each pair (S, r/2) with a section."""
        if not self.section:
            return self.positions[:, None]
        n = self.rule.count
        pairs = np.arange(n)
        if self.is_interleaved:
            axes = np.zeros(n, dtype=int)
            axes[(pairs % 3 == 1) & (pairs < 3 * self.section[1])] = 1
            axes[(pairs % 3 == 2) & (pairs < 3 * self.section[2])] = 2
        else:
            axes = np.repeat(np.arange(3), self.section)
        return self.positions[axes].T

    def angles(self) -> tuple[Floats, Floats]:
        """Return the angles of the sines and of the cosines, (S, r/2) each."""
        of_sines, of_cosines = self.exponents()
        early = self._angles(self.rule, of_sines), self._angles(self.rule, of_cosines)
        if self.late_rule is None:
            return early
        late = self._angles(self.late_rule, of_sines)
        is_late = self.positions[:, None] >= self.late_from
        both = np.where(is_late, late, early[0])
        return both, both

    def _angles(self, rule: Rule, exponents: Exponents) -> Floats:
        places = self.places()
        if self.narrow in {"positions", "throughout"}:
            places = rounded(places, self.narrow_kind)
        if self.narrow in {"frequencies", "throughout"}:
            frequencies = rounded(self.tool.frequencies(rule, exponents), self.narrow_kind)
            factors = places.astype(np.float32), frequencies.astype(np.float32)
            angles = (factors[0] * factors[1] * np.float32(self.frequency_factor)).astype(float)
        else:
            products = self.tool.products(places, rule, exponents, self.frequency_factor)
            angles = products.astype(np.float64)
        if self.narrow in {"angles", "throughout"}:
            angles = rounded(angles, self.narrow_kind)
        if self.turned is None:
            return angles
        if self.turned_alone:
            alone = Exponents(exponents.count, 1 / self.turned)
            angles = self.tool.products(places, rule, alone).astype(np.float64)
        return np.where(np.arange(exponents.count) < self.turned, angles, 0.0)

    def waves(self) -> tuple[Floats, Floats]:
        """Return cosines and sines (S, r/2), rounded as in the engine, before the file's type."""
        of_sines, of_cosines = self.angles()
        cosines, sines = np.cos(of_cosines), np.sin(of_sines) * self.sine_sign
        attention = self.rule.attention() ** self.attention_power
        if self.tool.is_double:
            cosines, sines = cosines * attention, sines * attention
        else:
            if self.tool.sines:
                cosines = np.cos(of_cosines.astype(np.float32)).astype(np.float64)
                sines = np.sin(of_sines.astype(np.float32)).astype(np.float64) * self.sine_sign
            factor = float(np.float32(attention))
            cosines = rounded(rounded(cosines, "float32") * factor, "float32")
            sines = rounded(rounded(sines, "float32") * factor, "float32")
        if self.narrow in {"tables", "throughout"}:
            cosines, sines = (rounded(wave, self.narrow_kind) for wave in (cosines, sines))
        if self.zero_row is not None:
            is_zero = (self.positions == self.zero_row)[:, None]
            cosines, sines = (np.where(is_zero, 0.0, wave) for wave in (cosines, sines))
        return cosines, sines

    def angle_noise(self) -> tuple[Floats, Floats]:
        """Return the largest deviations of the angles of sines and of cosines, (S, r/2) each."""
        error = self._relative_error()
        of_sines, of_cosines = self.angles()
        return np.abs(of_sines) * error, np.abs(of_cosines) * error

    def _relative_error(self) -> Floats:
        """Return a bound of the engine's relative error of the angle of each pair."""
        exponents, _ = self.exponents()
        if self.tool.is_double:
            return np.full(exponents.count, 2.0**-48)
        base = self.rule.base_used
        exact = self.rule.scaled(base ** -exponents.exact())
        measured = self.tool.products(np.ones((1, 1)), self.rule, exponents)[0]
        error = np.abs(measured.astype(np.float64) / exact - 1) + 2.0**-22
        if self.tool.angles == "repeated":
            error += np.arange(exponents.count) * 2.0**-24
        return np.asarray(error)

    def noise(self, claimed: float = 0.0) -> Packed:
        """Return the largest deviation of each number by the engine's arithmetic, packed.

        Args:
            claimed: the relative error of angles that a claimed table may have, whose base is
                written with few digits.
        """
        of_sines, of_cosines = (np.abs(angles) * claimed for angles in self.angles())
        by_sines, by_cosines = self.angle_noise()
        attention = abs(self.rule.attention() ** self.attention_power)
        # NumPy's float64 cosines are within 4 ulp.
        ulp = (2.0**-50 if self.tool.is_double else 2.0**-23) * attention
        cosines = (of_cosines + by_cosines) * attention + ulp
        sines = (of_sines + by_sines) * attention + ulp
        arrays = packed(cosines, sines, self.pack, exchanged=self.exchanged)
        return {name: array.T if self.transposed else array for name, array in arrays.items()}

    def tables(self) -> Packed:
        """Return the arrays, rounded to the element type, as float64 or complex numbers."""
        return self.arranged(*self.waves())

    def arranged(self, cosines: Floats, sines: Floats) -> Packed:
        """Return cosines and sines as the recipe packs and rounds them."""
        arrays = packed(cosines, sines, self.pack, exchanged=self.exchanged)
        if self.decimals is not None:
            arrays = {name: np.round(array, self.decimals) for name, array in arrays.items()}
        if self.transposed:
            arrays = {name: array.T for name, array in arrays.items()}
        return {name: rounded_any(array, self.kind) for name, array in arrays.items()}


def rounded_any(array: NDArray[Any], kind: str) -> NDArray[Any]:
    """Return real or complex numbers rounded to an element type."""
    if not np.iscomplexobj(array):
        return rounded(array, kind)
    return rounded(array.real, "float32") + 1j * rounded(array.imag, "float32")


def packed(cosines: Floats, sines: Floats, pack: str, *, exchanged: bool = False) -> Packed:
    """Return cosines and sines (S, n) in a packing; exchanged, each is in the other's place."""
    if exchanged:
        cosines, sines = sines, cosines
    if pack in TWO_ARRAYS:
        return {"cos": spread(cosines, pack), "sin": spread(sines, pack)}
    if pack in {"cos", "sin"}:
        return {"table": spread(cosines if pack == "cos" else sines, "half")}
    return {"table": _one_array(cosines, sines, pack)}


def spread(wave: Floats, pack: str) -> Floats:
    """Return a wave (S, n) once, twice in a row, or each number twice."""
    if pack == "half":
        return np.concatenate([wave, wave], axis=-1)
    return np.repeat(wave, 2, axis=-1) if pack == "interleaved" else wave


def _one_array(cosines: Floats, sines: Floats, pack: str) -> NDArray[Any]:
    if pack == "complex":
        return np.asarray(cosines + 1j * sines)
    if pack == "half_concat":
        cosines, sines, pack = spread(cosines, "half"), spread(sines, "half"), "concat"
    first, second = (sines, cosines) if pack in {"sin_concat", "paper"} else (cosines, sines)
    if pack in {"concat", "sin_concat"}:
        return np.concatenate([first, second], axis=-1)
    pairs = np.stack([first, second], axis=-1)
    assert pack in {"flat", "paper", "pair"}, pack
    return pairs if pack == "pair" else pairs.reshape(len(pairs), -1)
