"""Sums that are the same on every machine: NumPy's own add in an order that differs."""

from service.tables.angle import Float64s


def sum_of_halves(terms: Float64s) -> Float64s:
    """Sum terms (m, n) along the last axis by adding its halves, shape (m,).

    A term goes through two additions a halving at most, ⌈log2 n⌉ halvings in all.
    """
    while terms.shape[1] > 1:
        half = terms.shape[1] // 2
        folded = terms[:, :half] + terms[:, half : 2 * half]
        if terms.shape[1] % 2:
            folded[:, 0] += terms[:, -1]
        terms = folded
    return terms[:, 0]
