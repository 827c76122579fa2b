"""What rotary-embedding-torch and x-transformers have in common: a base and positions rescaled."""

from tests.parity.asking import Query


def rescaled(dim: int, theta: float, rescale: float, interpolation: float) -> Query:
    """Say frequencies (θ·rescale^(d/(d−2)))^(−2k/d) of positions that a number divides."""
    query: Query = {"rotary_dim": dim, "rope_theta": theta}
    if rescale == 1:
        return query | {"rope_type": "linear", "factor": interpolation}
    if interpolation == 1:
        return query | {"rope_type": "dynamic", "alpha": rescale}
    query["rope_theta"] = theta * rescale ** (dim / (dim - 2))
    return query | {"rope_type": "linear", "factor": interpolation}
