"""Read the head of a GGUF file, cut anywhere, or its keys as JSON.

Lengths are compared with what was sent before anything is made of them; strings of a vocabulary are
passed over. What the keys mean is llama.cpp's reading of them: ``formats.toml`` has the
architectures, and the names that are translated one by one.

Source: the GGUF specification, versions 2 and 3; llama.cpp of autumn 2026, src/llama-model.cpp,
src/llama-context.cpp and src/models; the constants of gguf 0.19.0.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from struct import Struct
from struct import error as StructError  # noqa: N812 - a class
from typing import Any

from service.encodings.rotary.rules import yarn_mscale
from service.errors import InvalidBody, shortened
from service.models.config_values import MAX_LAYERS, did_you_mean
from service.models.translation import (
    FormatWarning,
    Members,
    ModelDocument,
    Translation,
    fault,
    format_tables,
    member,
)

_STRING, _ARRAY = 8, 9
_CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_MAX_KEYS, _MAX_TENSORS, _MAX_STRINGS, _MAX_NAME = 65_536, 200_000, 4_000_000, 65_535
_KEPT_ITEMS, _KEPT_TEXT, _MAX_LENGTH = 4096, 4096, 2**40
_DIVISORS = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")
_F32 = 0


class _Cut(Exception):
    """The file ends here."""


class Head:
    """The head of a file while it is read.

    Attributes:
        keys: the values of keys; long texts and arrays are None.
        tensors: by name, those that hold positions: shape, type, offset.
    """

    def __init__(self, body: bytes | memoryview) -> None:
        self.body, self.at = memoryview(body), 4
        self.keys: dict[str, Any] = {}
        self.tensors: dict[str, tuple[list[int], int, int]] = {}
        self.cut_at: str | None = None
        self.strings = 0
        if bytes(self.body[:4]) != b"GGUF":
            raise InvalidBody("a GGUF file begins with GGUF")
        self.order = "<" if len(body) < 8 or bytes(body[4:6]) != b"\0\0" else ">"
        self.counts = [0, 0]
        self.seen = 0
        try:
            (version,) = self._numbers("I")
            if version not in {2, 3}:
                raise InvalidBody(f"GGUF version {version} is not read: 2 and 3 are")
            self.counts = list(self._numbers("QQ"))
            self._read_keys()
            self._read_tensors()
        except _Cut:
            self.cut_at = self.cut_at or "the first key"

    def _numbers(self, codes: str) -> tuple[Any, ...]:
        form = Struct(self.order + codes)
        try:
            values = form.unpack_from(self.body, self.at)
        except StructError:
            raise _Cut from None
        self.at += form.size
        return values

    def _skip(self, length: int, what: str) -> int:
        """Pass over bytes and return where they begin."""
        if length > _MAX_LENGTH:
            raise InvalidBody(f"{shortened(what)} has {length} bytes: a file has fewer")
        start = self.at
        if start + length > len(self.body):
            raise _Cut
        self.at += length
        return start

    def _text(self, what: str, most: int) -> str:
        (length,) = self._numbers("Q")
        if length > most:
            raise InvalidBody(f"{what} has {length} bytes: at most {most}")
        start = self._skip(length, what)
        return bytes(self.body[start : start + length]).decode("utf-8", "replace")

    def _read_keys(self) -> None:
        count = self.counts[1]
        if count > _MAX_KEYS:
            raise InvalidBody(f"the file has {count} keys: at most {_MAX_KEYS} are read")
        for index in range(count):
            self.cut_at = f"key {index}"
            name = self._text("the name of a key", _MAX_NAME)
            self.cut_at = name
            if name in self.keys:
                raise InvalidBody.at(fault(f"/{name}", None, "stands twice in the file"))
            (kind,) = self._numbers("I")
            self.keys[name] = self._array(name) if kind == _ARRAY else self._value(name, kind)
        self.cut_at = None

    def _value(self, name: str, kind: int) -> Any:
        if kind == _STRING:
            (length,) = self._numbers("Q")
            start = self._skip(length, name)
            return bytes(self.body[start : start + min(length, _KEPT_TEXT)]).decode(
                "utf-8", "replace"
            )
        return self._numbers(self._code(name, kind))[0]

    def _code(self, name: str, kind: int) -> str:
        if kind not in _CODES:
            rule = f"has type {kind}, which is not read"
            raise InvalidBody.at(fault(f"/{shortened(name)}", None, rule))
        return _CODES[kind]

    def _array(self, name: str) -> Any:
        kind, count = self._numbers("IQ")
        if kind == _STRING:
            self._skip_strings(count)
            return None
        form = Struct(f"{self.order}{self._code(name, kind)}")
        start = self._skip(count * form.size, name)
        if count > _KEPT_ITEMS:
            return None
        return [value for (value,) in form.iter_unpack(self.body[start : self.at])]

    def _skip_strings(self, count: int) -> None:
        """Pass over the strings of an array without making objects of them."""
        self.strings += count
        if self.strings > _MAX_STRINGS:
            raise InvalidBody(f"the file has more than {_MAX_STRINGS} texts in its keys")
        read, body, at = Struct(f"{self.order}Q").unpack_from, self.body, self.at
        try:
            for _ in range(count):
                at += 8 + read(body, at)[0]
        except (StructError, OverflowError):
            raise _Cut from None
        if at > len(body):
            raise _Cut
        self.at = at

    def _read_tensors(self) -> None:
        count = self.counts[0]
        if count > _MAX_TENSORS:
            raise InvalidBody(f"the file has {count} tensors: at most {_MAX_TENSORS} are read")
        for index in range(count):
            self.cut_at = f"tensor {index}"
            name = self._text("the name of a tensor", 1024)
            (axes,) = self._numbers("I")
            if axes > 8:
                raise InvalidBody(f"tensor {shortened(name)} has {axes} axes")
            *shape, kind, offset = self._numbers(f"{axes}QIQ")
            if name in _DIVISORS:
                self.tensors[name] = shape, kind, offset
            self.seen = index + 1
        self.cut_at = None

    def divisors(self) -> dict[str, list[float] | None]:
        """Return the values of the tensors that divide frequencies; None if they were not sent."""
        step = self.keys.get("general.alignment")
        step = step if type(step) is int and 0 < step <= 2**20 else 32
        data = -(-self.at // step) * step
        found: dict[str, list[float] | None] = {}
        for name, (shape, kind, offset) in self.tensors.items():
            values, size = self.body[data + offset :], 4 * shape[0] if len(shape) == 1 else 0
            is_sent = kind == _F32 and 0 < size <= len(values) and shape[0] <= _KEPT_ITEMS
            form = Struct(f"{self.order}f")
            found[name] = (
                [value for (value,) in form.iter_unpack(values[:size])] if is_sent else None
            )
        return found


def read_head(body: bytes | memoryview) -> ModelDocument:
    """Return what the head of a GGUF file says about its model.

    Raises:
        InvalidBody: the head is malformed, cut before the keys of the model, or not understood.
    """
    head = Head(body)
    cut_at = head.cut_at
    names = (*head.keys, cut_at or "")
    # Writers put the vocabulary behind the keys of the model.
    has_all = len(head.keys) == head.counts[1] or any(name[:10] == "tokenizer." for name in names)
    if "general.architecture" not in head.keys or not has_all:
        what = "the keys of the model may continue there"
        raise InvalidBody(f"the file ends at {cut_at}, and {what}: send more of it")
    read = {
        "byte_order": "little" if head.order == "<" else "big",
        "keys": len(head.keys),
        "keys_in_file": head.counts[1],
        "tensors": head.seen,
        "tensors_in_file": head.counts[0],
        "truncated_at": cut_at,
    }
    model = _Model("gguf", head.keys, lambda key: f"/{key}")
    if cut_at is not None:
        detail = f"{len(head.keys)} of {head.counts[1]} keys were read: the file ends at {cut_at}"
        model.warnings.append(FormatWarning("file-cut", detail, ""))
    return model.read_model(head.divisors() if cut_at is None else None, "bytes GGUF", read)


def read_keys(body: Members, found_by: str) -> ModelDocument:
    """Return what the keys of a GGUF file say, as an object or as gguf-dump --json writes them."""
    metadata, tensors = body.get("metadata"), body.get("tensors")
    if "general.architecture" in body or not isinstance(metadata, dict):
        model = _Model("gguf-keys", body, lambda key: f"/{key}")
    else:
        keys = {key: member(own, "/value") for key, own in metadata.items()}
        model = _Model("gguf-keys", keys, lambda key: f"/metadata/{key}/value")
    known = None
    if isinstance(tensors, dict) and tensors:
        known = {name: None for name in _DIVISORS if name in tensors}
    return model.read_model(known, found_by, None)


def _is_in(arch: str, table: str) -> bool:
    return arch in str(format_tables()["gguf"].get(table, "")).split()


class _Model(Translation):
    """The keys of a GGUF file, as llama.cpp reads them."""

    def __init__(self, name: str, keys: Members, pointer: Callable[[str], str]) -> None:
        super().__init__("gguf", {})
        self.name = name
        arch = keys.get("general.architecture")
        self.arch = arch if isinstance(arch, str) else ""
        prefix = f"{self.arch}."
        own = {key: value for key, value in keys.items() if key.startswith(prefix)}
        self.place = {key.removeprefix(prefix): value for key, value in own.items()}
        self.pointers = {key.removeprefix(prefix): pointer(key) for key in own}
        self.prefix, self.pointer_of, self.keys = prefix, pointer, keys
        self.divisors: Mapping[str, list[float] | None] | None = None

    def key(self, name: str) -> str:
        return self.pointer_of(self.prefix + name)

    def number(self, name: str, default: float) -> float:
        """Return the number at a key; a fault if it is none."""
        value = self.place.get(name)
        if value is None:
            return default
        if type(value) not in {int, float} or not abs(value) < 2**63:
            self.refuse(name, "must be a number")
            return default
        return float(value)

    def read_model(
        self,
        divisors: Mapping[str, list[float] | None] | None,
        found_by: str,
        read: Members | None,
    ) -> ModelDocument:
        """Return the document.

        Args:
            divisors: the tensors that divide the frequencies, or None if they were not seen.
            found_by: how the format was found.
            read: how much of a file was read.
        """
        self.divisors = divisors
        layout, facts = self._layout(), dict[str, Any]()
        if layout == "tower":
            self._read_tower()
        elif layout is None:
            self._read_without_rotary()
        else:
            self.pieces.insert(1, self.form.rotary)
            self.read_pieces()
            self._read_width()
            self._read_rule()
            self._read_sections(layout)
            self._read_layers()
            self._divide()
            facts["layout"] = "interleaved" if layout == "norm" else "half"
            self.content["rope_interleave"] = layout == "norm"
            if _is_in(self.arch, "permuted"):
                facts["weights"] = (
                    "the rows of q and k are permuted: neighbours turn here, halves in transformers"
                )
        if self.reason is not None:
            facts["rotary"] = False
        return self.document(found_by, read=read, **facts)

    def _layout(self) -> str | None:
        """Return how pairs are turned; None if nothing is turned, ``tower`` for a projector."""
        table, arch = format_tables()["gguf"], self.arch
        if arch == "clip":
            return "tower"
        sections = self.place.get("rope.dimension_sections")
        if _is_in(arch, "by_sections") and isinstance(sections, list) and any(sections):
            return "mrope"
        if arch == "baichuan" and self.place.get("block_count") == 40:
            self.place["attention.max_alibi_bias"] = 8.0
            return None
        if _is_in(arch, "optional") and self.place.get("rope.scaling.finetuned") is False:
            return None
        found = (name for name in ("norm", "neox", "mrope", "imrope") if _is_in(arch, name))
        layout = next(found, None)
        others = ("learned", "alibi", "buckets", "none")
        if layout is None and not any(_is_in(arch, name) for name in others):
            known = [
                name for names in table.values() if isinstance(names, str) for name in names.split()
            ]
            rule = f"is not known{did_you_mean(arch, known)}"
            pointer = self.pointer_of("general.architecture")
            raise InvalidBody.at(fault(pointer, self.keys.get("general.architecture"), rule))
        return layout

    def _read_tower(self) -> None:
        vision = "clip.vision."
        values = {
            key.removeprefix(vision): value
            for key, value in self.keys.items()
            if key.startswith(vision) and isinstance(value, int | str) and "rope" not in key
        }
        self.reason = "the projector's type decides: mmproj files have no base and no rule"
        self.encodings.append(
            {"kind": "tower", "known": False, "values": values, "reason": self.reason}
        )

    def _read_without_rotary(self) -> None:
        self.read_pieces()
        bias = self.number("attention.max_alibi_bias", 8.0 if _is_in(self.arch, "alibi") else 0.0)
        self.reason = f"llama.cpp turns nothing in {self.arch}"
        if bias > 0:
            query = {"num_heads": "/num_attention_heads", "alibi_bias_max": bias}
            self.encodings.append(
                {"kind": "alibi", "url": "/relative/alibi/slopes", "query": query}
            )
        if _is_in(self.arch, "learned"):
            shape = ["/max_position_embeddings", "/hidden_size"]
            self.encodings.append({"kind": "learned", "at": "position_embd", "shape": shape})
        if _is_in(self.arch, "buckets"):
            count = self.number("attention.relative_buckets_count", 32)
            reason = (
                f"{count:.0f} buckets for distances up to 128, told apart by side in the encoder"
            )
            self.encodings.append({"kind": "buckets", "not_served": reason})

    def _read_width(self) -> None:
        heads = self.content.get("num_attention_heads")
        if isinstance(heads, list):
            del self.content["num_attention_heads"]
        width = self.content.get("head_dim")
        hidden = self.content.get("hidden_size")
        if width is None and type(heads) is int and type(hidden) is int and heads > 0:
            width = hidden // heads
            self.assume("head_dim", width, "llama.cpp: embedding_length / attention.head_count")
        if width is None:
            self.refuse(
                "attention.key_length", "is required, or embedding_length with one head_count"
            )
        if "rotary_dim" not in self.content:
            self.assume("rotary_dim", width, "llama.cpp: the width of a head")
        elif _is_in(self.arch, "cut"):
            self.put("head_dim", self.content["rotary_dim"], self.key("rope.dimension_count"))

    def _read_rule(self) -> None:
        """Read the frequency rule: linear by default; a factor of 0 or none is 1."""
        kind = self.place.get("rope.scaling.type", "linear")
        name = "rope.scaling.factor"
        if self.place.get(name) is None and self.place.get("rope.scale_linear") is not None:
            name = "rope.scale_linear"
        factor = self.number(name, 0.0) or 1.0
        if str(kind) not in {"none", "linear", "yarn", "longrope"}:
            self.refuse("rope.scaling.type", "must be none, linear, yarn or longrope")
        if kind == "yarn":
            self._read_yarn(factor, name)
        elif kind == "linear" and factor != 1:
            self.assume("rope_parameters/rope_type", "linear", "llama.cpp: linear unless said")
            self.put("rope_parameters/factor", factor, self.key(name))
        alpha = self.number("rope.scaling.alpha", 0.0)
        if alpha and _is_in(self.arch, "alpha"):
            self.assume(
                "rope_parameters/rope_type", "dynamic", "llama.cpp: base · alpha^(d/(d - 2))"
            )
            self.put("rope_parameters/alpha", alpha, self.key("rope.scaling.alpha"))
        elif alpha:
            detail = f"rope.scaling.alpha is not used by {self.arch}"
            self.warn("alpha-not-applied", detail, "rope.scaling.alpha")

    def _read_yarn(self, factor: float, name: str) -> None:
        put, key = self.put, self.key
        put("rope_parameters/rope_type", "yarn", key("rope.scaling.type"))
        put("rope_parameters/factor", factor, key(name))
        original = "rope.scaling.original_context_length"
        found = original if self.place.get(original) is not None else "context_length"
        put("rope_parameters/original_max_position_embeddings", self.place.get(found), key(found))
        for end in ("beta_fast", "beta_slow"):
            if self.place.get(f"rope.scaling.yarn_{end}") is not None:
                own = f"rope.scaling.yarn_{end}"
                put(f"rope_parameters/{end}", self.number(own, 1.0), key(own))
        for own, usual in (("yarn_ext_factor", {-1.0, 1.0}), ("yarn_attn_factor", {-1.0, 1.0})):
            if self.number(f"rope.scaling.{own}", 1.0) not in usual:
                self.refuse(f"rope.scaling.{own}", "is read as 1 only")
        own = "rope.scaling.yarn_log_multiplier"
        multiplier = self.number(own, 0.0)
        if multiplier and not _is_in(self.arch, "log_multiplier"):
            self.refuse(own, f"is not read by {self.arch}")
        elif multiplier:
            # The converter writes a tenth of mscale_all_dim.
            all_dim = round(10 * multiplier, 6)
            mscale = all_dim if self.arch == "deepseek2" else 1.0
            put("rope_parameters/mscale_all_dim", all_dim, key(own))
            put("rope_parameters/mscale", mscale, key(own))
        attention = self.number("rope.scaling.attn_factor", 1.0)
        if attention != 1 and multiplier:
            self.refuse("rope.scaling.attn_factor", "is not read beside yarn_log_multiplier")
        elif attention != 1:
            value = float(yarn_mscale(Decimal(factor)) * Decimal(attention))
            put("rope_parameters/attention_factor", value, key("rope.scaling.attn_factor"))

    def _read_sections(self, layout: str) -> None:
        sections = self.place.get("rope.dimension_sections")
        if layout not in {"mrope", "imrope"} or not isinstance(sections, list) or not any(sections):
            return
        if len(sections) == 4 and sections[3] == 0:
            sections = sections[:3]
        if len(sections) != 3:
            self.refuse("rope.dimension_sections", "must be three counts, and a fourth of 0")
        self.content.setdefault("rope_parameters", {"rope_type": "default"})
        self.put("rope_parameters/mrope_section", sections, self.key("rope.dimension_sections"))
        self.put(
            "rope_parameters/mrope_interleaved",
            layout == "imrope",
            self.key("rope.dimension_sections"),
        )

    def _read_layers(self) -> None:
        """Read which layers turn, and which have settings of their own."""
        spec = format_tables()["gguf"]["layers"].get(self.arch)
        name = "attention.sliding_window"
        window, count = self.place.get(name), self.content.get("num_hidden_layers")
        if spec is None:
            if window and not _is_in(self.arch, "windowless"):
                self.refuse(
                    name, f"is set, and which layers of {self.arch} turn, and how, is not known"
                )
            for key in ("rope.freq_base_swa", "rope.dimension_count_swa"):
                if self.place.get(key) is not None:
                    self.refuse(key, f"is not understood for {self.arch}")
            return
        if not (window or (window is None and spec.get("without_key"))):
            return
        if type(count) is not int or not 0 < count <= MAX_LAYERS:
            self.refuse("block_count", f"must be an integer from 1 to {MAX_LAYERS}")
            return
        slides = self._sliding(spec, count)
        if spec["turns"] == "sliding":
            self.split_layers([not slide for slide in slides], name)
        elif spec["turns"] == "not_every":
            self.split_layers([(layer + 1) % spec["every"] == 0 for layer in range(count)], name)
        else:
            self._split_by_window(spec, slides)

    def _sliding(self, spec: Members, count: int) -> list[bool]:
        name = "attention.sliding_window_pattern"
        pattern = self.place.get(name, spec["every"])
        if isinstance(pattern, list) and len(pattern) == count:
            return [bool(flag) for flag in pattern]
        if type(pattern) is not int or pattern < 0:
            self.refuse(name, "must be a period, or a flag for each layer")
            return [False] * count
        if spec.get("dense_first"):
            return [not pattern or layer % pattern != 0 for layer in range(count)]
        return [not pattern or layer % pattern < pattern - 1 for layer in range(count)]

    def _split_by_window(self, spec: Members, slides: list[bool]) -> None:
        """Give the layers with a window their base, and the rule or none."""
        theta, own = self.content["rope_theta"], self.content.pop("rope_parameters", {})
        full = {"rope_type": "default", **own, "rope_theta": theta}
        base = self.number("rope.freq_base_swa", spec.get("base", theta))
        sliding = {**(full if spec["scaled"] else {"rope_type": "default"}), "rope_theta": base}
        width = self.content["rotary_dim"]
        if self.place.get("rope.dimension_count_swa", width) != width:
            self.refuse("rope.dimension_count_swa", "must be rope.dimension_count")
        if self.place.get("rope.freq_base_swa") is not None:
            path = "/rope_parameters/sliding_attention/rope_theta"
            self.sources[path] = self.key("rope.freq_base_swa")
        self.nest({"full_attention": full, "sliding_attention": sliding}, "full_attention")
        types = ["sliding_attention" if slide else "full_attention" for slide in slides]
        self.put("layer_types", types, self.key("attention.sliding_window_pattern"))

    def _divide(self) -> None:
        """Divide the frequencies by the tensors of the file, or say that they may be divided."""
        has_lists = _is_in(self.arch, "two_lists")
        if self.divisors is None:
            long = self.place.get("rope.scaling.type") == "longrope" or (
                has_lists and self.place.get("rope.scaling.attn_factor") is not None
            )
            if long:
                self._leave_unknown(_DIVISORS[1:])
            elif has_lists or _is_in(self.arch, "may_divide"):
                detail = f"a tensor {' or '.join(_DIVISORS)} would divide the frequencies"
                self.warnings.append(FormatWarning("rope-freqs-not-seen", detail, ""))
            return
        if not self.divisors:
            if self.number("rope.scaling.attn_factor", 1.0) != 1 and self._rule() != "yarn":
                self.refuse(
                    "rope.scaling.attn_factor", "is read beside yarn, or tensors of factors"
                )
            if self.place.get("rope.scaling.type") == "longrope":
                self.refuse(
                    "rope.scaling.type", "is longrope, and the file has no tensors of factors"
                )
            return
        one, long_ones, short = (self.divisors.get(name) for name in _DIVISORS)
        long_ones, short = one or long_ones, one or short
        if long_ones is None or short is None:
            self._leave_unknown(tuple(self.divisors))
            return
        if "full_attention" in self.content.get("rope_parameters", {}) or self._rule() not in {
            None,
            "linear",
        }:
            self.refuse("rope.scaling.type", "is not read beside tensors of factors")
            return
        block = self.content.setdefault("rope_parameters", {})
        block = block.get("rotary", block)
        factor = block.pop("factor", 1.0)
        original = self.place.get(
            "rope.scaling.original_context_length", self.place.get("context_length")
        )
        block |= {
            "rope_type": "longrope",
            "short_factor": [factor * value for value in short],
            "long_factor": [factor * value for value in long_ones],
            "original_max_position_embeddings": original,
            "attention_factor": self.number("rope.scaling.attn_factor", 1.0),
        }

    def _rule(self) -> str | None:
        block = self.content.get("rope_parameters", {})
        kind = block.get("rotary", block).get("rope_type")
        return None if kind in {None, "default"} else str(kind)

    def _leave_unknown(self, names: tuple[str, ...]) -> None:
        self.reason = (
            f"frequencies are divided by {' and '.join(names)}, whose values were not sent: POST "
            "the file with them, or the quotients to /identify"
        )
        self.warnings.append(FormatWarning("rope-freqs-not-sent", self.reason, ""))
        values = {name: self.content.get(name) for name in ("head_dim", "rotary_dim", "rope_theta")}
        self.encodings.append(
            {"kind": "rope", "known": False, "values": values, "reason": self.reason}
        )
