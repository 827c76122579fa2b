"""Products of integers and exact decimals."""

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from service.tables import scaling
from service.tables.angle import MAX_POSITION, exact_context
from service.tables.products import cut, products

POSITIONS = st.one_of(
    st.integers(-MAX_POSITION, MAX_POSITION),
    st.integers(-100, 100),
    st.sampled_from([0, 2**32 - 1, 2**32, 2**53 + 1, MAX_POSITION, -MAX_POSITION]),
)
FACTORS = st.one_of(
    st.floats(0.0, 1.0).map(Decimal),
    st.floats(-300.0, 18.0).map(lambda exponent: exact_context().power(10, Decimal(exponent))),
    st.integers(1, 10**9).map(lambda n: exact_context().divide(Decimal(1), Decimal(n))),
)


@given(
    st.lists(FACTORS, min_size=1, max_size=5),
    st.lists(POSITIONS, min_size=1, max_size=5),
)
def test_products_are_within_their_bound_everywhere(
    factors: list[Decimal], positions: list[int]
) -> None:
    got = products(cut(factors), np.array(positions, dtype=np.int64))

    assert got.shape == (len(positions), len(factors))
    for row, position in enumerate(positions):
        for column, factor in enumerate(factors):
            exact = Fraction(factor) * position
            error = abs(Fraction(float(got[row, column])) - exact)
            assert error <= Fraction(8, 2**53) * abs(exact) + Fraction(5e-324)


def test_products_of_small_integers_are_exact() -> None:
    got = products(cut([Decimal(1), Decimal(3), Decimal("0.5")]), np.array([0, 1, 7, -7]))

    assert got.tolist() == [[0, 0, 0], [1, 3, 0.5], [7, 21, 3.5], [-7, -21, -3.5]]


def test_opposite_positions_have_opposite_products_to_the_bit() -> None:
    factors = scaling.default(Decimal(10000), 64, 32)
    positions = np.array([1, 63, 2**40 + 7, MAX_POSITION], dtype=np.int64)

    assert (products(cut(factors), -positions) == -products(cut(factors), positions)).all()


def test_products_are_the_same_in_a_bare_thread() -> None:
    factors = scaling.default(Decimal(10000), 64, 32)
    positions = np.array([3, 2**61 + 1], dtype=np.int64)

    with ThreadPoolExecutor(1) as pool:
        in_thread = pool.submit(lambda: products(cut(factors), positions)).result()

    assert in_thread.tobytes() == products(cut(factors), positions).tobytes()
