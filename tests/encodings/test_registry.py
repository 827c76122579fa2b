"""What there is to ask for by a URL."""

from service.routes import ENDPOINTS


def test_every_path_is_there_once() -> None:
    paths = [known.path for known in ENDPOINTS]

    assert len(paths) == len(set(paths))
