"""The rotary settings of the layers of one type.

``LayerSettings`` reads each value from the block of the frequency rule, the top of the config or
the class defaults, and keeps its origin.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from service.encodings.rotary.mrope import LAYOUTS
from service.encodings.rotary.rules import RULE_KEYS, rule_of, yarn_mscale
from service.errors import shortened
from service.models.blocks import EVERY_LAYER, ConfigBlock
from service.models.config_values import (
    MAX_COUNT,
    OF_EVERY_RULE,
    RULE_SPELLINGS,
    RULE_TYPE_ALIASES,
    RULE_TYPES,
    ResolvedValue,
    computed,
    did_you_mean,
    nearest_word,
)
from service.models.model_types import TextModel, head_dim_of
from service.numerics.limits import MAX_LENGTH
from service.numerics.phase import exact_context

_ASSUMED_THETA = 10000.0
_ASSUMED_LENGTH = 4096
_MAX_COMPARED = 64
_SLOPE_OF_TELECHAT = Decimal("0.07")
_LENGTH = "max_position_embeddings"
_ORIGINAL = "original_max_position_embeddings"
_SHARE = "partial_rotary_factor"


@dataclass
class LayerSettings:
    """The rotary settings of the layers of one type.

    Attributes:
        block: the parameters of the frequency rule.
        layers: the layers that have these settings; None for all layers, and for unknown ones.
        every_layer: whether all layers have them.
        values: the settings, by canonical name.
        lengths: one context_length of each regime, the original first; empty for a single regime.
        mscales: the attention factor of each regime, where a config has them.
        length: max_position_embeddings, or the assumed length.
    """

    model: TextModel
    block: ConfigBlock
    layers: tuple[int, ...] | None
    every_layer: bool
    values: dict[str, ResolvedValue] = field(default_factory=dict)
    lengths: tuple[int, ...] = ()
    mscales: tuple[ResolvedValue, ...] = ()
    length: ResolvedValue = field(init=False)

    @property
    def label(self) -> str:
        """The layer type, or ``default`` for all layers that have a rotary embedding."""
        return self.block.label

    @property
    def rope_type(self) -> str:
        return str(self.values["rope_type"].value)

    @property
    def offset(self) -> ResolvedValue | None:
        """The number of channels of a head before the first rotated one; None for 0."""
        if not self.model.type.last_channels:
            return None
        head_dim, rotary_dim = self.values["head_dim"], self.values["rotary_dim"]
        formula = "head_dim - rotary_dim: the last channels of a head turn"
        return computed(head_dim.value - rotary_dim.value, formula, head_dim, rotary_dim)

    def at(self, context_length: int | None) -> dict[str, ResolvedValue]:
        """Return the values at a context length, the original one unless given."""
        values = dict(self.values)
        if self.lengths:
            length, pointer = context_length or self.lengths[0], self.values["rope_type"].pointer
            own = computed(length, "the original length", values.get(_ORIGINAL, self.length))
            if context_length:
                own = ResolvedValue(length, "request", ("?context_length",))
            values["context_length"] = replace(own, pointer=pointer)
            if self.mscales:
                values["attention_factor"] = self.mscales[length > self.lengths[0]]
        return {**values, _LENGTH: self.length}

    def read(self) -> bool:
        """Read all values from the config; False, with a fault, if the head_dim is unknown."""
        rope_type, head_dim, theta = (
            self._rope_type(),
            head_dim_of(self.model, self.label),
            self._rope_theta(),
        )
        if head_dim is None:
            return False
        self.values = {
            "head_dim": head_dim,
            "rotary_dim": self._rotary_dim(rope_type.value, head_dim),
            "rope_theta": theta,
            "rope_type": rope_type,
        }
        self._warn_unknown()
        self._warn_unread()
        _READERS.get(self.rope_type, LayerSettings.read_keys)(self)
        factor = self.number("factor", 1)
        if "factor" in self.values and factor < 1:
            self.warn("factor-below-one", f"factor is {factor!r}", "factor")
        self._put_sections()
        return True

    def number(self, name: str, default: float = 0.0) -> float:
        """Return a number of the block, or the default."""
        value = self.block.values.get(name)
        return default if value is None else float(value.value)

    def warn(self, code: str, detail: str, name: str) -> None:
        """Warn of a value of the block."""
        value = self.block.values.get(name)
        self.model.report.warn(code, detail, value.pointer if value else self.block.place.at(name))

    def _has(self, name: str) -> bool:
        return name in self.block.values

    def _put(self, *names: str) -> None:
        """Add the values that are in the block."""
        self.values |= {name: self.block.values[name] for name in names if self._has(name)}

    def _put_required(self, *names: str) -> bool:
        """Add values of the block; return False, with a fault for each that is missing."""
        missing = [name for name in names if not self._has(name)]
        place = self.block.place
        others = [given for given in place.content if given not in RULE_KEYS][:_MAX_COMPARED]
        for name in missing:
            hint = did_you_mean(name, others).replace("did you mean", "is it")
            self.model.report.fault(place.at(name), None, f"is required for {self.rope_type}{hint}")
        self._put(*names)
        return not missing

    def _put_unless_zero(self, *names: str) -> None:
        """Add values of the block except 0, which counts as missing, as in transformers."""
        for name in names:
            if self.number(name):
                self._put(name)
            elif self._has(name):
                self.warn("zero-ignored", f"{name} is 0, which counts as missing", name)

    def _rope_type(self) -> ResolvedValue:
        """Return the canonical rope_type of the block; add a fault for an unknown one."""
        given, place = self.block.values.get("rope_type"), self.block.place
        if given is None:
            missing = ResolvedValue("default", "computed", formula="no rope_type is given")
            return replace(missing, pointer=place.at("rope_type"))
        other = place.read("type", OF_EVERY_RULE["rope_type"])
        if other is not None and other.value != given.value:
            used, unused = shortened(given.value), shortened(other.value)
            detail = f"rope_type {used} is used, and type is {unused}"
            place.warn("type-and-rope-type-disagree", detail, "type")
        name = RULE_TYPE_ALIASES.get(given.value, given.value)
        if name == "yarn" and self._has("short_factor") and not self._has("factor"):
            name = "longrope"
        if name not in RULE_TYPES:
            near = nearest_word(name, [*RULE_TYPES, *RULE_TYPE_ALIASES], cutoff=0.6)
            hint = "" if near else f"; there are {', '.join(RULE_TYPES)}"
            rule = f"{shortened(name) or 'without a name'} is not known{hint}"
            self.model.report.fault(given.pointer, given.value, rule, near)
            return replace(given, value="default")
        if name == "ntk" and not self.model.type.has_aliases:
            detail = f"{self.model.type.source.partition(':')[0]} has no rule ntk, as vLLM has"
            self.warn("rule-of-other-program", detail, "rope_type")
        return given if name == given.value else computed(name, f"{{}} is {given.value}", given)

    def _warn_unknown(self) -> None:
        """Warn of keys of the block that the rule does not use."""
        if self.block.is_default:
            return
        known = OF_EVERY_RULE.keys() | RULE_TYPES[self.rope_type]
        known -= set() if self.model.type.has_rotary_dim else {"rotary_dim"}
        unknown = [
            key
            for key, value in self.block.place.content.items()
            if value is not None and RULE_SPELLINGS.get(key, key) not in known
        ]
        missing = "" if self._has("rope_type") else ": no rope_type is given"

        def detail(key: str) -> str:
            hint = missing if key in RULE_SPELLINGS else did_you_mean(key, known)
            return f"{self.rope_type} does not use {shortened(key)}{hint}"

        others = f"{self.rope_type} does not use {{}} more keys"
        self.block.place.warn_unknown(unknown, detail, others)

    def _rotary_dim(self, rope_type: str, head_dim: ResolvedValue) -> ResolvedValue:
        """Return the number of rotated channels, for ``proportional`` all."""
        key = self.model.type.rotary_dim
        number = (self.model.given(key) or self.model.default(key)) if key else None
        is_null = key is not None and self.model.place.content.get(key, number) is None
        if key is not None and is_null and key in self.model.type.defaults:
            self.model.report.fault(self.model.place.at(key), None, "must be a number, not null")
        if number:
            self._warn_share(number, head_dim)
            return number
        if rope_type == "proportional":
            return head_dim
        share, number = self._share(), self._given_rotary_dim()
        rotated = int(head_dim.value * share.value) if share else None
        has_alpha = rope_type == "dynamic" and self.model.type.alpha and self.number("alpha")
        if has_alpha or (rope_type == "default" and self.model.type.partial == "ignored"):
            self._warn_ignored(rotated, share or number, head_dim)
            return head_dim
        if share is None:
            return number or head_dim
        if number is not None and number.value != rotated:
            detail = (
                f"partial_rotary_factor {share.value!r} of {head_dim.value} channels is {rotated}, "
                f"which is used; {number} is {number.value}"
            )
            self.model.report.warn("rotary-dim-and-factor-disagree", detail, number.pointer)
        if share.value == 1:
            return head_dim
        return computed(rotated, "head_dim · {}", share, head_dim)

    def _warn_unread(self) -> None:
        """Warn of values at the top that the class does not read, if others are used."""
        for name, unread in self.model.unread.items():
            is_share = name == _SHARE
            number = int(unread.value * self.values["head_dim"].value) if is_share else unread.value
            used_name = "rotary_dim" if is_share else name
            used = self.values.get(used_name) or self.model.value(used_name, warns=False)
            if used is not None and used.value != number:
                said = f"{unread.pointer}: {used_name} is {used.value}"
                detail = f"{self.model.type.name} does not read {said}"
                self.model.report.warn("key-not-read", detail, unread.pointer)

    def _given_rotary_dim(self) -> ResolvedValue | None:
        given = self.block.values.get("rotary_dim") or self.model.given("rotary_dim")
        return given if self.model.type.has_rotary_dim else None

    def _share(self) -> ResolvedValue | None:
        """Return partial_rotary_factor; a rotary_dim of the config replaces the class default."""
        inside, top = self.block.values.get(_SHARE), self.model.given(_SHARE)
        if self.block.is_default and inside and top and inside.value != top.value:
            detail = f"{inside.value} of the {inside} is used, not {top.pointer}"
            self.model.report.warn("key-not-read", detail, top.pointer)
        given = inside or top
        own = self.model.type.rope_parameters_of(self.block.layer_type).get(_SHARE)
        if given is None and own and self._rope_type().value in self.model.type.keeps_share:
            return self.model.type.default(own, self.block.place.at(_SHARE))
        if given is not None or self._given_rotary_dim() is not None:
            return given
        is_whole = self.model.type.defaults.get(_SHARE, 1) == 1
        return None if is_whole else self.model.default(_SHARE)

    def _warn_share(self, used: ResolvedValue, head_dim: ResolvedValue) -> None:
        """Warn of a partial_rotary_factor that contradicts the number of channels."""
        inside = None if self.block.is_default else self.block.values.get(_SHARE)
        share = inside or self.model.given(_SHARE)
        rotated = int(head_dim.value * share.value) if share else used.value
        if share and rotated != used.value and self.model.type.head_dim is None:
            detail = (
                f"{used} is {used.value} channels, which is used; partial_rotary_factor "
                f"{share.value!r} of {head_dim.value} is {rotated}"
            )
            self.model.report.warn("rotary-dim-and-factor-disagree", detail, share.pointer)

    def _warn_ignored(
        self, rotated: int | None, given: ResolvedValue | None, head_dim: ResolvedValue
    ) -> None:
        """Warn of a number or a share of channels that the class ignores."""
        rotated = given.value if given and rotated is None else rotated
        if given and rotated != head_dim.value:
            detail = (
                f"the class of {self.model.type.name} rotates all {head_dim.value} channels where "
                f"rope_type is {self._rope_type().value}, and ignores {given.pointer}, by which it "
                f"would be {rotated}"
            )
            self.model.report.warn("partial-rotary-ignored", detail, given.pointer)

    def _rope_theta(self) -> ResolvedValue:
        """Return rope_theta of the block, the layer type's own key, the top or the class.

        A class may fix it instead. At the top, rope_ratio is a multiple of 10000 (GLM). Class
        defaults, and 10000 for an unknown class, are reported as warnings.
        """
        model, kind = self.model, self.model.type
        if "rope_theta" in kind.fixed:
            theta = float(kind.defaults["rope_theta"])
            return kind.default(theta, model.place.at("model_type"))
        inside, is_default = self.block.values.get("rope_theta"), self.block.is_default
        top = model.given("rope_theta")
        if inside is not None and (not is_default or inside.origin != "class default"):
            if top and top.value != inside.value and not self.block.is_nested:
                detail = f"{inside} is used, and {top.pointer} is {top.value}"
                model.report.warn("said-twice", detail, top.pointer)
            return inside
        own = kind.rope_keys.get(self.block.layer_type, {}).get("rope_theta")
        if kind.rope_keys_of_defaults and not is_default:
            own = None
        given = self._theta_at_top() if own is None else model.given(own)
        if (
            top
            and own not in {None, "rope_theta"}
            and not self._is_read_by_some_layers("rope_theta")
        ):
            detail = f"{kind.name} does not read {top.pointer}, but {own}"
            model.report.warn("key-not-read", detail, top.pointer)
        if own is not None or inside is None or not is_default:
            return given or self._default_theta(has_key=own is not None)
        if given is not None and given.value != inside.value:
            layers = "all layers" if self.label == EVERY_LAYER else self.label
            detail = f"transformers 5.23.0 keeps {inside.value} for {layers}, not {given.pointer}"
            model.report.warn("theta-not-everywhere", detail, given.pointer)
        return inside if given else self._default_theta(has_key=False)

    def _is_read_by_some_layers(self, key: str) -> bool:
        kind = self.model.type
        labels = {*kind.rope_keys, *kind.rope_parameters} - {self.block.layer_type}
        return any(kind.rope_keys.get(label, {}).get(key, key) == key for label in labels)

    def _theta_at_top(self) -> ResolvedValue | None:
        given = self.model.given("rope_theta")
        if given is None:
            ratio = self.model.given("rope_ratio")
            return ratio and computed(_ASSUMED_THETA * ratio.value, "10000 · {}", ratio)
        return given

    def _default_theta(self, *, has_key: bool) -> ResolvedValue:
        """Return the class default of the layer type, or of the model type, or 10000."""
        place, kind = self.model.place, self.model.type
        key = kind.names.get("rope_theta", "rope_theta")
        nested = kind.rope_parameters_of(self.block.layer_type)
        value = nested.get("rope_theta", kind.rope_parameters.get("rope_theta"))
        is_of_type = self.block.is_default or (has_key and not self.block.is_nested)
        if value is None or not is_of_type:
            value = kind.defaults.get("rope_theta", value)
        if value is None:
            detail = f"rope_theta is not in the config, and {_ASSUMED_THETA:.0f} is used"
            place.warn("theta-assumed", detail, key)
            return ResolvedValue(_ASSUMED_THETA, "assumed", pointer=place.at(key))
        what = "rope_theta" if self.label == EVERY_LAYER else f"rope_theta of {self.label}"
        detail = f"{what} is not in the config: {value} is the {kind.origin}"
        place.warn("class-default-used", detail, key)
        if kind.rope_theta_4_57 is not None:
            detail = f"rope_theta is {value} by default, and {kind.rope_theta_4_57} in 4.57.1"
            place.warn("theta-default-changed", detail, key)
        return kind.default(float(value), place.at(key))

    def read_length(self) -> None:
        """Read max_position_embeddings, or assume the original length · factor, or 4096."""
        place, length = self.model.place, self.model.value(_LENGTH)
        if length is None:
            length = ResolvedValue(_ASSUMED_LENGTH, "assumed", pointer=place.at(_LENGTH))
            original, factor = self.values.get(_ORIGINAL), self.values.get("factor")
            if original is not None and factor is not None and factor.value >= 1:
                stretched = int(min(original.value * factor.value, MAX_COUNT))
                product = computed(stretched, "{} · {}", original, factor)
                length = replace(product, pointer=length.pointer)
            detail = f"{_LENGTH} is not in the config: the table's URL is for {length.value} rows"
            place.warn("max-length-assumed", detail, _LENGTH)
        self.length = length

    def _required_length(self) -> ResolvedValue | None:
        """Return max_position_embeddings; None, with a fault, if it is unknown."""
        length = self.model.value(_LENGTH)
        if length is None:
            pointer = self.model.place.at(_LENGTH)
            self.model.report.fault(pointer, None, f"is required for {self.rope_type}")
        return length

    def _original_length(self) -> ResolvedValue | None:
        """Return the length that the model was first trained at; None, with a fault, if unknown.

        As in transformers 5.23.0, the top and its class default take precedence over a flat block;
        of a layer type the block alone is read. max_position_embeddings replaces a missing value.
        """
        top, own = self.model.given(_ORIGINAL), self.block.values.get(_ORIGINAL)
        if self.block.layer_type == EVERY_LAYER:
            top = top or self.model.default(_ORIGINAL)
        elif top and not own and not self.model.type.has_aliases:
            detail = f"{self.model.type.name} does not read {top.pointer} for {self.label}"
            self.model.report.warn("key-not-read", detail, top.pointer)
            top = None
        else:
            top, own = own, top
        given = [value for value in (top, own) if value is not None]
        if len(given) == 2 and given[0].value != given[1].value:
            used, other = given
            detail = f"{used.pointer} is {used.value} and is used; {other.pointer} is {other.value}"
            self.model.report.warn("original-length-in-two-places", detail, other.pointer)
        initial = self.model.given("initial_context_length")
        if given or initial:
            return given[0] if given else initial and initial.alias()
        length = self._required_length()
        if length is None:
            return None
        detail = f"{_ORIGINAL} is not in the config: {_LENGTH}, {length.value}, is used"
        self.block.place.warn("original-length-assumed", detail, _ORIGINAL)
        pointer = self.block.place.at(_ORIGINAL)
        return replace(computed(length.value, "{}", length), pointer=pointer)

    def _put_lengths_and_factor(self) -> bool:
        """Add the original length and the factor; return False, with a fault, if one is unknown.

        A missing factor is max_position_embeddings / original length.
        """
        original, factor = self._original_length(), self.block.values.get("factor")
        if factor is None:
            length = self._required_length()
            if length is None or original is None:
                return False
            factor = computed(length.value / original.value, "{} / {}", length, original)
        if original is None:
            return False
        self.values |= {_ORIGINAL: original, "factor": factor}
        if self._has("factor"):
            self._warn_implicit(factor, original)
        return True

    def _warn_implicit(self, factor: ResolvedValue, original: ResolvedValue) -> None:
        length = self.model.value(_LENGTH, warns=False)
        is_assumed = original.origin == "computed"
        if length is None or is_assumed or length.value == factor.value * original.value:
            return
        implicit = length.value / original.value
        detail = (
            f"factor is {factor.value!r} and is used; {_LENGTH} / {_ORIGINAL} is "
            f"{length.value} / {original.value} = {implicit!r}"
        )
        self.model.report.warn("implicit-factor-differs", detail, factor.pointer)

    def _put_sections(self) -> None:
        """Add mrope_section, with its order, of the config or the class.

        Sections for other than three axes are left out with a warning: the table then is that of
        text, where all axes have the same position.
        """
        section, own = self.block.values.get("mrope_section"), self.model.type.mrope
        place, kind = self.block.place, self.model.type
        if section is None and own is not None and own.section is not None:
            if sum(own.section) != self.values["rotary_dim"].value // 2:
                return
            section = kind.default(own.section, place.at("mrope_section"))
            detail = f"mrope_section is not in the config: {own.section} is the {kind.origin}"
            place.warn("class-default-used", detail, "mrope_section")
        arrangement = own.arrangement if own else None
        if section is None:
            if arrangement is None or LAYOUTS[arrangement].sections != (2,):
                return
            width = self.values["rotary_dim"]
            section = computed(2 * (width.value // 4,), "two equal sections", width)
        if arrangement:
            layout = kind.default(arrangement, section.pointer)
            self.values |= {"mrope_section": section, "mrope_layout": layout}
            return
        if len(section.value) != 3:
            listed = f"sections {', '.join(map(str, section.value))}"
            self.warn("mrope-axes", f"{listed} are not of axes t, h and w in turn", "mrope_section")
            return
        default = kind.default(own.interleaved if own else False, place.at("mrope_interleaved"))
        if own is None:
            formula = "chunked unless given"
            default = replace(default, origin="computed", sources=(), formula=formula)
        self.values["mrope_section"] = section
        self.values["mrope_interleaved"] = self.block.values.get("mrope_interleaved") or default

    def read_keys(self) -> None:
        """Read the required keys of the rule's class, and its other keys that the block has."""
        rule = rule_of(self.rope_type, self.block.values)
        self._put_required(*rule.required_keys())
        self._put(*rule.config_keys())

    def read_dynamic(self) -> None:
        self._put_unless_zero("alpha")
        if "alpha" in self.values:
            return
        length = self._required_length()
        if not self._put_required("factor") or length is None:
            return
        self.values[_LENGTH] = length
        grown = min(max(self.number("factor") * length.value, length.value + 1), MAX_LENGTH)
        self.lengths = (length.value, int(grown))
        detail = f"the base grows with lengths beyond {length.value}: it depends on context_length"
        self.warn("dynamic-is-stateful", detail, "factor")

    def read_llama3(self) -> None:
        has_factors = self._put_required("factor", "low_freq_factor", "high_freq_factor")
        original = self._original_length()
        if original is not None:
            self.values[_ORIGINAL] = original
        low = self.number("low_freq_factor")
        if has_factors and low == self.number("high_freq_factor"):
            detail = f"low_freq_factor and high_freq_factor are both {low!r}: nothing is smoothed"
            self.warn("low-equals-high-freq-factor", detail, "high_freq_factor")

    def read_proportional(self) -> None:
        share = self._share()
        if share is not None:
            self.values[_SHARE] = share
        self._put("factor")

    def read_longrope(self) -> None:
        has_lists = self._put_required("short_factor", "long_factor")
        if not self._put_lengths_and_factor() or not has_lists:
            return
        pairs, original = self.values["rotary_dim"].value // 2, self.values[_ORIGINAL].value
        short, long = (self.values[name] for name in ("short_factor", "long_factor"))
        for factors in (short, long):
            if len(factors.value) != pairs:
                rule = f"has {len(factors.value)} factors for {pairs} rotated pairs of channels"
                self.model.report.fault(factors.pointer, factors.value, rule)
        longest = self.model.value(_LENGTH, warns=False)
        self.lengths = (original, max(longest.value if longest else 0, original + 1))
        self._put("attention_factor")
        names = self.model.type.mscale_keys or ("short_mscale", "long_mscale")
        if all(map(self._has, names)):
            self.mscales = tuple(self.block.values[name] for name in names)
            self.values["attention_factor"] = self.mscales[0]
        if short.value != long.value:
            detail = f"short_factor is used up to a length of {original}, long_factor beyond"
            self.warn("longrope-regimes", detail, "long_factor")

    def read_yarn(self) -> None:
        if not self._put_lengths_and_factor():
            return
        self._put_unless_zero("beta_fast", "beta_slow")
        self._put("truncate", "mscale", "mscale_all_dim", "attention_factor")
        self._warn_truncate()
        self._warn_mscale()
        factor = self.block.values.get("attention_factor")
        if factor is None:
            self._put_attention_factor()
        elif factor.pointer.endswith("/attn_factor"):
            detail = "attn_factor is used, as in vLLM; transformers reads attention_factor alone"
            self.warn("attn-factor-alias", detail, "attention_factor")

    def _put_attention_factor(self) -> None:
        """Add the attention factor of classes that do not use YaRN's, and of TeleChat3."""
        own = self.model.type.defaults.get("attention_factor")
        rope_type = self.block.values.get("rope_type")
        if own is not None and not self.block.is_nested:
            pointer = self.block.place.at("attention_factor")
            self.values["attention_factor"] = self.model.type.default(own, pointer)
        elif rope_type is not None and rope_type.value == "telechat3-yarn":
            value, formula = self._telechat_attention_factor()
            self.values["attention_factor"] = computed(value, formula, rope_type)
            detail = f"attention_factor is {formula}; that of YaRN has 0.1 for 0.07"
            self.warn("telechat-yarn", detail, "rope_type")

    def _telechat_attention_factor(self) -> tuple[float, str]:
        """Return g(mscale)/g(mscale_all_dim) with g(m) = 0.07·m·ln f + 1, or g(1) without both."""
        mscales = [Decimal(self.number(name)) for name in ("mscale", "mscale_all_dim")]
        formula = "(0.07·mscale·ln factor + 1)/(0.07·mscale_all_dim·ln factor + 1)"
        if not all(mscales):
            mscales, formula = [Decimal(1), Decimal(0)], "0.07·ln factor + 1"
        factor = Decimal(self.values["factor"].value)
        terms = [yarn_mscale(factor, mscale, _SLOPE_OF_TELECHAT) for mscale in mscales]
        return float(exact_context().divide(*terms)), formula

    def _warn_truncate(self) -> None:
        if self.number("truncate", 1):
            return
        detail = (
            "ggml and mlx-lm 0.32 round the range of YaRN outwards, which truncate: false forbids"
        )
        self.warn("truncate-not-representable", detail, "truncate")
        if self.block.is_nested:
            detail = f"truncate: false of {self.label} is used; transformers 5.23.0 ignores it"
            self.warn("truncate-ignored-when-nested", detail, "truncate")
        elif self.model.type.rope_parameters_of(self.block.layer_type):
            del self.values["truncate"]
            detail = "truncate: false is not used: transformers 5.23.0 ignores it by layer type"
            self.warn("truncate-ignored-when-nested", detail, "truncate")

    def _warn_mscale(self) -> None:
        mscale, all_dim = self.number("mscale"), self.number("mscale_all_dim")
        has_factor = self._has("attention_factor")
        if has_factor and mscale and all_dim:
            detail = "attention_factor is used, not mscale and mscale_all_dim"
            self.warn("attention-factor-and-mscale", detail, "mscale")
        elif not has_factor and mscale not in {0.0, 1.0} and not all_dim:
            detail = (
                f"mscale is {mscale!r} without mscale_all_dim: transformers takes 0.1·ln factor + "
                "1 (as here), DeepSeek's own code and vLLM 0.1·mscale·ln factor + 1"
            )
            self.warn("deepseek-mscale-ambiguity", detail, "mscale")


# The other rules have only the keys of their class.
_READERS: Mapping[str, Callable[[LayerSettings], None]] = {
    "dynamic": LayerSettings.read_dynamic,
    "llama3": LayerSettings.read_llama3,
    "proportional": LayerSettings.read_proportional,
    "longrope": LayerSettings.read_longrope,
    "yarn": LayerSettings.read_yarn,
}
