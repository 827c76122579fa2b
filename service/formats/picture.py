"""What is to be seen of a table: its values, with words and numbers along both axes."""

from dataclasses import dataclass

from service import grammar
from service.formats.numbering import Numbers, numbers
from service.tables.angle import Float64s
from service.tables.document import Curves, Document

_DEFAULT_AXES = ("row", "column")
_MAX_LENGTH = 40


@dataclass(frozen=True, eq=False)
class Axis:
    """One of the two axes of a table.

    Attributes:
        name: what it counts.
        numbers: that of each place along it, int64 or float64.
    """

    name: str
    numbers: Numbers

    @property
    def ends(self) -> tuple[float, float]:
        """The first number and the last."""
        return self.numbers[0].item(), self.numbers[-1].item()


@dataclass(frozen=True, eq=False)
class Picture:
    """A matrix to be drawn.

    Attributes:
        title: what it is.
        down, across: the axes.
        values: means over parts of both axes, shape (parts of down, parts of across). NaN and
            infinity have no colour.
        label: what the values are.
        parts: elements in a part, down and across; the last ones may have less.
        curves: whether rows or columns are drawn as curves; colours in a grid otherwise.
    """

    title: str
    down: Axis
    across: Axis
    values: Float64s
    label: str
    parts: tuple[int, int] = (1, 1)
    curves: Curves | None = None


def picture(document: Document, values: Float64s, parts: tuple[int, int] = (1, 1)) -> Picture:
    """Describe the picture of a document of one matrix.

    Args:
        document: what is to be seen.
        values: as of a Picture.
        parts: as of a Picture.
    """
    ((name, table),) = document.arrays.items()
    names = document.axes if len(document.axes) == 2 else _DEFAULT_AXES
    down, across = (
        Axis(plain(axis), numbers(axis, length, document))
        for axis, length in zip(names, table.shape, strict=True)
    )
    label = f"{plain(_cut(name))} ({table.dtype.name})"
    return Picture(_title(document), down, across, values, label, parts, document.curves)


def spelled(number: float) -> str:
    """Spell a number of an axis: integers to their last digit, others to six."""
    return str(number) if isinstance(number, int) else f"{number:g}"


def plain(text: str) -> str:
    """Keep to characters that every font has; names of arrays may come from anywhere."""
    return "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in text)


def _title(document: Document) -> str:
    """Say what kind of table it is, and its parameters in their canonical order."""
    parameters = [
        f"{name}={_cut(grammar.spelled(value))}" for name, value in document.parameters.items()
    ]
    return plain(": ".join(filter(None, (document.kind, ", ".join(parameters)))))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 3]}..."
