"""Parameters that say how many channels of a head turn."""

from pydantic import Field

from service.delivery.parameters import Parameters
from service.grammar import Integer, Real
from service.routes.parameters import impossible
from service.tables.limits import MAX_CHANNELS


class WidthParameters(Parameters):
    """Parameters that say how wide a head is, and how much of it turns."""

    head_dim: Integer | None = Field(
        default=None,
        ge=1,
        le=MAX_CHANNELS,
        description="Channels of a head; required unless rotary_dim or inv_freq is given.",
        examples=[128],
    )
    rotary_dim: Integer | None = Field(
        default=None,
        ge=2,
        le=MAX_CHANNELS,
        multiple_of=2,
        description="Channels that turn, the first ones of a head; all unless given.",
        examples=[64],
    )
    partial_rotary_factor: Real | None = Field(
        default=None,
        gt=0,
        le=1,
        description="In place of rotary_dim: its share of head_dim, cut to an integer. With "
        "rope_type=proportional the share of the pairs that turn, in heads that are all rotary.",
        examples=[0.5],
    )

    def turning_channels(self, head_dim: int | None) -> int | None:
        """Give how many channels turn, an even number; None where nothing says it.

        Args:
            head_dim: channels of a head, if they are known.
        """
        if self.partial_rotary_factor is not None:
            return self._share_of(head_dim, self.partial_rotary_factor)
        if self.rotary_dim is None:
            return paired("head_dim", head_dim, head_dim)
        if head_dim is not None and self.rotary_dim > head_dim:
            rule = f"rotary_dim must be at most head_dim, {head_dim}"
            raise impossible("rotary_dim", self.rotary_dim, rule)
        return self.rotary_dim

    def _share_of(self, head_dim: int | None, factor: float) -> int | None:
        if self.rotary_dim is not None:
            rule = "partial_rotary_factor does not go with rotary_dim"
            raise impossible("partial_rotary_factor", factor, rule)
        if head_dim is None:
            rule = "head_dim is required with partial_rotary_factor"
            raise impossible("head_dim", None, rule)
        return paired("partial_rotary_factor", factor, int(head_dim * factor))


def paired(origin: str, value: object, rotary_dim: int | None) -> int | None:
    """Refuse a number of channels that do not go in pairs, naming the parameter it came from."""
    if rotary_dim is not None and (rotary_dim % 2 or rotary_dim < 2):
        rule = f"channels turn in pairs: {origin} gives {rotary_dim}, not an even number from 2 on"
        raise impossible(origin, value, rule)
    return rotary_dim


def rotary_offset_field() -> int:
    """Make the field of the channels of a head before the first that turns."""
    field: int = Field(
        default=0,
        ge=0,
        le=MAX_CHANNELS,
        description="Channels of a head before the first that turns.",
        examples=[0],
    )
    return field
