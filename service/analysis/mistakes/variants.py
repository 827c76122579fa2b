"""Tables that one gets instead where a setting is not read, is another one, or goes elsewhere."""

from collections.abc import Iterator

from service.analysis.call import Call
from service.analysis.mistakes.catalogue import Mistake
from service.tables.document import ParameterValue

Variant = tuple[Mistake, Call]

_BASES = (10000.0, 500000.0, 1000000.0)

# What a rule of frequencies takes, beside its name.
_RULE_KEYS = (
    "factor",
    "alpha",
    "mixed_b",
    "beta_fast",
    "beta_slow",
    "truncate",
    "mscale",
    "mscale_all_dim",
    "attention_factor",
    "short_factor",
    "long_factor",
    "low_freq_factor",
    "high_freq_factor",
    "freq_factors",
    "original_max_position_embeddings",
    "context_length",
)

# What a table has to have, or what a mistake of its own is named after.
_NEEDED = (
    *("d_model", "head_dim", "seq_len", "start", "positions", "dtype", "pack", "part", "batch"),
    *("rope_theta", "base", "rope_type", "inv_freq", "factor", "grid", "num_heads", "layout"),
    *("attention_factor", "mscale", "mscale_all_dim", "max_position_embeddings", "convention"),
    *("original_max_position_embeddings", "short_factor", "long_factor", "revision", "scale"),
    *("depth", "height", "width"),
    *("partial_rotary_factor", "rotary_dim", "offset", "context_length"),
)


def variants(call: Call) -> Iterator[Variant]:
    """Give the tables that a mistake of settings makes of one; some of them there may not be."""
    if call.resource.startswith("rope"):
        yield from _rules(call)
        yield from _widths(call)
    yield from _exchanged(call)
    for key in call.parameters:
        if key not in _NEEDED and not key.startswith("positions_"):
            said = {"keys": key, "rule": str(call.parameters.get("rope_type", call.resource))}
            yield Mistake("config-key-ignored", said), _without(call, key)


def _rules(call: Call) -> Iterator[Variant]:
    rule = str(call.parameters.get("rope_type", "default"))
    keys = [key for key in _RULE_KEYS if key in call.parameters]
    if rule == "longrope":
        yield from _lengths(call)
    if rule != "default":
        said = {"keys": ", ".join(["rope_type", *keys]), "rule": rule}
        yield Mistake("config-key-ignored", said), _without(call, "rope_type", *keys)
        if rule != "linear" and "factor" in keys:
            plain = _without(call, *keys).having(
                rope_type="linear", factor=call.parameters["factor"]
            )
            yield Mistake("wrong-rule", {"have": "linear", "want": rule}), plain
        wanted = float(str(call.parameters.get("rope_theta", 10000)))
        for base in _BASES:
            if base != wanted:
                values = {"have": base, "want": wanted}
                yield Mistake("wrong-base", values), call.having(rope_theta=base)


def _lengths(call: Call) -> Iterator[Variant]:
    """Run a model at a length that has the other list of factors."""
    original = call.parameters.get("original_max_position_embeddings")
    if original is None:
        return
    length, trained = int(str(call.parameters.get("context_length", original))), int(str(original))
    short, long = {"have": "short_factor", "want": "long_factor"}, trained + 1
    if length > trained:
        yield Mistake("short-for-long-factors", short), call.having(context_length=trained)
    else:
        other = {"have": "long_factor", "want": "short_factor"}
        yield Mistake("short-for-long-factors", other), call.having(context_length=long)


def _widths(call: Call) -> Iterator[Variant]:
    given = [key for key in ("partial_rotary_factor", "rotary_dim") if key in call.parameters]
    head_dim = call.parameters.get("head_dim")
    if not given or head_dim is None:
        return
    share = float(str(call.parameters.get("partial_rotary_factor", 1)))
    turning = int(str(call.parameters.get("rotary_dim", int(share * int(str(head_dim))))))
    values = {"have": int(str(head_dim)), "want": turning}
    yield Mistake("partial-width", values), _without(call, *given)


def _exchanged(call: Call) -> Iterator[Variant]:
    """Exchange height and width."""
    swapped = Mistake("axes-swapped", {"first": "h", "second": "w"})
    grid = call.parameters.get("grid")
    if grid is not None:
        sides = str(grid).split(",") if isinstance(grid, str) else list(map(str, _listed(grid)))
        if len(sides) > 1 and sides[-1] != sides[-2]:
            yield swapped, call.having(grid=",".join([*sides[:-2], sides[-1], sides[-2]]))
    for first, second in (("positions_h", "positions_w"), ("height", "width")):
        if {first, second} <= set(call.parameters):
            height, width = (call.parameters[name] for name in (first, second))
            if height != width:
                yield swapped, call.having(**{first: width, second: height})


def _listed(value: ParameterValue) -> tuple[float, ...]:
    return value if isinstance(value, tuple) else ()


def _without(call: Call, *keys: str) -> Call:
    kept = {name: value for name, value in call.parameters.items() if name not in keys}
    return Call(call.resource, kept)
