"""Read the head of a GGUF file, cut anywhere, or its keys as JSON.

Lengths are compared with what was sent before anything is made of them; strings of a vocabulary are
passed over. What the keys mean is llama.cpp's reading of them: ``formats.toml`` has the
architectures, and the names that are translated one by one.

Source: the GGUF specification, versions 2 and 3; llama.cpp of autumn 2026, src/llama-model.cpp,
src/llama-context.cpp and src/models; the constants of gguf 0.19.0.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from decimal import Decimal
from struct import Struct
from struct import error as StructError  # noqa: N812 - a class
from typing import Any

from service.encodings.rotary.rules import yarn_mscale
from service.errors import InvalidBody, shortened
from service.models.config_values import fault
from service.models.positional_keys import ALIKE
from service.models.translation import (
    Members,
    ModelDocument,
    Translation,
    format_tables,
    member,
)

_STRING, _ARRAY = 8, 9
_CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_MAX_KEYS, _MAX_TENSORS, _MAX_TEXTS, _MAX_NAME = 65_536, 200_000, 4_000_000, 65_535
_KEPT, _MAX_LENGTH, _F32 = 4096, 2**40, 0
_HAS_LISTS = re.compile(r"\.(rope|attention)\.")
_ATTENTION = "rope.scaling.attn_factor"
_TEMPERATURE = "attention.temperature_scale"
_DIVISORS = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")


class _Cut(Exception):
    """The file ends here."""


class Head:
    """The head of a file.

    Attributes:
        keys: the values of keys; None for arrays that are long or of texts.
        counts: the tensors and keys that the file has; ``seen`` tensors were read.
        cut_at: the first key or tensor that was not read, or None.
    """

    def __init__(self, body: bytes | memoryview) -> None:
        self.body, self.at = memoryview(body), 4
        self.keys: dict[str, Any] = {}
        self.counts, self.seen, self.texts = [0, 0], 0, 0
        self.tensors: dict[str, tuple[list[int], int, int]] = {}
        self.cut_at: str | None = "its first key"
        if bytes(self.body[:4]) != b"GGUF":
            raise InvalidBody("a GGUF file begins with GGUF")
        self.order = ">" if bytes(self.body[4:6]) == b"\0\0" else "<"
        with suppress(_Cut):
            version, *self.counts = self._numbers("IQQ")
            if version not in {2, 3}:
                raise InvalidBody(f"GGUF version {version} is not read: 2 and 3 are")
            for count, most in zip(self.counts, (_MAX_TENSORS, _MAX_KEYS), strict=True):
                if count > most:
                    raise InvalidBody(f"the file has {count} tensors or keys: at most {most}")
            self._read_keys()
            self._read_tensors()

    def _numbers(self, codes: str) -> tuple[Any, ...]:
        form = Struct(self.order + codes)
        return form.unpack(self._bytes(form.size))

    def _bytes(self, length: int) -> memoryview:
        if length > _MAX_LENGTH:
            raise InvalidBody(f"{shortened(self.cut_at)} has {length} bytes: no file has")
        start, end = self.at, self.at + length
        if end > len(self.body):
            raise _Cut
        self.at = end
        return self.body[start:end]

    def _text(self, most: int = _MAX_LENGTH) -> str:
        (length,) = self._numbers("Q")
        if length > most:
            raise InvalidBody(f"a name has {length} bytes: at most {most}")
        return bytes(self._bytes(length)[:_KEPT]).decode("utf-8", "replace")

    def _read_keys(self) -> None:
        for index in range(self.counts[1]):
            self.cut_at = f"key {index}"
            self.cut_at = name = self._text(_MAX_NAME)
            if name in self.keys:
                raise InvalidBody.at(fault(f"/{name}", None, "stands twice in the file"))
            (kind,) = self._numbers("I")
            if kind == _STRING:
                self.keys[name] = self._text()
            elif kind == _ARRAY:
                self.keys[name] = self._array(*self._numbers("IQ"))
            else:
                (self.keys[name],) = self._numbers(self._code(kind))

    def _code(self, kind: int) -> str:
        if kind not in _CODES:
            rule = f"has type {kind}, which is not read"
            raise InvalidBody.at(fault(f"/{shortened(self.cut_at)}", None, rule))
        return _CODES[kind]

    def _array(self, kind: int, count: int) -> list[Any] | None:
        if kind == _STRING:
            self._skip_texts(count)
            return None
        form = Struct(self.order + self._code(kind))
        items = self._bytes(count * form.size)
        return [value for (value,) in form.iter_unpack(items)] if count <= _KEPT else None

    def _skip_texts(self, count: int) -> None:
        """Pass over the texts of an array without making objects of them."""
        self.texts += count
        if self.texts > _MAX_TEXTS:
            raise InvalidBody(f"the file has more than {_MAX_TEXTS} texts in its keys")
        read, body, at = Struct(f"{self.order}Q").unpack_from, self.body, self.at
        try:
            for _ in range(count):
                at += 8 + read(body, at)[0]
        except (StructError, OverflowError):
            raise _Cut from None
        self._bytes(at - self.at)

    def _read_tensors(self) -> None:
        for index in range(self.counts[0]):
            self.cut_at = f"tensor {index}"
            name = self._text(_MAX_NAME)
            (axes,) = self._numbers("I")
            if axes > 8:
                raise InvalidBody(f"tensor {shortened(name)} has {axes} axes")
            *shape, kind, offset = self._numbers(f"{axes}QIQ")
            if name in _DIVISORS:
                self.tensors[name] = shape, kind, offset
            self.seen = index + 1
        self.cut_at = None

    def divisors(self) -> dict[str, list[float] | None] | None:
        """Return the tensors that divide frequencies: their values, None for those not sent.

        None for all of them if the list of tensors is not whole.
        """
        if self.cut_at is not None:
            return None
        step = self.keys.get("general.alignment")
        step = step if type(step) is int and 0 < step <= 2**20 else 32
        found: dict[str, list[float] | None] = {}
        for name, (shape, kind, offset) in self.tensors.items():
            values, size = self.body[-(-self.at // step) * step + offset :], 4 * sum(shape)
            is_sent = len(shape) == 1 and kind == _F32 and 0 < size <= min(len(values), 4 * _KEPT)
            numbers = Struct(f"{self.order}f").iter_unpack(values[:size]) if is_sent else ()
            found[name] = [value for (value,) in numbers] or None
        return found


def read_head(body: bytes | memoryview) -> ModelDocument:
    """Return what the head of a GGUF file says about its model.

    Raises:
        InvalidBody: the head is malformed, cut before the keys of the model, or not understood.
    """
    head = Head(body)
    names = (*head.keys, head.cut_at or "")
    # Writers put the vocabulary behind the keys of the model.
    has_all = len(head.keys) == head.counts[1] or any(name[:10] == "tokenizer." for name in names)
    if not head.keys or not has_all:
        where = f"{shortened(head.cut_at)}, where keys of the model may follow"
        raise InvalidBody(f"the file ends at {where}: send more of it")
    model = _Model(head.keys, str, head.divisors())
    if head.cut_at is not None:
        detail = f"{len(head.keys)} of {head.counts[1]} keys were read, to {shortened(head.cut_at)}"
        model.report.warn("file-cut", detail, "")
    read = {"byte_order": "little" if head.order == "<" else "big", "keys": len(head.keys)}
    read |= {"keys_in_file": head.counts[1], "tensors": head.seen}
    model.facts["read"] = {**read, "tensors_in_file": head.counts[0], "truncated_at": head.cut_at}
    return model.read("bytes GGUF")


def read_keys(body: Members, found_by: str) -> ModelDocument:
    """Return what the keys of a GGUF file say, as an object or as gguf-dump --json writes them."""
    keys, suffix, tensors = body, "", body.get("tensors")
    if "general.architecture" not in body and isinstance(body.get("metadata"), dict):
        suffix = "/value"
        keys = {key: member(own, suffix) for key, own in body["metadata"].items()}
        positional = (key for key, own in keys.items() if own is None and _HAS_LISTS.search(key))
        for key in positional:
            rule = "is without its value: gguf-dump writes arrays with --json-array"
            raise InvalidBody.at(fault(f"/metadata/{key}", None, rule))
    divisors = None
    if isinstance(tensors, dict) and tensors:
        divisors = {name: None for name in _DIVISORS if name in tensors}
    model = _Model(keys, lambda key: f"/metadata{key}{suffix}" if suffix else key, divisors)
    model.facts["format"] = "gguf-keys"
    return model.read(found_by)


class _Model(Translation):
    """The keys of a GGUF file, as llama.cpp reads them."""

    def __init__(
        self,
        keys: Members,
        pointer: Callable[[str], str],
        divisors: Mapping[str, list[float] | None] | None,
    ) -> None:
        super().__init__("gguf", {})
        self.arch, self.keys, self.divisors = str(keys.get("general.architecture")), keys, divisors
        self.pointer, self.facts["architecture"] = pointer, self.arch
        own = [key for key in keys if key.startswith(f"{self.arch}.")]
        self.place = {key.removeprefix(f"{self.arch}."): keys[key] for key in own}
        for key in keys.keys() - {*own}:
            if _HAS_LISTS.search(key) and ALIKE.search(key):
                rule = f"is not of the architecture {shortened(self.arch)}"
                self.report.fault(pointer(f"/{key}"), keys[key], rule)

    def key(self, name: str) -> str:
        return self.pointer(f"/{self.arch}.{name}")

    def is_in(self, table: str) -> bool:
        """Return whether a list of formats.toml has the architecture."""
        return self.arch in format_tables()["gguf"].get(table, "").split()

    def number(self, name: str, default: float) -> float:
        """Return the number at a key; a fault if it is none."""
        value = self.place.get(name)
        if value is None or (type(value) in {int, float} and abs(value) < 2**63):
            return default if value is None else float(value)
        self.refuse(name, "must be a number")
        return default

    def read(self, found_by: str) -> ModelDocument:
        """Return the document."""
        kind = self._kind()
        if self.arch == "clip":
            self._read_tower()
        self.choose(self.form.kinds, kind, self.pointer("/general.architecture"))
        for name in ("rope.scaling.factor", "rope.scale_linear", _ATTENTION):
            self.number(name, 1.0)
        scaling = self.place.setdefault("rope.scaling.type", "linear")
        if str(scaling) not in {"none", "linear", "yarn", "longrope"}:
            self.refuse("rope.scaling.type", "must be none, linear, yarn or longrope")
        self.read_pieces()
        if self.rotary and not self.report.faults:
            self._read_width()
            self._read_rule()
            self._read_sections(kind)
            self._read_layers()
            self._divide()
            self._read_temperature()
        return self.document(found_by)

    def _kind(self) -> str:
        """Return the kind of positions of the architecture, by keys for a few."""
        sections = self.place.get("rope.dimension_sections")
        if self.is_in("by_sections") and isinstance(sections, list) and any(sections):
            return "mrope"
        if self.arch == "baichuan" and self.place.get("block_count") == 40:
            return "alibi"
        if self.is_in("optional") and self.place.get("rope.scaling.finetuned") is False:
            return "none"
        if self.arch == "clip" or (
            self.arch == "mpt" and self.number("attention.max_alibi_bias", 0.0) <= 0
        ):
            return "none"
        return next(filter(self.is_in, self.form.kinds), self.arch)

    def _read_tower(self) -> None:
        own = {key: self.keys[key] for key in self.keys if key.startswith("clip.")}
        values = {key[5:]: value for key, value in own.items() if type(value) in {int, str}}
        reason = "the type of the projector decides: mmproj files have no base and no rule"
        entry = {"kind": "tower", "known": False, "values": values, "reason": reason}
        self.encodings.append(entry)
        self.facts["reason"] = reason

    def _read_width(self) -> None:
        heads, hidden = self.content.get("num_attention_heads"), self.content.get("hidden_size")
        if type(hidden) is int and hidden < 1:
            self.refuse("embedding_length", "must be an integer from 1 to 2^53")
            return
        if isinstance(heads, list):
            del self.content["num_attention_heads"]
        if "head_dim" not in self.content:
            if type(heads) is not int or type(hidden) is not int or heads < 1:
                rule = "is required, or embedding_length with one attention.head_count"
                self.refuse("attention.key_length", rule)
                return
            self.assume("head_dim", hidden // heads, "/hidden_size", "/num_attention_heads")
        width = self.content["head_dim"]
        if "rotary_dim" not in self.content:
            self.assume("rotary_dim", width, "/head_dim")
        elif self.is_in("cut"):
            self.put("head_dim", self.content["rotary_dim"], self.key("rope.dimension_count"))
        if self.is_in("permuted"):
            self.facts["weights"] = (
                "the rows of q and k are permuted: neighbours turn here, halves in transformers"
            )

    def _read_rule(self) -> None:
        rule = self.content.get("rope_parameters", {})
        kind, factor = rule.get("rope_type"), rule.get("factor", 1.0)
        if kind == "linear" and factor == 1:
            del self.content["rope_parameters"]
        elif kind == "yarn":
            self._read_yarn(factor)
        alpha, name = self.number("rope.scaling.alpha", 0.0), "rope.scaling.alpha"
        if alpha and self.is_in("alpha"):
            self.assume("rope_parameters/rope_type", "dynamic", "/rope_parameters/alpha")
            self.put("rope_parameters/alpha", alpha, self.key(name))
        elif alpha:
            self.warn("alpha-not-applied", f"rope.scaling.alpha is not used by {self.arch}", name)

    def _read_yarn(self, factor: float) -> None:
        """Read the factors of attention: that of YaRN is as in transformers."""
        for name in ("rope.scaling.yarn_ext_factor", "rope.scaling.yarn_attn_factor"):
            if abs(self.number(name, 1.0)) != 1:
                self.refuse(name, "is read as 1 only")
        for name, usual in (
            ("rope.scaling.yarn_beta_fast", 32),
            ("rope.scaling.yarn_beta_slow", 1),
        ):
            if self.number(name, usual) != usual and not self.is_in("reads_betas"):
                detail = f"llama.cpp takes {usual} for {self.arch}; the value of the file is used"
                self.warn("betas-not-read", detail, name)
        name = "rope.scaling.yarn_log_multiplier"
        multiplier, attention = self.number(name, 0.0), self.number(_ATTENTION, 1.0)
        times = 1 if self.is_in("log_whole") else 10 if self.is_in("log_tenth") else 0
        if multiplier and not times:
            self.refuse(name, f"is not read by {self.arch}")
        elif multiplier:
            all_dim = round(times * multiplier, 6)
            mscale = all_dim if self.arch == "deepseek2" else 1.0
            self.put("rope_parameters/mscale_all_dim", all_dim, self.key(name))
            self.put("rope_parameters/mscale", mscale, self.key(name))
        self.facts["scales_softmax"] = times == 10
        if attention != 1 and multiplier:
            self.refuse(_ATTENTION, "is not read beside yarn_log_multiplier")
        elif attention != 1:
            value = float(yarn_mscale(Decimal(factor)) * Decimal(attention))
            self.put("rope_parameters/attention_factor", value, self.key(_ATTENTION))

    def _read_temperature(self) -> None:
        """Add the factor of queries, which grows with the position."""
        tables = format_tables()["gguf"]["temperature"]
        own = tables.get(self.arch, tables["others"])
        if not self.number(_TEMPERATURE, own.get("scale", 0.0)):
            return
        for name, keys in (("scale", [_TEMPERATURE]), ("length", own["lengths"])):
            key = next((key for key in keys if key in self.place), None)
            if key is not None:
                value = self.number(key, 0.0)
                number = int(value) if value.is_integer() else value
                self.put(f"temperature/{name}", number, self.key(key))
            elif name in own:
                self.assume(f"temperature/{name}", own[name])
        entry = {
            "kind": "temperature",
            "url": "/attention/temperature",
            "query": own["query"],
            "counts": f"positions of queries on {own['where']}",
            "asks": {"seq_len": "positions of queries"},
            "example": {"seq_len": 16384},
        }
        self.encodings.append(entry)

    def _read_sections(self, kind: str) -> None:
        name = "rope.dimension_sections"
        sections = self.place.get(name)
        if kind not in {"mrope", "imrope"} or (isinstance(sections, list) and not any(sections)):
            return
        if not isinstance(sections, list) or len(sections) not in {3, 4} or any(sections[3:]):
            self.refuse(name, "must be a list of three counts, and a fourth of 0")
            return
        self.content.setdefault("rope_parameters", {"rope_type": "default"})
        self.put("rope_parameters/mrope_section", sections[:3], self.key(name))
        self.put("rope_parameters/mrope_interleaved", kind == "imrope", self.key(name))

    def _read_layers(self) -> None:
        """Read which layers turn, and which have settings of their own."""
        spec, name = format_tables()["gguf"]["layers"].get(self.arch), "attention.sliding_window"
        window, count = self.place.get(name), self.content.get("num_hidden_layers")
        if spec is None:
            self._read_plain_layers()
            return
        always = spec.get("always") or count == spec.get("layers", 0)
        if not window and not (window is None and always):
            return
        if spec["turns"] == "not_every":
            dense = self.flags(name, spec["every"], first=spec.get("dense_first", False))
            self.split_layers(dense, name if window else "block_count")
        elif spec["turns"] == "every":
            self._read_recurrent(spec)
        elif spec["turns"] == "sliding":
            self.split_layers([not slides for slides in self._sliding(spec)], name)
        else:
            self._split_by_window(spec, self._sliding(spec))

    def _read_plain_layers(self) -> None:
        """Read which layers have heads: the others are recurrent, or have no attention."""
        name = "attention.sliding_window"
        is_known = not self.place.get(name) or self.is_in("windowless")
        if self.is_in("not_reviewed") or not is_known:
            self.refuse(name, f"decides which layers of {self.arch} turn, and how: not known")
        for key in ("rope.freq_base_swa", "rope.dimension_count_swa"):
            if self.place.get(key) is not None:
                self.refuse(key, f"is not understood for {self.arch}")
        heads = self.place.get("attention.head_count_kv")
        if isinstance(heads, list):
            self.split_layers([not each for each in heads], "attention.head_count_kv")

    def _read_recurrent(self, spec: Members) -> None:
        """Read which layers have linear attention, without a rotary embedding."""
        name = "full_attention_interval"
        if self.place.get("attention.recurrent_layers") is not None:
            self.refuse("attention.recurrent_layers", "is not understood")
        full = self.flags(name, self.place.get(name, spec["every"]) or None)
        self.split_layers([not flag for flag in full], name)

    def _sliding(self, spec: Members) -> list[bool]:
        """Return which layers have a window: all but one of each period, or those of a list."""
        name = "attention.sliding_window_pattern"
        every = self.place.get(name, spec["every"])
        flags = self.flags(name, every, first=spec.get("dense_first", False))
        return flags if isinstance(every, list) else [not flag for flag in flags]

    def _split_by_window(self, spec: Members, slides: list[bool]) -> None:
        """Add the base of the layers with a window, with the rule or without one."""
        theta, width = self.content["rope_theta"], self.content.get("rotary_dim")
        own = {"rope_type": "default", **self.content.pop("rope_parameters", {})}
        full = {**own, "rope_theta": theta}
        base = self.number("rope.freq_base_swa", spec.get("base", theta))
        sliding = {**(full if spec["scaled"] else {"rope_type": "default"}), "rope_theta": base}
        if self.place.get("rope.dimension_count_swa", width) != width:
            self.refuse("rope.dimension_count_swa", "must be rope.dimension_count")
        if self.place.get("rope.freq_base_swa") is not None:
            path = "/rope_parameters/sliding_attention/rope_theta"
            self.sources[path] = self.key("rope.freq_base_swa")
        self.nest({"full_attention": full, "sliding_attention": sliding}, "full_attention")
        types = ["sliding_attention" if flag else "full_attention" for flag in slides]
        self.put("layer_types", types, self.key("attention.sliding_window_pattern"))

    def _divide(self) -> None:
        """Divide the frequencies by the tensors of the file, or say that they may be divided."""
        rule = self.content.get("rope_parameters", {})
        block = rule.get("rotary", rule)
        kind = block.get("rope_type", "default")
        is_longrope = self.place["rope.scaling.type"] == "longrope"
        if self.divisors is None:
            self._leave_unseen(kind, is_longrope=is_longrope)
            return
        if not self.divisors:
            if kind != "yarn" and self.number(_ATTENTION, 1.0) != 1:
                self.refuse(_ATTENTION, "is read beside yarn, or tensors of factors")
            if is_longrope:
                self.refuse("rope.scaling.type", "is longrope, and no tensor has factors")
            return
        one, longer, shorter = (self.divisors.get(name) for name in _DIVISORS)
        longer, shorter = one or longer, one or shorter
        if longer is None or shorter is None:
            self._leave_unknown(tuple(self.divisors))
        elif kind not in {"default", "linear"} or "full_attention" in rule:
            self.refuse("rope.scaling.type", "is not read beside tensors of factors")
        else:
            factor = block.pop("factor", 1.0)
            block |= {
                "rope_type": "longrope",
                "short_factor": [factor * value for value in shorter],
                "long_factor": [factor * value for value in longer],
                "attention_factor": self.number(_ATTENTION, 1.0),
            }
            original = "rope.scaling.original_context_length"
            name = original if self.place.get(original) is not None else "context_length"
            block["original_max_position_embeddings"] = self.place.get(name)
            self.content["rope_parameters"] = rule or block
            prefix = "rope_parameters/rotary" if "rotary" in rule else "rope_parameters"
            sent = [tensor for tensor in _DIVISORS if self.divisors.get(tensor)]
            for each, tensor in (("long_factor", sent[0]), ("short_factor", sent[-1])):
                self.sources[f"/{prefix}/{each}"] = f"/{tensor}"
                self.not_sent.pop(f"/{prefix}/{each}", None)

    def _leave_unseen(self, kind: str, *, is_longrope: bool) -> None:
        """List the embedding as unknown if tensors that were not seen may divide it."""
        may, two = self.is_in("may_divide"), self.is_in("two_lists")
        if is_longrope or (two and self.place.get(_ATTENTION) is not None):
            self._leave_unknown(_DIVISORS[1:])
        elif may or two:
            tensors = _DIVISORS[0 if may else 1 : 3 if two else 1]
            reason = (
                f"a tensor {' or '.join(tensors)} would divide the frequencies, and the list of "
                "tensors was not sent whole: POST the file with it"
            )
            # Converters write no such tensor beside another rule.
            if kind == "default":
                self._leave_out("rope-freqs-not-seen", reason)
            else:
                self.report.warn("rope-freqs-not-seen", reason, "")

    def _leave_unknown(self, tensors: tuple[str, ...]) -> None:
        reason = (
            f"frequencies are divided by {' and '.join(tensors)}, whose values were not sent: POST "
            "the file with them, or the quotients to /identify"
        )
        self._leave_out("rope-freqs-not-sent", reason)

    def _leave_out(self, code: str, reason: str) -> None:
        """Warn that the frequencies are not known, and have no table."""
        self.report.warn(code, reason, "")
        names = ("head_dim", "rotary_dim", "rope_theta")
        values = {name: self.content[name] for name in names if name in self.content}
        entry = {"kind": "rope", "known": False, "values": values, "reason": reason}
        self.encodings.append(entry)
        self.facts |= {"rotary": False, "reason": reason}
