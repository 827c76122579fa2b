"""Settings from POSREF_* variables, with their bounds, units and meaning."""

import os
import re
from collections.abc import Iterable
from difflib import get_close_matches
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from service.errors import InvalidSettings
from service.grammar import Boolean, Integer
from service.memory import smallest_limit

MIB = 1024 * 1024

Networks: TypeAlias = tuple[IPv4Network | IPv6Network, ...]

# The least memory of a process.
_LEAST_MEMORY_BYTES = 224 * MIB

# The memory of the supervisor of several processes.
_SUPERVISOR_BYTES = 64 * MIB

# Memory within which all other defaults hold.
_AMPLE_MEMORY_BYTES = 4096 * MIB

# Bounds of settings that are times.
_SECONDS = {"ge": 1, "le": 3600}
# Limits of which the first must be at least the second.
_AT_LEAST = (
    ("max_head_bytes", "max_url_bytes", "the URL is a part of the head"),
    ("max_held_body_bytes", "max_body_bytes", "one body alone would take more"),
    ("max_held_body_bytes", "max_json_body_bytes", "one body alone would take more"),
)
_API_KEY = re.compile(r"[A-Za-z0-9._~+/-]{16,256}=*", re.ASCII)


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


def _networks(text: str) -> Networks:
    """Return the networks in a text, with commas between; an address is a network of its own."""
    return tuple(map(ip_network, text.split(","))) if text else ()


def _check_proxies(text: str) -> str:
    try:
        _networks(text)
    except ValueError as error:
        raise ValueError(
            "must be addresses and networks, such as 192.0.2.1 and 10.0.0.0/8, with commas "
            f"between: {error}"
        ) from None
    return text


def _setting(default: Any, description: str, **bounds: int) -> Any:
    return Field(default=default, description=description, **bounds)  # type: ignore[call-overload]


class Settings(BaseSettings):
    """All settings; each field NAME is read from the variable POSREF_NAME."""

    model_config = SettingsConfigDict(env_prefix="POSREF_", frozen=True, extra="ignore")

    host: str = _setting("127.0.0.1", "Address to listen on.")
    port: Integer = _setting(8000, "Port to listen on; 0 picks one.", ge=0, le=65535)
    workers: Integer = _setting(1, "Worker processes.", ge=1, le=256)
    threads: Integer = Field(
        # The event loop takes one of the cores.
        default_factory=lambda: max(1, (os.cpu_count() or 1) - 1),
        description="Threads for long computations, in each process.",
        ge=1,
        le=256,
    )
    memory_bytes: Integer = Field(
        default_factory=lambda: smallest_limit().usable_bytes,
        description="Memory for all processes together.",
        ge=_LEAST_MEMORY_BYTES,
    )
    cache_bytes: Integer = _setting(
        256 * MIB, "Size of the cache of finished answers, in each process.", ge=0
    )
    cache_entry_bytes: Integer = _setting(
        16 * MIB, "Largest body that is built whole and cached.", ge=0
    )
    max_body_bytes: Integer = _setting(65 * MIB, "Largest binary request body.", ge=1)
    max_json_body_bytes: Integer = _setting(4 * MIB, "Largest JSON request body.", ge=1)
    max_text_bytes: Integer = _setting(
        128 * MIB, "Largest JSON or CSV answer, estimated before it is computed.", ge=1
    )
    max_digest_bytes: Integer = _setting(4096 * MIB, "Largest file whose digest is computed.", ge=1)
    max_response_bytes: Integer = _setting(
        2**40, "Most bytes in one binary answer.", ge=1, le=2**63 - 1
    )
    max_url_bytes: Integer = _setting(65_535, "Longest request URL.", ge=256, le=65_535)
    max_head_bytes: Integer = _setting(
        131_072, "Longest request head: request line and headers.", ge=1024, le=MIB
    )
    max_held_body_bytes: Integer = _setting(
        512 * MIB, "Memory for all request bodies together, in each process.", ge=1
    )
    max_connections: Integer = _setting(
        4096, "Most connections at a time, in each process.", ge=1, le=1_000_000
    )
    wait_seconds: Integer = _setting(
        15, "Longest wait of a request for a thread or a child process.", **_SECONDS
    )
    max_request_seconds: Integer = _setting(
        60, "Most processor seconds of a request that cannot be answered in turns.", **_SECONDS
    )
    header_seconds: Integer = _setting(10, "Time limit for receiving a request head.", **_SECONDS)
    body_seconds: Integer = _setting(120, "Time limit for receiving a request body.", **_SECONDS)
    stall_seconds: Integer = _setting(
        60, "Time limit for a client that reads nothing of its answer.", **_SECONDS
    )
    keep_alive_seconds: Integer = _setting(
        75, "Time until an idle connection is closed.", **_SECONDS
    )
    drain_seconds: Integer = _setting(
        2, "Time after SIGTERM in which new requests are still accepted.", ge=0, le=3600
    )
    shutdown_seconds: Integer = _setting(
        30, "Time after that for running answers to finish.", ge=0, le=3600
    )
    api_keys: Annotated[SecretStr, AfterValidator(_check_keys)] = _setting(
        SecretStr(""), "API keys, with commas between; none: open to all."
    )
    fast_path: Boolean = _setting(
        default=True, description="Answer from the cache without the application where possible."
    )
    trusted_proxies: Annotated[str, AfterValidator(_check_proxies)] = _setting(
        "", "Proxies whose X-Forwarded-For names the client."
    )
    log_requests: Boolean = _setting(default=True, description="Log each request.")
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        "info", "Lowest level that is logged."
    )

    @model_validator(mode="after")
    def _check_memory(self) -> Self:
        if self.process_bytes < _LEAST_MEMORY_BYTES:
            least_bytes = self.workers * _LEAST_MEMORY_BYTES + self._supervisor_bytes
            rule = (
                f"must be at least {least_bytes} for POSREF_WORKERS={self.workers}: each process "
                f"takes {_LEAST_MEMORY_BYTES}"
            )
            if "memory_bytes" not in self.model_fields_set:
                rule += f"; it is not set, and is four fifths of {smallest_limit().source}"
            raise ValueError(f"POSREF_MEMORY_BYTES={self.memory_bytes} {rule}")
        return self

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        for larger, smaller, reason in _AT_LEAST:
            limit, least = getattr(self, larger), getattr(self, smaller)
            if limit < least:
                raise ValueError(
                    f"{_variable(larger)}={limit} must be at least "
                    f"{_variable(smaller)}={least}: {reason}"
                )
        return self

    @property
    def process_bytes(self) -> int:
        """The memory of each of the processes that serve."""
        return (self.memory_bytes - self._supervisor_bytes) // self.workers

    @property
    def _supervisor_bytes(self) -> int:
        return _SUPERVISOR_BYTES if self.workers > 1 else 0

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The API keys; a request must have one of them, unless there are none."""
        keys = self.api_keys.get_secret_value().split(",")
        return tuple(key.encode() for key in keys if key)

    @property
    def trusted_networks(self) -> Networks:
        """The networks of the proxies whose X-Forwarded-For is believed."""
        return _networks(self.trusted_proxies)


def default_settings() -> Settings:
    """Return the default settings with ample memory; neither environment nor limits are read."""
    return Settings.model_construct(memory_bytes=_AMPLE_MEMORY_BYTES)


def load_settings(**overrides: str | int | None) -> Settings:
    """Read the settings; overrides that are not None take precedence over the variables.

    Raises:
        InvalidSettings: names every invalid variable, its value and the rule, or a variable that
            is probably misspelled.
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
    shown = "" if is_secret else f"={str(detail['input'])!r}"
    return f"{_variable(name)}{shown}: {rule}"


def _refuse_misspelled(variables: Iterable[str]) -> None:
    known = [_variable(name) for name in Settings.model_fields]
    for variable in variables:
        if not variable.startswith("POSREF_") or variable in known:
            continue
        for near in get_close_matches(variable, known, n=1, cutoff=0.85):
            raise InvalidSettings(f"{variable} is no setting; did you mean {near}?")
