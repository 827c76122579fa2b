"""Settings from POSREF_* variables, with their bounds, units and meaning."""

import os
import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import partial
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from service.grammar import Boolean, Integer

MIB = 1024 * 1024
_Count = partial(Field, ge=1)
_Seconds = partial(Field, ge=1, le=3600)
# Limits of which the first must be at least the second.
_AT_LEAST = (
    ("max_head_bytes", "max_url_bytes", "the URL is a part of the head"),
    ("max_held_body_bytes", "max_body_bytes", "one body alone would take more"),
    ("max_held_body_bytes", "max_json_body_bytes", "one body alone would take more"),
)
_API_KEY = re.compile(r"[A-Za-z0-9._~+/-]{16,256}=*", re.ASCII)


def _cores_but_one() -> int:
    """Return the number of cores, less one for the event loop."""
    return max(1, (os.cpu_count() or 1) - 1)


def _check_keys(keys: SecretStr) -> SecretStr:
    text = keys.get_secret_value()
    # An empty key between commas is a mistake, and must not open the server to all.
    for key in text.split(",") if text else ():
        if not _API_KEY.fullmatch(key):
            raise ValueError(
                "must be keys with commas between, each of at least 16 and at most 256 characters: "
                "letters, digits and any of -._~+/, with = at the end only"
            )
    return keys


class Settings(BaseSettings):
    """All settings; each field NAME is read from the variable POSREF_NAME."""

    model_config = SettingsConfigDict(env_prefix="POSREF_", frozen=True, extra="ignore")

    host: Annotated[str, Field(description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[
        Integer, Field(ge=0, le=65535, description="Port to listen on; 0 picks one.")
    ] = 8000
    workers: Annotated[Integer, _Count(le=256, description="Worker processes.")] = 1
    threads: Annotated[
        Integer,
        _Count(le=256, description="Threads for long computations, in each process."),
    ] = Field(default_factory=_cores_but_one)
    cache_bytes: Annotated[
        Integer, Field(ge=0, description="Size of the cache of finished answers, in each process.")
    ] = 256 * MIB
    cache_entry_bytes: Annotated[
        Integer,
        Field(ge=0, description="Largest body that is built whole and cached."),
    ] = 16 * MIB
    max_body_bytes: Annotated[Integer, _Count(description="Largest binary request body.")] = (
        64 * MIB
    )
    max_json_body_bytes: Annotated[Integer, _Count(description="Largest JSON request body.")] = (
        4 * MIB
    )
    max_text_bytes: Annotated[
        Integer,
        _Count(description="Largest JSON or CSV answer, estimated before it is computed."),
    ] = 128 * MIB
    max_digest_bytes: Annotated[
        Integer, _Count(description="Largest file whose digest is computed.")
    ] = 4096 * MIB
    max_response_bytes: Annotated[
        Integer, _Count(le=2**63 - 1, description="Most bytes in one binary answer.")
    ] = 2**40
    max_url_bytes: Annotated[
        Integer, Field(ge=256, le=65_535, description="Longest request URL.")
    ] = 65_535
    max_head_bytes: Annotated[
        Integer,
        Field(ge=1024, le=MIB, description="Longest request head: request line and headers."),
    ] = 131_072
    max_held_body_bytes: Annotated[
        Integer, _Count(description="Memory for all request bodies together, in each process.")
    ] = 512 * MIB
    max_connections: Annotated[
        Integer,
        _Count(le=1_000_000, description="Most connections at a time, in each process."),
    ] = 4096
    max_waiting: Annotated[
        Integer,
        _Count(le=1_000_000, description="Most requests that wait for each kind of thread."),
    ] = 256
    wait_seconds: Annotated[
        Integer, _Seconds(description="Longest wait of a request for a thread.")
    ] = 15
    header_seconds: Annotated[
        Integer, _Seconds(description="Time limit for receiving a request head.")
    ] = 10
    body_seconds: Annotated[
        Integer, _Seconds(description="Time limit for receiving a request body.")
    ] = 120
    stall_seconds: Annotated[
        Integer, _Seconds(description="Time limit for a client that reads nothing of its answer.")
    ] = 60
    keep_alive_seconds: Annotated[
        Integer, _Seconds(description="Time until an idle connection is closed.")
    ] = 75
    drain_seconds: Annotated[
        Integer,
        Field(
            ge=0,
            le=3600,
            description="Time after SIGTERM in which new requests are still accepted.",
        ),
    ] = 2
    shutdown_seconds: Annotated[
        Integer,
        Field(ge=0, le=3600, description="Time after that for running answers to finish."),
    ] = 30
    api_keys: Annotated[
        SecretStr,
        AfterValidator(_check_keys),
        Field(description="API keys, with commas between; none: open to all."),
    ] = SecretStr("")
    log_requests: Annotated[Boolean, Field(description="Log each request.")] = True
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Field(description="Lowest level that is logged."),
    ] = "info"

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        for larger, smaller, why in _AT_LEAST:
            most, least = getattr(self, larger), getattr(self, smaller)
            if most < least:
                raise ValueError(
                    f"{_variable(larger)}={most} must be at least "
                    f"{_variable(smaller)}={least}: {why}"
                )
        return self

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The API keys, one of which a request must have; none where all requests are accepted."""
        keys = self.api_keys.get_secret_value().split(",")
        return tuple(key.encode() for key in keys if key)


class InvalidSettings(Exception):
    """An environment variable that cannot be used; the message names it."""


def default_settings() -> Settings:
    """Return the default settings, whatever the environment says."""
    return Settings.model_construct()


def load_settings(**overrides: str | int | None) -> Settings:
    """Read the settings; overrides that are not None take precedence over the variables.

    Raises:
        InvalidSettings: naming every invalid variable, its value and the rule, or a variable that
            is almost the name of a setting.
    """
    _refuse_misspelled(os.environ)
    values = {name: value for name, value in overrides.items() if value is not None}
    try:
        return Settings(**values)  # type: ignore[arg-type]
    except ValidationError as error:
        raise InvalidSettings("\n".join(map(_message, error.errors()))) from None


def _variable(name: str) -> str:
    return f"POSREF_{name.upper()}"


def _message(detail: ErrorDetails) -> str:
    rule = detail["msg"].removeprefix("Value error, ")
    if not detail["loc"]:
        return rule
    name = str(detail["loc"][0])
    # A message must not show a secret.
    is_secret = Settings.model_fields[name].annotation is SecretStr
    shown = "" if is_secret else f"={detail['input']!r}"
    return f"{_variable(name)}{shown}: {rule}"


def _refuse_misspelled(variables: Iterable[str]) -> None:
    known = [_variable(name) for name in Settings.model_fields]
    for variable in variables:
        if not variable.startswith("POSREF_") or variable in known:
            continue
        for near in get_close_matches(variable, known, n=1, cutoff=0.85):
            raise InvalidSettings(f"{variable} is no setting; did you mean {near}?")
