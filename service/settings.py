"""Settings from POSREF_* variables, with their bounds, units and meaning."""

import os
from collections.abc import Iterable
from difflib import get_close_matches
from functools import partial
from typing import Annotated

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from service.grammar import Integer

MIB = 1024 * 1024
_Count = partial(Field, ge=1)


def _cores_but_one() -> int:
    """Leave a core to the event loop, so that answers are sent while others are made."""
    return max(1, (os.cpu_count() or 1) - 1)


class Settings(BaseSettings):
    """Everything that can be set; each field NAME by the variable POSREF_NAME."""

    model_config = SettingsConfigDict(env_prefix="POSREF_", frozen=True, extra="ignore")

    host: Annotated[str, Field(description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[
        Integer, Field(ge=0, le=65535, description="Port to listen on; 0 picks one.")
    ] = 8000
    workers: Annotated[Integer, _Count(le=256, description="Processes that serve.")] = 1
    threads: Annotated[
        Integer,
        _Count(le=256, description="Threads for long work, in each process."),
    ] = Field(default_factory=_cores_but_one)
    cache_bytes: Annotated[
        Integer, Field(ge=0, description="Bytes of finished answers kept, in each process.")
    ] = 256 * MIB
    cache_entry_bytes: Annotated[
        Integer,
        Field(ge=0, description="A body up to this many bytes is built whole and kept."),
    ] = 16 * MIB
    max_body_bytes: Annotated[Integer, _Count(description="Longest binary request body.")] = (
        64 * MIB
    )
    max_json_body_bytes: Annotated[Integer, _Count(description="Longest JSON request body.")] = (
        4 * MIB
    )
    max_text_bytes: Annotated[
        Integer,
        _Count(description="Longest JSON or CSV answer, by an estimate made before any work."),
    ] = 128 * MIB
    max_digest_bytes: Annotated[
        Integer, _Count(description="Longest file that the digest is made of.")
    ] = 4096 * MIB
    max_response_bytes: Annotated[
        Integer, _Count(le=2**63 - 1, description="Most bytes that one binary answer sends.")
    ] = 2**40
    shutdown_seconds: Annotated[
        Integer, Field(ge=0, le=3600, description="How long running answers may take to end.")
    ] = 30
    keep_alive_seconds: Annotated[
        Integer, _Count(le=3600, description="How long an idle connection is kept.")
    ] = 75


class InvalidSettings(Exception):
    """A variable that cannot be used; the message names it."""


def default_settings() -> Settings:
    """Make the settings that hold where nothing is set, whatever the environment says."""
    return Settings.model_construct()


def load_settings(**overrides: str | int | None) -> Settings:
    """Read the settings; overrides that are not None come before the variables.

    Raises:
        InvalidSettings: naming every variable that is wrong, its value and the rule, or one that
            is spelled almost like a setting.
    """
    _refuse_misspelled(os.environ)
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        return Settings(**given)  # type: ignore[arg-type]
    except ValidationError as error:
        lines = [
            f"POSREF_{str(detail['loc'][0]).upper()}={detail['input']!r}: {detail['msg']}"
            for detail in error.errors()
        ]
        raise InvalidSettings("\n".join(lines)) from None


def _refuse_misspelled(variables: Iterable[str]) -> None:
    known = [f"POSREF_{name.upper()}" for name in Settings.model_fields]
    for variable in variables:
        if not variable.startswith("POSREF_") or variable in known:
            continue
        for near in get_close_matches(variable, known, n=1, cutoff=0.85):
            raise InvalidSettings(f"{variable} is no setting; did you mean {near}?")
