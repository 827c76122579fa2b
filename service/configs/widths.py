"""How wide a head is, and how many of its channels turn."""

from service.configs.blocks import Block
from service.configs.lookup import Found, Log
from service.configs.text import TextModel
from service.tables.limits import MAX_CHANNELS


def head_dim_of(model: TextModel, label: str, log: Log) -> Found | None:
    """Give the width of the heads that rotary embeddings see; None, and a fault, if it is unknown.

    A config's own key wins over the class default, and that over hidden_size //
    num_attention_heads, as in transformers; an explicit null asks for the last.
    """
    if "head_dim" in model.type.fixed:
        return _fixed(model, log)
    own = model.type.head_dim_by_layer_type.get(label)
    if own is not None:
        return _outright(model, own, log)
    if model.type.head_dim is not None:
        return _outright(model, model.type.head_dim, log) or _share_of_hidden_size(model, log)
    is_null = "head_dim" in model.place.content and not model.given("head_dim")
    found = model.given("head_dim") if is_null else model.value("head_dim", log)
    return found or _share_of_hidden_size(model, log)


def _fixed(model: TextModel, log: Log) -> Found | None:
    found = _share_of_hidden_size(model, log)
    if found is not None:
        model.caution_of_unread("head_dim", found, log)
    return found


def _outright(model: TextModel, key: str, log: Log) -> Found | None:
    return model.values.get(key) or model.default(key, log) or model.value("head_dim", log)


def _share_of_hidden_size(model: TextModel, log: Log) -> Found | None:
    hidden, heads = model.value("hidden_size", log), model.value("num_attention_heads", log)
    if hidden is None or heads is None:
        rule = "is required, or hidden_size with num_attention_heads (or n_embd with n_head)"
        log.fault(model.place.at("head_dim"), None, rule)
        return None
    formula, times = f"{hidden.origin} // {heads.origin}", model.type.hidden_times
    if times > 1:
        formula = f"{times} · {formula}"
    pointer = model.place.at("head_dim")
    if not model.is_known:
        detail = f"head_dim is not in the config: {hidden.value} // {heads.value} was taken"
        log.caution("head-dim-computed", detail, pointer)
    if times * hidden.value % heads.value:
        detail = f"{heads.value} heads do not divide {times * hidden.value} channels"
        log.caution("heads-do-not-divide", detail, heads.pointer)
    width = times * hidden.value // heads.value
    if not 1 <= width <= MAX_CHANNELS:
        log.fault(hidden.pointer, hidden.value, f"// {heads.value} heads is no width of a head")
        return None
    return Found(width, f"computed: {formula}", hidden.pointer)


def rotary_dim_of(
    model: TextModel, block: Block, rope_type: str, head_dim: Found, log: Log
) -> Found:
    """Give the number of channels that turn with a position, or for ``proportional`` all."""
    found = _rotary_dim_of(model, block, rope_type, head_dim, log)
    if model.type.axes == 1:
        return found
    return found.computed(found.value // model.type.axes, f"{found.origin} // axes")


def _rotary_dim_of(
    model: TextModel, block: Block, rope_type: str, head_dim: Found, log: Log
) -> Found:
    key = model.type.rotary_dim
    if key is not None:
        found = model.values.get(key) or model.default(key, log)
        if found is not None:
            _caution_of_outright(model, block, found, head_dim, log)
            return found
    if rope_type == "proportional":
        return head_dim
    share, outright = share_of(model, block, log), _rotary_dim_given(model, block)
    if rope_type == "default" and model.type.partial == "ignored":
        _caution_of_ignored(model, share, outright, head_dim, log)
        return head_dim
    if share is None:
        return outright or head_dim
    return _share_of(head_dim, share, outright, log)


def _caution_of_outright(
    model: TextModel, block: Block, held: Found, head_dim: Found, log: Log
) -> None:
    """Warn of a share that says another number than the key that holds."""
    inside = None if block.is_default else block.values.get("partial_rotary_factor")
    share = inside or model.given("partial_rotary_factor")
    if share is None or model.type.head_dim is not None:
        return
    turned = int(head_dim.value * share.value)
    if turned != held.value:
        detail = (
            f"{held.origin} says {held.value} channels, which was taken, and partial_rotary_factor "
            f"{share.value!r} of {head_dim.value} is {turned}"
        )
        log.caution("rotary-dim-and-factor-disagree", detail, share.pointer)


def share_of(model: TextModel, block: Block, log: Log) -> Found | None:
    """Give partial_rotary_factor; a rotary_dim of the config wins over the class default."""
    inside, top = block.values.get("partial_rotary_factor"), model.given("partial_rotary_factor")
    if block.is_default and inside and top and inside.value != top.value:
        detail = f"{inside.value} of the {inside.origin} holds, not {top.pointer}"
        log.caution("key-not-read", detail, top.pointer)
    given = inside or top
    if given is not None or _rotary_dim_given(model, block) is not None:
        return given
    whole = model.type.defaults.get("partial_rotary_factor", 1) == 1
    return None if whole else model.default("partial_rotary_factor", log)


def _rotary_dim_given(model: TextModel, block: Block) -> Found | None:
    return block.values.get("rotary_dim") or model.given("rotary_dim")


def _share_of(head_dim: Found, share: Found, outright: Found | None, log: Log) -> Found:
    rotary_dim = int(head_dim.value * share.value)
    if outright is not None and outright.value != rotary_dim:
        detail = (
            f"partial_rotary_factor {share.value!r} of {head_dim.value} channels is {rotary_dim}, "
            f"which was taken, and {outright.origin} says {outright.value}"
        )
        log.caution("rotary-dim-and-factor-disagree", detail, outright.pointer)
    if share.value == 1:
        return head_dim
    return share.computed(rotary_dim, f"head_dim · {share.origin}")


def _caution_of_ignored(
    model: TextModel, share: Found | None, outright: Found | None, head_dim: Found, log: Log
) -> None:
    turned = outright.value if outright else head_dim.value
    if share is not None:
        turned = int(head_dim.value * share.value)
    said = share or outright
    if said is None or turned == head_dim.value:
        return
    detail = (
        f"the class of {model.type.name} turns all {head_dim.value} channels where rope_type is "
        f"default, and ignores {said.pointer}, by which it would be {turned}"
    )
    log.caution("partial-rotary-ignored", detail, said.pointer)
