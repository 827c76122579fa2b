"""Read whatever describes a model: find its format, and write it as a config of transformers.

``formats.toml`` says by which keys each format is found, and ``translation`` what its keys mean;
``gguf`` reads GGUF. What tables cannot say of a format is here.
"""

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import yaml

from service.encodings.rotary.rules import yarn_mscale
from service.errors import Fault, InvalidBody, InvalidParameters, shortened
from service.models.config_values import (
    MAX_LAYERS,
    RULE_TYPE_ALIASES,
    ReadingReport,
    ResolvedValue,
    asking,
    fault,
    nearest_word,
)
from service.models.gguf import read_head, read_keys
from service.models.knowledge import part_type
from service.models.translation import (
    Members,
    ModelDocument,
    Translation,
    format_tables,
    forms,
    member,
    unknown,
)

_MAX_HEADER_BYTES, _MAX_TEXT_LENGTH = 100_000_000, 32_768
_TWICE = "a name stands twice in one object"


def _sign_in(body: Members, sign: Members) -> str | None:
    """Return the pointer of the key by which a document is of a format, or None."""
    listed = {name: sign.get(name, []) for name in ("all", "any", "objects", "without")}
    there = {
        pointer: isinstance(own, dict)
        for pointers in listed.values()
        for pointer in pointers
        if (own := member(body, pointer)) is not None
    }
    needed = [*listed["all"], *listed["objects"]]
    some = [pointer for pointer in listed["any"] or needed if pointer in there]
    is_found = (
        there.keys() >= {*needed}
        and all(there[pointer] for pointer in listed["objects"])
        and not (listed["without"] and there.keys() >= {*listed["without"]})
        and not (sign.get("known_type") and part_type(str(body.get("model_type"))) is None)
        and not ("values" in sign and member(body, needed[0]) not in sign["values"])
    )
    return some[0] if is_found and some else None


def format_names() -> tuple[str, ...]:
    """Return the names of all formats."""
    return (*_AS_SENT, "gguf-keys", "safetensors", *forms())


def read_document(body: bytes | memoryview, form: str | None = None) -> ModelDocument:
    """Return what a document says about a model.

    Args:
        body: a file, or the beginning of a GGUF or safetensors file.
        form: the name of its format; found in the content if None.

    Raises:
        InvalidBody: with a pointer to each key that is invalid or not understood.
        InvalidParameters: there is no such format.
    """
    if form is not None and form not in format_names():
        near = nearest_word(form, format_names())
        rule = f"must be one of {', '.join(format_names())}{asking(near)}"
        raise InvalidParameters(Fault("format", shortened(form), rule, suggestion=near))
    head = bytes(body[:9])
    if form == "gguf" or (form is None and head[:4] == b"GGUF"):
        return read_head(body)
    length = int.from_bytes(head[:8], "little")
    if form in {None, "safetensors"} and length <= _MAX_HEADER_BYTES and head[8:] == b"{":
        if len(body) < 8 + length:
            raise InvalidBody(f"the header has {length} bytes, and {len(body) - 8} were sent")
        return _safetensors(read_json(bytes(body[8 : 8 + length])), 8 + length)
    content, is_arguments = _parsed(bytes(body))
    if form == "safetensors" or (form is None and _is_header(content)):
        return _safetensors(content, None)
    found_by = "format"
    if form is None:
        found = ((sign["form"], _sign_in(content, sign)) for sign in format_tables()["detect"])
        default = ("megatron", "arguments") if is_arguments else ("transformers", "")
        form, found_by = next(((name, key) for name, key in found if key), default)
        if form == "transformers":
            _check_config(content)
    if form == "gguf-keys":
        return read_keys(content, found_by)
    if form in _AS_SENT:
        return _AS_SENT[form](content, found_by)
    return _translated(form, content, found_by)


def _check_config(content: Members) -> None:
    """Raise InvalidBody if a config has keys of another library or program."""
    if content.get("_class_name") is not None:
        rule = "and model_type are of two libraries: say by format which one is meant"
        raise InvalidBody.at(fault("/_class_name", content["_class_name"], rule))
    own = next((key for key in content if ".rope." in key or ".attention." in key), None)
    if own is not None:
        rule = f"is required beside {shortened(own)}, a key of a GGUF file"
        raise InvalidBody.at(fault("/general.architecture", None, rule))


def _parsed(body: bytes) -> tuple[dict[str, Any], bool]:
    """Return the members of a text, and whether it is a command line."""
    try:
        text = body.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise InvalidBody(
            "the body is no text in UTF-8, and no GGUF or safetensors file"
        ) from error
    is_arguments = False
    if text[:1] in {"{", "["}:
        content = read_json(text)
    elif len(text) > _MAX_TEXT_LENGTH:
        raise InvalidBody(f"YAML and command lines have at most {_MAX_TEXT_LENGTH} characters")
    else:
        is_arguments = re.search(r"(?<!\S)--[a-z]", text) is not None
        content = _arguments(text) if is_arguments else _yaml(text)
    if not isinstance(content, dict):
        rule = "this is no document that describes a model: send the content of its config.json"
        raise InvalidBody(rule, value=shortened(text))
    return content, is_arguments


def read_json(text: str | bytes) -> Any:
    """Return the value of a JSON text as Python writes it, with Infinity and NaN."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            raise InvalidBody(_TWICE)
        return content

    try:
        content = json.loads(text, object_pairs_hook=members)
        # Half of a surrogate pair, as an escape, is no character that an answer can have.
        json.dumps(content, ensure_ascii=False).encode()
    except RecursionError:
        raise InvalidBody("the JSON is nested too deeply") from None
    except UnicodeEncodeError as error:
        raise InvalidBody("the body has an escape that is one half of a surrogate pair") from error
    except ValueError as error:
        reason = f"is not JSON: {shortened(str(error))}"
        if "integer string" in str(error):
            reason = "has an integer of more than 4300 digits"
        raise InvalidBody(f"the body {reason}") from error
    return content


class _YamlReader(yaml.SafeLoader):  # type: ignore[misc]
    """Reads YAML without aliases, which can repeat a part any number of times."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise InvalidBody("aliases in YAML are not read")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002
        names = [key.value for key, _ in node.value]
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:str":
                raise InvalidBody(f"the key {shortened(str(key.value))} is no text")
        if len(set(names)) < len(names):
            raise InvalidBody(_TWICE)
        return super().construct_mapping(node, deep)


# As OmegaConf reads it, 1e6 is a number.
_YamlReader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(?:\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def _yaml(text: str) -> Any:
    try:
        content = yaml.load(text, _YamlReader)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        raise InvalidBody("the body is neither JSON nor YAML that can be read") from error
    return content


def _arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a command line by name; those without a value are true."""
    content: dict[str, list[Any]] = {}
    values: list[Any] = []
    for word in re.findall(r"[^\s=\\]+", text):
        if word.startswith("--"):
            values = content[word[2:].replace("-", "_")] = []
        else:
            values.append(_word(word.strip("'\"")))
    return {name: own[0] if len(own) == 1 else own or True for name, own in content.items()}


def _word(word: str) -> Any:
    try:
        return json.loads(word)
    except (ValueError, RecursionError):
        return word


# What mlx-lm reads in place of the values for short lengths; phimoe alone reads the second pair.
_LONG_ALONE = {"short_factor": "long_factor", "short_mscale": "long_mscale"}


def _mlx(content: Members, found_by: str) -> ModelDocument:
    """Read a config of MLX, with the layout and the rules as its classes have them."""
    content, report, layout = dict(content), ReadingReport(), None
    traditional = content.pop("rope_traditional", None)
    if traditional is not None:
        if content.get("model_type") in format_tables()["mlx"]["traditional"]:
            layout = "interleaved" if traditional else "half"
        else:
            detail = "this class of mlx-lm has a layout of its own, whatever rope_traditional says"
            report.warn("key-not-read", detail, "/rope_traditional")
    name = "rope_scaling" if content.get("rope_scaling") else "rope_parameters"
    own = content.get(name)
    block = dict(own) if isinstance(own, dict) else {}
    sources = _as_mlx_reads(block, f"/{name}", content.get("model_type"), report)
    if block:
        content[name] = block
    warnings = tuple(report.warnings)
    return ModelDocument("mlx", found_by, content, sources, layout=layout, warnings=warnings)


def _as_mlx_reads(
    block: dict[str, Any], at: str, model_type: Any, report: ReadingReport
) -> dict[str, str]:
    """Change the keys of a rule to what mlx-lm reads; return the sources of those replaced."""
    sent, sources = str(block.get("rope_type") or block.get("type")), dict[str, str]()
    rule = RULE_TYPE_ALIASES.get(sent, sent)
    unread = ["attention_factor", "attn_factor"] if rule in ("longrope", "yarn") else []
    if rule == "longrope" and model_type != "phimoe":
        unread += ["short_mscale", "long_mscale"]
    for key in unread:
        if block.pop(key, None) is not None:
            report.warn("key-not-read", f"mlx-lm 0.32.2 does not read {key}", f"{at}/{key}")
    if rule == "longrope" and "long_factor" in block:
        for short, long in _LONG_ALONE.items():
            if long in block:
                block[short], sources[f"{at}/{short}"] = block[long], f"{at}/{long}"
        report.warn("mlx-longrope", "mlx-lm 0.32.2 never uses short_factor", at)
    if rule == "yarn" and block.get("truncate") is False:
        del block["truncate"]
        detail = "mlx-lm 0.32.2 rounds the range of YaRN, which truncate: false forbids"
        report.warn("mlx-yarn", detail, f"{at}/truncate")
    return sources


def _params(content: Members, found_by: str) -> ModelDocument:
    """Read params.json of Meta or Mistral, whose weights turn neighbours."""
    tables, faults = format_tables()["params"], []
    assumed: dict[str, ResolvedValue] = {}
    for name, known in tables["blocks"].items():
        block = content.get(name) if known else {name: content.get(name)}
        faults += unknown(block, f"/{name}" if known else "", known)
    if content.get("rope_theta") is None and any(key in content for key in tables["of_meta"]):
        content = {**content, "rope_theta": 10000.0}
        assumed["/rope_theta"] = ResolvedValue(10000.0, "class default", ("Meta's llama: 10000",))
    elif content.get("rope_theta") is None:
        rule = "is required: releases of mistral-inference take 10000 or 1000000"
        faults.append(fault("/rope_theta", None, rule))
    if faults:
        raise InvalidBody.at(*faults)
    weights = "the rows of q and k are not permuted: neighbours turn here, halves in transformers"
    facts: dict[str, Any] = {"layout": "interleaved", "not_sent": assumed, "weights": weights}
    return ModelDocument("params", found_by, content, **facts)


def _diffusers(content: Members, found_by: str) -> ModelDocument:
    part = part_type(str(content["_class_name"])) if "_class_name" in content else None
    keys = part.defaults if part is not None else {}
    if content.get("rope_scaling") is not None and "rope_scaling" not in keys:
        rule = "is not read by this class of diffusers"
        raise InvalidBody.at(fault("/rope_scaling", content["rope_scaling"], rule))
    return ModelDocument("diffusers", found_by, content)


def _megatron(draft: Translation) -> None:
    parameters = draft.content.get("rope_parameters", {})
    if parameters.get("rope_type") == "yarn":
        draft.facts["scales_softmax"] = True
        _put_concentration(draft, parameters)
    name = "no_rope_freq"
    if draft.rotary and draft.place.get(name):
        draft.split_layers(draft.flags(name, draft.place[name]), name)


def _put_concentration(draft: Translation, parameters: dict[str, Any]) -> None:
    """Replace mscale by the factor that Megatron computes of it where mscale_all_dim is 0."""
    factor: Any = parameters.get("factor")
    mscale: Any = parameters.get("mscale")
    if parameters.get("mscale_all_dim") or not {type(factor), type(mscale)} <= {int, float}:
        return
    del parameters["mscale"]
    parameters.pop("mscale_all_dim", None)
    if mscale != 1:
        value = float(yarn_mscale(Decimal(factor), Decimal(mscale)))
        draft.put("rope_parameters/attention_factor", value, draft.key("mscale"))


def _nemo(draft: Translation) -> None:
    is_core, name = bool(draft.place.get("mcore_gpt")), "rotary_interleaved"
    if draft.place.get(name) and is_core:
        draft.put("rope_interleave", True, draft.key(name))
    elif draft.place.get(name):
        draft.warn("key-not-read", "NeMo turns halves of a head unless mcore_gpt is set", name)
    if "rope_parameters" in draft.content and not is_core:
        detail = (
            "lengths beyond max_position_embeddings · seq_len_interpolation_factor stretch all "
            "positions further, by length / max_position_embeddings: this table is for the others"
        )
        draft.warn("nemo-regimes", detail, "seq_len_interpolation_factor")


def _keras(draft: Translation) -> None:
    if draft.place.get("rope_scaling_type", "su") != "su":
        draft.refuse("rope_scaling_type", "must be su")
    name, window = "rope_layer_enabled_list", "use_sliding_window_attention"
    enabled, layers = draft.place.get(name), draft.content.get("num_hidden_layers")
    if "full_attention" in draft.content.get("rope_parameters", {}):
        full = draft.flags(window, 6 if draft.place.get(window, True) else 1)
        types = ["full_attention" if flag else "sliding_attention" for flag in full]
        draft.put("layer_types", types, draft.key(window))
        if draft.place.get("vision_encoder"):
            draft.facts["not_understood"] = (draft.key("vision_encoder"),)
    elif isinstance(enabled, list):
        # Layers behind the end of the list turn.
        own = [*enabled, *[True] * MAX_LAYERS][: layers if type(layers) is int else 0]
        draft.split_layers([not flag for flag in draft.flags(name, own)], name)


_ODD = {"megatron": _megatron, "nemo": _nemo, "keras": _keras}


def _translated(name: str, body: Members, found_by: str) -> ModelDocument:
    draft = Translation(name, body)
    draft.choose_pieces()
    if name == "megatron" and draft.place.get("multi_latent_attention"):
        draft.choose(draft.form.classes, draft.place.get("rope_type") or "yarn", "/rope_type")
        if not draft.rotary:
            draft.refuse("position_embedding_type", "must be rope with multi_latent_attention")
    draft.read_pieces()
    if name in _ODD:
        _ODD[name](draft)
    return draft.document(found_by)


def _onnx_node(body: Members, found_by: str) -> ModelDocument:
    """Read the attributes of a node: a mapping, or the list that ONNX writes as JSON."""
    name = "attribute" if "attribute" in body else "attributes"
    own: Any = body.get(name, {})
    pointers = {}
    if isinstance(own, list):
        listed = [(i, each) for i, each in enumerate(own) if isinstance(each, dict)]
        pointers = {str(each.get("name")): f"/{name}/{i}" for i, each in listed}
        own = {str(each.get("name")): each.get("i", each.get("f")) for _, each in listed}
    is_rotary = body.get("op_type", body.get("opType")) == "RotaryEmbedding"
    known = format_tables()["onnx"]["rotary" if is_rotary else "attention"]
    if not isinstance(own, dict):
        raise InvalidBody.at(fault(f"/{name}", own, "must be an object, or a list of attributes"))
    own = {key: each for key, each in own.items() if key in known or is_rotary or "rotary" in key}
    numbers = {key: int(each) for key, each in own.items() if re.fullmatch(r"-?\d{1,9}", str(each))}
    faults = unknown(own, f"/{name}", known)
    faults += [
        fault(pointers.get(key, f"/{name}/{key}"), value, "must be an integer")
        for key, value in own.items()
        if key in known and key not in numbers and key != "scale"
    ]
    if faults:
        raise InvalidBody.at(*faults)
    if not is_rotary and not numbers.get("do_rotary"):
        reason = "do_rotary is 0: the node has no rotary embedding"
        return ModelDocument("onnx-node", found_by, body, rotary=False, reason=reason)
    reason = (
        "base and rule are in the inputs cos_cache and sin_cache, of length × half the turned "
        "channels: POST one of them to /identify"
    )
    interleaved = numbers.get("interleaved", numbers.get("rotary_interleaved"))
    layout = "interleaved" if interleaved else "half"
    scale = own.get("scale")
    is_number = type(scale) is float and abs(scale) < 2**63
    values = {**numbers, "scale": scale} if is_number else numbers
    entry = {"kind": "rope", "known": False, "layout": layout, "values": values, "reason": reason}
    facts: dict[str, Any] = {"layout": layout, "encodings": (entry,), "reason": reason}
    return ModelDocument("onnx-node", found_by, body, rotary=False, **facts)


_AS_SENT: Mapping[str, Callable[[Members, str], ModelDocument]] = {
    "transformers": lambda content, found_by: ModelDocument("transformers", found_by, content),
    "mlx": _mlx,
    "diffusers": _diffusers,
    "params": _params,
    "onnx-node": _onnx_node,
}


def _is_header(content: Members) -> bool:
    entries = [own for name, own in content.items() if name != "__metadata__"]
    return bool(entries) and all(member(own, "/data_offsets") is not None for own in entries)


def _safetensors(header: Members, start: int | None) -> ModelDocument:
    """Read the names and shapes of tensors: which tables a checkpoint holds, and where.

    Args:
        header: the tensors by name.
        start: the bytes before the data, or None if only the header was sent.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for name, own in header.items() if isinstance(header, dict) else ():
        shape, offsets = _sizes(member(own, "/shape")), _sizes(member(own, "/data_offsets"))
        tables = format_tables()["tensors"]
        table = next((each for each in tables if re.search(each["name"], name)), None)
        sizes = shape[1:] if shape[:1] == [1] and len(shape) == 3 else shape
        if table is None or not offsets or len(sizes) != len(table["values"]):
            continue
        place = re.sub(r"\.\d+\.", ".*.", name)
        entry = {
            **{key: table[key] for key in ("kind", "reason")},
            "at": place,
            "known": False,
            "shape": shape,
            "data_offsets": offsets,
            "count": 0,
            "values": dict(zip(table["values"], sizes, strict=True)),
            **({"bytes": [start + offset for offset in offsets]} if start else {}),
        }
        if table["kind"] == "rope":
            entry["values"] = {"rotary_dim": 2 * shape[0]}
        found.setdefault((place, str(shape)), entry)["count"] += 1
    reason = "a header has shapes alone: no base, no rule and no layout"
    if not found:
        reason = "no tensor has the name of a table of positions that checkpoints keep"
    found_by = "bytes: length and {" if start else "data_offsets"
    facts: dict[str, Any] = {"encodings": tuple(found.values()), "reason": reason}
    return ModelDocument("safetensors", found_by, {}, rotary=False, **facts)


def _sizes(value: Any) -> list[int]:
    """Return the items of a list of lengths; none if it is no such list."""
    listed: list[Any] = value if isinstance(value, list) and len(value) <= 8 else []
    return listed if all(type(size) is int and 0 <= size < 2**63 for size in listed) else []
