"""Mistakes in channels, angles and factors."""

from service.analysis.applied.evidence import Application
from service.analysis.applied.mistakes import angle_mistakes, channel_mistakes, size_mistakes
from service.analysis.applied.wiring import Wiring

PARTIAL = Application(Wiring(16, 8))


def test_every_mistake_changes_something_of_its_own() -> None:
    made = [*channel_mistakes(PARTIAL), *angle_mistakes(PARTIAL), *size_mistakes(PARTIAL, 1.2)]

    assert all(one.wiring != PARTIAL.wiring or one.spin != PARTIAL.spin for one in made)
    assert len({one.mistakes[0].sentence for one in made}) == len(made)


def test_other_layouts_are_those_that_are_not_wanted() -> None:
    mixed = Application(Wiring(16, 16, read="interleaved", written="half"))

    names = [
        sorted(one.mistakes[0].name for one in channel_mistakes(start) if "layout" in one.aspects)
        for start in (PARTIAL, mixed)
    ]

    assert names == [["layout-mixed", "layout-mixed", "layout-swapped"], ["layout-mixed"] * 3]


def test_one_pair_has_one_layout() -> None:
    made = channel_mistakes(Application(Wiring(2, 2)))

    assert not {one.aspects[0] for one in made} & {"layout", "tiling"}


def test_only_channels_that_pass_through_can_be_zeroed() -> None:
    def aspects(wiring: Wiring) -> set[str]:
        return {one.aspects[0] for one in channel_mistakes(Application(wiring))}

    assert "rest" in aspects(Wiring(16, 8))
    assert "rest" not in aspects(Wiring(16, 16))


def test_a_factor_of_one_cannot_be_missing() -> None:
    assert not list(size_mistakes(PARTIAL, 1.0))


def test_a_missing_factor_is_said_with_its_value_where_it_has_one() -> None:
    known, *_ = size_mistakes(PARTIAL, 1.25)
    growing, *_ = size_mistakes(PARTIAL, None)

    assert known.mistakes[0].values == {"factor": 1.25, "ratio": 0.8}
    assert "xPos" in growing.mistakes[0].correction
