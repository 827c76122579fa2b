"""An implementation that ignores a parameter, and takes its default, fails a case of each file."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from service.conformance.expected import expectation
from service.conformance.files.all_files import FILES
from service.conformance.questions import Question, arrays_of
from service.errors import PosrefError
from service.routes import ENDPOINTS
from tests.conformance.core_cases import core_of

# A table's part, type, form and packing, and its rows: they choose numbers, and change none.
_CHOICES = {
    *("angle", "axis", "batch", "channels", "dtype", "exact", "form", "head", "pack", "part"),
    *("revision", "total_heads"),
    *("axes", "cu_seqlens", "key_len", "key_positions", "key_start", "num_timesteps"),
    *("positions", "positions_p", "query_len", "query_positions", "query_start", "seq_len"),
    *("seqlen_offsets", "start"),
}
# Parameters that follow from others of these cases, and so cannot be ignored alone.
_FOLLOWS = {
    ("rope/partial", "head_dim"): "of a table: rotary_dim is given",
    ("rope/yarn", "head_dim"): "of a table: rotary_dim is given",
    ("rope/rotate", "head_dim"): "the width of x",
    ("relative/shaw", "max_relative_position"): "the number of learned rows",
    ("relative/kerple", "num_heads"): "the number of learned numbers",
}
_OF_RULES = (
    *("alpha", "attention_factor", "beta_fast", "beta_slow", "context_length", "freq_factors"),
    *("high_freq_factor", "inv_freq", "long_factor", "low_freq_factor", "mixed_b", "mscale"),
    *("max_position_embeddings", "mrope_interleaved", "mscale_all_dim", "partial_rotary_factor"),
    *("short_factor", "truncate", "xpos_scale_base"),
)
_OF_AXES = (
    *("axes_dim", "head_dim", "linear_bands", "max_freq", "max_period", "min_period"),
    *("normalize_coords", "positions_h", "positions_t", "positions_w", "reference_grid"),
    "spatial_merge_size",
)
_OF_FEW_AXES = (
    *("class_token", "fps", "grid_indexing", "grid_offset", "grid_start", "grid_step"),
    *("grid_stop", "interpolation_scale", "inv_freq", "ntk_scale"),
)
_OF_FEW_SINUSOIDS = ("concat_pos", "cos_first", "full_turns", "max_freq", "offset", "scale")
_OF_SINUSOIDS = (
    *("flip_sin_to_cos", "layout", "max_resolution", "max_timescale", "min_freq", "min_timescale"),
    "sine_only",
)
# Parameters that no case has, by resource.
_UNUSED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "the tables of /rope and /rope/axial have cases with it": {
        "/rope/apply": _OF_RULES,
        "/rope/axial/apply": _OF_AXES,
    },
    "/encoding has cases with it": {
        "/encoding/apply": ("convention", "padding_idx", *_OF_SINUSOIDS),
        "/encoding/tokens": _OF_SINUSOIDS,
    },
    "another resource of the file has cases with it": {
        "/relative/alibi/slopes": ("convention",),
        "/relative/alibi/bias": ("alibi_bias_max", "convention"),
        "/relative/swin/bias": ("class_token",),
        "/relative/kerple": ("clamp",),
    },
    "it follows from the array that is sent, or says of it what another parameter says": {
        "/encoding/mask": ("mask",),
        "/relative/t5/bias": ("num_buckets",),
        "/resize/apply": ("old_size", "scale_factor"),
        "/resize": ("scale_factor",),
        "/rope": ("grid", "mrope_layout"),
    },
    "hidden numbers are minus infinity, which no case has": {
        "/relative/alibi": ("masked",),
        "/relative/alibi/bias": ("masked",),
    },
    "of a convention of few models, or of a part of one, that the suite leaves out": {
        "/rope/apply": ("grid", "mrope_layout"),
        "/rope/axial": _OF_FEW_AXES,
        "/rope/axial/apply": (*_OF_FEW_AXES, "rotary_offset"),
        "/encoding": (*_OF_FEW_SINUSOIDS, "sine_only"),
        "/encoding/apply": _OF_FEW_SINUSOIDS,
        "/encoding/tokens": _OF_FEW_SINUSOIDS,
        "/encoding/grid": ("concat_pos", "sine_only"),
        "/resize": ("a", "align_corners", "convention", "padding", "spatial_merge_size"),
        "/resize/apply": ("a", "max_length", "num_extra_tokens", "padding", "spatial_merge_size"),
    },
}


@cache
def questions_of(name: str) -> tuple[tuple[str, Question], ...]:
    (file,) = (each for each in FILES if each.name == name)
    return tuple((case.id, case.question) for case in core_of([file]))


def passes(question: Question, ignored: Question) -> bool | None:
    """Return whether the numbers of one question pass as another's; None if there are none."""
    right = expectation(question)
    try:
        found = arrays_of(ignored.request)
    except PosrefError:
        return None
    if question.kind == "positions":
        found = {"position_ids": found["position_ids"]}
    wrong = dict(zip(right.arrays, found.values(), strict=False))
    if len(wrong) < len(right.arrays) or any(each.shape != right.shape for each in wrong.values()):
        return False
    return bool(right.distances(wrong).max(initial=0) <= 1)


def names_of(name: str) -> Iterator[tuple[str, str]]:
    """Yield each parameter of the cases of a file, after its resource."""
    yield from dict.fromkeys(
        (question.resource, key)
        for _, question in questions_of(name)
        if question.kind != "model"
        for key in question.parameters
        if key not in _CHOICES
    )


@pytest.mark.parametrize("name", [file.name for file in FILES])
def test_a_parameter_that_is_ignored_fails_a_case_of_its_file(name: str) -> None:
    for resource, key in names_of(name):
        if (name, key) in _FOLLOWS:
            continue
        passed = [
            passes(question, question.changed(key))
            for _, question in questions_of(name)
            if question.resource == resource and key in question.parameters
        ]
        # Without a default, it cannot be ignored.
        assert False in passed or set(passed) == {None}, f"{resource}: {key}"


@pytest.mark.parametrize("key", ["rotary_pct", "rotary_emb_base", "rope_local_base_freq"])
def test_a_key_of_a_config_that_is_ignored_fails_a_case(key: str) -> None:
    passed = []
    for _, question in questions_of("rope/config"):
        config: dict[str, Any] = dict(question.parameters["config"])
        if config.pop(key, None) is not None:
            passed.append(passes(question, question.changed(config=config)))
    assert False in passed


def unused(resource: str) -> set[str]:
    """Return the parameters that no case of a resource has, if it has any."""
    asked = [
        question
        for file in FILES
        for _, question in questions_of(file.name)
        if question.resource == resource
    ]
    if not asked:
        return set()
    given = {key for question in asked for key in question.parameters}
    fields = ENDPOINTS[resource].parameters.model_fields
    return {key for key in fields if not fields[key].is_required()} - given - _CHOICES


@pytest.mark.parametrize(
    "resource", [each for each in ENDPOINTS if each not in {"/positions", "/rope/config"}]
)
def test_every_optional_parameter_is_used_but_for_those_listed(resource: str) -> None:
    """Each of /positions is of one convention, of which the suite has few."""
    listed = [by_resource.get(resource, ()) for by_resource in _UNUSED.values()]
    assert unused(resource) == {key for keys in listed for key in keys}
