from service.analysis.grids.grid_ways import nearest, written


def test_numbers_have_a_sign_or_are_0() -> None:
    assert written(-2.00001, 1e-4)[0] == -2
    assert written(1e-9, 1e-8) == [0]


def test_eighths_are_found_where_few_digits_miss_them() -> None:
    assert 1.875 in written(1.8763, 2e-2)


def test_what_nobody_would_write_down_is_left_out() -> None:
    assert written(12.566370614359172, 1e-12) == []


def test_the_plainest_of_what_is_good_is_the_one() -> None:
    assert nearest([2e-8, 3e-8], ["longer", "short"], 2**-24) == [1]


def test_one_that_is_much_nearer_is_kept_beside_the_plainest() -> None:
    assert nearest([2e-9, 3e-8], ["longer", "short"], 2**-24) == [1, 0]


def test_the_nearest_go_first_where_none_is_good() -> None:
    assert nearest([3e-4, 2e-4, 0.5], ["a", "b", "c"], 2**-24) == [1, 0]
