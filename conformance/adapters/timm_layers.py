"""timm: rotary tables of grids, and their sines and cosines added to patches."""

from loop import Unsupported, parameters_of, serve, without_imports

from importlib.metadata import version

without_imports("timm", "timm.layers")
from timm.layers import pos_embed_sincos as timm

CATEGORIES = {"timm": {"in_pixels": False}, "timm_pixels": {"in_pixels": True, "max_res": 224}}


def axial(case):
    own = ("convention", "head_dim", "grid", "reference_grid", "normalize_coords")
    given = parameters_of(case, *own)
    width, grid = given["head_dim"], given["grid"]
    if given["convention"] == "dinov3":
        coordinates = {"normalize_coords": given.get("normalize_coords", "separate")}
        rope = timm.RotaryEmbeddingDinoV3(width, **coordinates)
        return {"pack": "sin_half_concat", "arrays": {"rope": rope.get_embed(grid)}}
    if given["convention"] not in CATEGORIES:
        raise Unsupported(given["convention"])
    trained = {"ref_feat_shape": given.get("reference_grid")}
    rope = timm.RotaryEmbeddingCat(width, **CATEGORIES[given["convention"]], **trained)
    return {"pack": "sin_interleaved_concat", "arrays": {"rope": rope.get_embed(grid)}}


def answer(case):
    if case["kind"] == "table":
        if case["resource"] != "/rope/axial":
            raise Unsupported(case["resource"])
        return {"dtype": "float32", **axial(case)}
    given = parameters_of(case, "convention", "height", "width", "d_model")
    if given["convention"] != "timm":
        raise Unsupported(given["convention"])
    array = timm.build_sincos2d_pos_embed([given["height"], given["width"]], given["d_model"])
    return {"dtype": "float32", "arrays": {"array": array}}


offers = {
    "kinds": ["table", "array"],
    "rope_types": [],
    "resources": ["/rope/axial", "/encoding/grid"],
}
serve("timm", version("timm"), answer, **offers)
