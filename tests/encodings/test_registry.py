"""What there is to ask for by a URL."""

from service.encodings.registry import NAMED, POSTED, RESOURCES


def test_every_path_is_there_once() -> None:
    paths = [known.path for known in (*RESOURCES, *POSTED)]

    assert len(paths) == len(set(paths))


def test_the_name_of_a_convention_leads_to_the_first_resource_that_has_it() -> None:
    assert NAMED["bloom"] == "/relative/alibi?convention=bloom"
    assert NAMED["vaswani"] == "/encoding?convention=vaswani"
