"""onnxruntime: rotations by the operator RotaryEmbedding, with a table in float32."""

from loop import Unsupported, parameters_of, serve, width_of

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

FLOAT, NAMES = TensorProto.FLOAT, ("x", "cos", "sin")


def session_of(width, *, pairs):
    node = helper.make_node(
        "RotaryEmbedding", NAMES, ["y"], interleaved=int(pairs), rotary_embedding_dim=width
    )
    inputs = [helper.make_tensor_value_info(each, FLOAT, None) for each in NAMES]
    output = helper.make_tensor_value_info("y", FLOAT, None)
    graph = helper.make_graph([node], "rotary", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    return onnxruntime.InferenceSession(model.SerializeToString())


def answer(case):
    known = ("head_dim", "rotary_dim", "partial_rotary_factor", "rope_theta", "layout")
    given, positions = parameters_of(case, *known), np.array(case.get("positions", ()))
    if case["resource"] != "/rope/apply" or not len(positions):
        raise Unsupported(case["resource"])
    x, width = np.array(case["x"], dtype=np.float32), width_of(given)
    # The operator takes a table, which is not what is judged.
    angles = positions[:, None] * given["rope_theta"] ** (-np.arange(0, width, 2) / width)
    cos, sin = (each(angles)[None].astype(np.float32) for each in (np.cos, np.sin))
    session = session_of(width, pairs=given["layout"] == "interleaved")
    heads = x.reshape(1, -1, *x.shape[-2:])
    (rotated,) = session.run(None, {"x": heads, "cos": cos, "sin": sin})
    return {"dtype": "float32", "arrays": {"rotated": rotated.reshape(x.shape)}}


offers = {"kinds": ["rotate"], "rope_types": ["default"]}
serve("onnxruntime", onnxruntime.__version__, answer, **offers)
