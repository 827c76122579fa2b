"""Settings: bounds, and messages that name the variable."""

from ipaddress import ip_network

import pytest
from annotated_types import Ge, Le

from service.__main__ import main
from service.errors import InvalidSettings
from service.memory import smallest_limit
from service.settings import MIB, Settings, default_settings, load_settings


def test_environment_variable_sets_its_field(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSREF_CACHE_BYTES", "1000")

    assert load_settings().cache_bytes == 1000


def test_override_takes_precedence_over_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSREF_PORT", "9000")

    assert load_settings(port="9001").port == 9001
    assert load_settings(port=None).port == 9000


def bounds_of(name: str) -> tuple[int | None, int | None]:
    """Return the minimum and the maximum of a numeric setting."""
    rules = Settings.model_fields[name].metadata
    least = [rule.ge for rule in rules if isinstance(rule, Ge)]
    greatest = [rule.le for rule in rules if isinstance(rule, Le)]
    return least[0] if least else None, greatest[0] if greatest else None  # type: ignore[return-value]


NUMBERS = [name for name, field in Settings.model_fields.items() if field.annotation is int]
OUT_OF_RANGE = [
    (name, bound + step)
    for name in NUMBERS
    for bound, step in zip(bounds_of(name), (-1, 1), strict=True)
    if bound is not None
]
NO_NUMBERS = ["many", "8_000", "80.0", "1e3", "", " 80", "+80", "0x50", "true", "9" * 41]


def refusal(monkeypatch: pytest.MonkeyPatch, **settings: object) -> str:
    """Return the message that stops the start with invalid settings."""
    for name, value in settings.items():
        monkeypatch.setenv(f"POSREF_{name.upper()}", str(value))
    with pytest.raises(InvalidSettings) as stopped:
        load_settings()
    return str(stopped.value)


@pytest.mark.parametrize(("name", "value"), OUT_OF_RANGE)
def test_number_out_of_its_range_is_refused_with_its_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, value: int
) -> None:
    assert refusal(monkeypatch, **{name: value}).startswith(f"POSREF_{name.upper()}='{value}': ")


def test_every_number_has_a_minimum() -> None:
    assert len(NUMBERS) >= 20
    assert all(bounds_of(name)[0] is not None for name in NUMBERS)


@pytest.mark.parametrize(
    ("name", "value"),
    [*((name, "many") for name in NUMBERS), *(("port", value) for value in NO_NUMBERS)],
)
def test_text_is_refused_as_a_number(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    message = refusal(monkeypatch, **{name: value})

    assert message.startswith(f"POSREF_{name.upper()}='{value}': must be an integer")


@pytest.mark.parametrize(
    ("value", "hint"),
    [("True", "; did you mean true?"), ("no", "; did you mean false?"), ("", ""), ("truee", "")],
)
def test_other_text_is_refused_as_a_boolean(
    monkeypatch: pytest.MonkeyPatch, value: str, hint: str
) -> None:
    message = refusal(monkeypatch, log_requests=value)

    assert message == f"POSREF_LOG_REQUESTS='{value}': must be true or false{hint}"


@pytest.mark.parametrize("value", ["INFO", "warn", ""])
def test_misspelled_log_level_lists_the_levels(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    message = refusal(monkeypatch, log_level=value)

    assert message.startswith(f"POSREF_LOG_LEVEL='{value}': ")
    assert all(f"'{level}'" in message for level in ("debug", "info", "warning", "error"))


KEY, OTHER = "correct-horse-battery", "staple.0123456789+/=="


def test_api_keys_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSREF_API_KEYS", f"{KEY},{OTHER}")

    assert load_settings().keys == (KEY.encode(), OTHER.encode())


def test_empty_api_keys_disable_access_control(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().keys == default_settings().keys == ()
    monkeypatch.setenv("POSREF_API_KEYS", "")
    assert load_settings().keys == ()


@pytest.mark.parametrize(
    "keys",
    [
        "short-secret",
        f"{KEY},short-secret",
        f"{KEY}, {OTHER}",
        f"{KEY},",
        ",",
        " ",
        f"{KEY};{OTHER}",
        f'"{KEY}"',
        "secret-schlüssel-äöü",
        "=secret-=-in-the-middle",
        "x" * 257,
    ],
)
def test_invalid_api_key_stops_the_start_and_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    message = refusal(monkeypatch, api_keys=keys)

    assert message.startswith("POSREF_API_KEYS: must be keys with commas between")
    assert not any(len(part) > 5 and part in message for part in keys.replace(",", " ").split())


def test_trusted_proxies_are_addresses_and_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSREF_TRUSTED_PROXIES", "192.0.2.1,10.0.0.0/8,2001:db8::/32")

    assert load_settings().trusted_networks == (
        ip_network("192.0.2.1/32"),
        ip_network("10.0.0.0/8"),
        ip_network("2001:db8::/32"),
    )


def test_no_proxy_is_trusted_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().trusted_networks == default_settings().trusted_networks == ()
    monkeypatch.setenv("POSREF_TRUSTED_PROXIES", "")
    assert load_settings().trusted_networks == ()


@pytest.mark.parametrize(
    ("proxies", "wrong"),
    [
        ("edge", "'edge'"),
        ("10.0.0.1/8", "10.0.0.1/8 has host bits set"),
        ("10.0.0.0/33", "'10.0.0.0/33'"),
        ("10.0.0.1, 10.0.0.2", "' 10.0.0.2'"),
        ("10.0.0.1,", "''"),
        ("10.0.0", "'10.0.0'"),
        ("[::1]", "'[::1]'"),
        ("10.0.0.1:80", "'10.0.0.1:80'"),
        ("*", "'*'"),
    ],
)
def test_invalid_trusted_proxies_stop_the_start_and_are_named(
    monkeypatch: pytest.MonkeyPatch, proxies: str, wrong: str
) -> None:
    message = refusal(monkeypatch, trusted_proxies=proxies)

    assert message.startswith(f"POSREF_TRUSTED_PROXIES='{proxies}': must be addresses and networks")
    assert wrong in message.partition("between: ")[2]


def test_repr_of_settings_has_no_api_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSREF_API_KEYS", KEY)
    settings = load_settings()

    for shown in (repr(settings), str(settings), str(settings.model_dump())):
        assert KEY not in shown
    assert KEY not in settings.model_dump_json()


@pytest.mark.parametrize("workers", [1, 3])
def test_memory_too_small_for_the_workers_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    least = workers * 224 * MIB + 64 * MIB * (workers > 1)
    monkeypatch.setenv("POSREF_WORKERS", str(workers))
    monkeypatch.setenv("POSREF_MEMORY_BYTES", str(least))
    assert load_settings().memory_bytes == least

    message = refusal(monkeypatch, memory_bytes=least - 1)
    assert "POSREF_MEMORY_BYTES=" in message
    assert ("POSREF_WORKERS=3" in message) == (workers > 1)
    assert str(least) in message
    assert "it is not set" not in message


def test_memory_that_is_found_to_be_too_small_is_refused_with_its_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit = smallest_limit()
    assert load_settings(workers=1).memory_bytes == limit.usable_bytes
    monkeypatch.setattr("service.settings._LEAST_MEMORY_BYTES", limit.usable_bytes + 1)

    message = refusal(monkeypatch)
    assert message.startswith(f"POSREF_MEMORY_BYTES={limit.usable_bytes} must be at least")
    assert message.endswith(f"; it is not set, and is four fifths of {limit.source}")


CONTRADICTORY = pytest.mark.parametrize(
    ("larger", "limit", "smaller", "least"),
    [
        ("max_head_bytes", 4096, "max_url_bytes", 4097),
        ("max_held_body_bytes", 2**20, "max_body_bytes", 2**20 + 1),
        ("max_held_body_bytes", 2**27, "max_json_body_bytes", 2**27 + 1),
    ],
)


@CONTRADICTORY
def test_contradictory_limits_stop_the_start(
    monkeypatch: pytest.MonkeyPatch, larger: str, limit: int, smaller: str, least: int
) -> None:
    message = refusal(monkeypatch, **{larger: limit, smaller: least})

    rule = f"POSREF_{larger.upper()}={limit} must be at least POSREF_{smaller.upper()}={least}: "
    assert message.startswith(rule)


@CONTRADICTORY
def test_limits_may_be_equal(
    monkeypatch: pytest.MonkeyPatch, larger: str, limit: int, smaller: str, least: int
) -> None:
    small = {"max_body_bytes": 1024, "max_json_body_bytes": 1024}
    for name, value in {**small, larger: limit, smaller: least - 1}.items():
        monkeypatch.setenv(f"POSREF_{name.upper()}", str(value))

    assert getattr(load_settings(), larger) == limit


def test_limit_may_contradict_a_default(monkeypatch: pytest.MonkeyPatch) -> None:
    message = refusal(monkeypatch, max_head_bytes=8192)

    assert "POSREF_MAX_HEAD_BYTES=8192" in message
    assert "POSREF_MAX_URL_BYTES=65535" in message


def test_cache_size_may_be_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSREF_CACHE_BYTES", "0")

    assert load_settings().cache_entry_bytes > load_settings().cache_bytes == 0


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"MAX_HEAD_BYTES": "4096"}, ["MAX_HEAD_BYTES", "MAX_URL_BYTES"]),
        ({"MAX_HELD_BODY_BYTES": "1"}, ["MAX_HELD_BODY_BYTES", "MAX_BODY_BYTES"]),
        ({"MAX_JSON_BODY_BYTES": "9999999999"}, ["MAX_HELD_BODY_BYTES", "MAX_JSON_BODY_BYTES"]),
        ({"API_KEYS": "secret"}, ["API_KEYS"]),
        ({"LOG_LEVEL": "loud", "DRAIN_SECONDS": "-1"}, ["LOG_LEVEL", "DRAIN_SECONDS"]),
    ],
)
def test_server_with_invalid_settings_exits_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    settings: dict[str, str],
    named: list[str],
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(f"POSREF_{name}", value)

    assert main(["serve"]) == 2
    message = capsys.readouterr().err
    assert all(f"POSREF_{name}" in message for name in named)
    assert "secret" not in message


def test_every_setting_has_a_description() -> None:
    for field in Settings.model_fields.values():
        assert field.description


def test_default_address_is_loopback() -> None:
    assert Settings().host == "127.0.0.1"


def test_misspelled_variable_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSREF_CACHE_BTYES", "1")

    with pytest.raises(InvalidSettings, match="did you mean POSREF_CACHE_BYTES"):
        load_settings()


def test_default_settings_ignore_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSREF_CACHE_BYTES", "lots")

    assert default_settings().cache_bytes == 256 * 2**20
    assert default_settings().memory_bytes == 4096 * MIB
    assert default_settings().threads >= 1


def test_foreign_environment_variables_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSREF_SERVICE_HOST", "10.0.0.1")

    assert load_settings().host == default_settings().host
