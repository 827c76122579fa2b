"""What a caller should know about how a config was read: stable codes, and what each means."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "attention-factor-and-mscale": "attention_factor is given and wins over mscale and "
        "mscale_all_dim, which are given too",
        "attn-factor-alias": "attn_factor is read as attention_factor, which not all engines do",
        "class-default-used": "a value that is not in the config is the default of the model's "
        "class",
        "context-length-unused": "a context_length was asked for, and no frequency rule depends on "
        "it",
        "deepseek-mscale-ambiguity": "mscale without mscale_all_dim: transformers and DeepSeek's "
        "own code derive other attention factors of it",
        "dynamic-is-stateful": "the base grows with the length, and engines differ on which length "
        "that is",
        "factor-below-one": "a factor below 1 speeds frequencies up",
        "frequencies-per-axis": "the table is that of one axis of several",
        "head-dim-computed": "the width of a head of an unknown model type was computed",
        "heads-do-not-divide": "hidden_size is no multiple of num_attention_heads, of which the "
        "width of a head was computed",
        "implicit-factor-differs": "factor is not max_position_embeddings / "
        "original_max_position_embeddings",
        "key-not-read": "the model's class does not read a key, whatever it says",
        "last-channels-turn": "the last channels of a head turn, not the first",
        "layer-count-differs": "a list by layer is not as long as num_hidden_layers",
        "layers-unknown": "which layers an entry is for cannot be told",
        "layers-without-rule": "some layers are of a type that no frequency rule is for",
        "layout-assumed": "which channels turn together is not in the config, and was assumed",
        "longrope-regimes": "one list of factors holds up to the original length, another beyond",
        "low-equals-high-freq-factor": "nothing lies between the wavelengths kept and those "
        "divided",
        "max-length-assumed": "the config says no maximal length: the table's URL has a number of "
        "rows of our own",
        "mixed-layout": "the rotation reads one layout and writes the other",
        "model-type-missing": "without a model_type, no class defaults are known",
        "model-type-unknown": "no class defaults are known for this model_type",
        "mrope-axes": "sections for several position axes that the table's URL does not name",
        "no-rotary-embedding": "models of this type have no rotary embedding",
        "nope-layers": "some layers have no rotary embedding",
        "original-length-assumed": "original_max_position_embeddings is not in the config, and "
        "max_position_embeddings was taken",
        "original-length-in-two-places": "two original_max_position_embeddings differ",
        "partial-rotary-ignored": "models of this class turn whole heads, whatever "
        "partial_rotary_factor says",
        "per-layer-rope": "layers of different types have rotary embeddings of their own",
        "rope-scaling-and-rope-parameters-both": "rope_scaling is given and replaces "
        "rope_parameters, which differs",
        "rotary-dim-and-factor-disagree": "partial_rotary_factor and rotary_dim name different "
        "numbers of channels",
        "scaled-rope-assumed": "use_scaled_rope names no numbers: those of Llama 3.1 were taken",
        "softmax-scale-unknown": "whether a class of which nothing is known multiplies the scale "
        "of the softmax by mscale_all_dim cannot be told",
        "table-incomplete": "the angles depend on what no config says",
        "telechat-yarn": "the attention factor of TeleChat3's YaRN is not that of YaRN",
        "theta-assumed": "rope_theta is not in the config of an unknown model type, and 10000 was "
        "taken",
        "theta-default-changed": "the class default of rope_theta is another one in transformers "
        "4.57.1",
        "theta-not-everywhere": "transformers keeps a class default of rope_theta, for some layers "
        "or for all",
        "truncate-ignored-when-nested": "transformers 5.23.0 ignores truncate: false within "
        "parameters by layer type",
        "truncate-not-representable": "some engines always round the range of YaRN outwards",
        "turns-inversely": "models of this class turn by the negative angle",
        "type-and-rope-type-disagree": "rope_type is given and wins over type, which differs",
        "unknown-rope-key": "a key of rotary settings that nothing reads",
        "zero-ignored": "a number that may not be 0 is 0, and was read as if it were not given",
    }
)
"""Every code, with what it means."""


@dataclass(frozen=True)
class ConfigWarning:
    """Something in a config, or missing from it, that can go wrong elsewhere.

    Attributes:
        code: a key of MEANINGS.
        detail: what it is about in this config.
        pointer: a JSON pointer to where it is, or would be given.
    """

    code: str
    detail: str
    pointer: str

    def __post_init__(self) -> None:
        if self.code not in MEANINGS:
            raise ValueError(f"{self.code} is not a code of a warning")
