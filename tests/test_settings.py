"""Settings: bounds that hold, and messages that name the variable."""

import pytest

from service.settings import InvalidSettings, Settings, default_settings, load_settings


def test_a_variable_sets_its_field(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSREF_CACHE_BYTES", "1000")

    assert load_settings().cache_bytes == 1000


def test_an_override_comes_before_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSREF_PORT", "9000")

    assert load_settings(port="9001").port == 9001
    assert load_settings(port=None).port == 9000


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("POSREF_PORT", "70000"),
        ("POSREF_WORKERS", "0"),
        ("POSREF_THREADS", "many"),
        ("POSREF_PORT", "8_000"),
        ("POSREF_PORT", "80.0"),
        ("POSREF_CACHE_BYTES", "-1"),
        ("POSREF_MAX_BODY_BYTES", "0"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)

    with pytest.raises(InvalidSettings, match=f"{variable}='{value}'"):
        load_settings()


def test_every_setting_says_what_it_means() -> None:
    for field in Settings.model_fields.values():
        assert field.description


def test_nothing_binds_beyond_loopback_unless_told() -> None:
    assert Settings().host == "127.0.0.1"


def test_a_setting_that_is_almost_one_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSREF_CACHE_BTYES", "1")

    with pytest.raises(InvalidSettings, match="did you mean POSREF_CACHE_BYTES"):
        load_settings()


def test_the_defaults_hold_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSREF_CACHE_BYTES", "lots")

    assert default_settings().cache_bytes == 256 * 2**20
    assert default_settings().threads >= 1


def test_a_variable_like_no_setting_is_somebody_else_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSREF_SERVICE_HOST", "10.0.0.1")

    assert load_settings().host == default_settings().host
