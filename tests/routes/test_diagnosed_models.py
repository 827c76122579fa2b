"""``/diagnose`` and ``/compare`` take a model in place of a table, and arrays of its layers."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from numpy.typing import NDArray
from safetensors.numpy import save

from service.routes.diagnosed_models import ModelDiagnosis
from tests.client import Client, load_npy
from tests.models.gguf_files import gguf_file, model
from tests.openapi import report_schema

Array = NDArray[Any]
Json = dict[str, Any]
SCHEMA = Draft202012Validator(report_schema(ModelDiagnosis))
SIZES: Json = {"hidden_size": 256, "num_attention_heads": 4, "max_position_embeddings": 8192}
LLAMA: Json = {"model_type": "llama", **SIZES, "num_hidden_layers": 4, "rope_theta": 500000.0}
LLAMA3: Json = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 1024,
}  # fmt: skip
# Every sixth layer has a base of 1,000,000, the others of 10,000.
GEMMA: Json = {"model_type": "gemma3_text", **SIZES, "head_dim": 64, "num_hidden_layers": 12}
# Every fourth layer does not turn.
SMOLLM: Json = {"model_type": "smollm3", **SIZES, "num_hidden_layers": 8}
X = np.random.default_rng(1).standard_normal((2, 24, 64)).astype(np.float32)


def frequencies(base: float, width: int = 64) -> Array:
    return base ** (-np.arange(0, width, 2) / width)


def rotated(omega: Array, layout: str = "half", x: Array = X) -> Array:
    """Return vectors turned by their rows' positions, in float32."""
    angles, count = np.outer(np.arange(x.shape[-2]), omega), len(omega)
    first, second = np.arange(count), np.arange(count) + count
    if layout == "interleaved":
        first, second = 2 * np.arange(count), 2 * np.arange(count) + 1
    cos, sin, turned = np.cos(angles), np.sin(angles), x.astype(np.float64)
    a, b = turned[..., first], turned[..., second]
    turned[..., first], turned[..., second] = a * cos - b * sin, b * cos + a * sin
    return turned.astype(np.float32)


def as_bytes(document: Json | bytes) -> Array:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return np.frombuffer(text, np.uint8)


def post(
    client: Client, path: str, arrays: Mapping[str, Array], document: Any = None, **options: Any
) -> Any:
    """POST arrays as safetensors, with a document beside them."""
    own = {"model": as_bytes(document)} if document is not None else {}
    body = save({name: np.ascontiguousarray(each) for name, each in {**arrays, **own}.items()})
    headers = {"Content-Type": "application/vnd.safetensors", **options}
    return client.post(path, content=body, headers=headers)


def diagnose(
    client: Client, document: Json | bytes, query: Any = "", **arrays: Array
) -> ModelDiagnosis:
    answer = post(client, f"/diagnose?{query}", arrays, document)
    assert answer.status_code == 200, answer.text
    SCHEMA.validate(answer.json())
    return ModelDiagnosis.model_validate_json(answer.text)


def refusal(client: Client, document: Any, path: Any = "/diagnose", **arrays: Array) -> str:
    answer = post(client, path, arrays, document)
    assert answer.status_code == 422, answer.text
    return str(answer.json()["detail"])


def names(report: ModelDiagnosis) -> list[str]:
    return [each.name for each in report.mistakes]


@pytest.mark.parametrize("base", [500000.0, 10000.0], ids=["right", "mistaken"])
def test_rows_of_a_transposed_table_are_its_last_axis(client: Client, base: float) -> None:
    angles = np.outer(np.arange(300), frequencies(base))
    cos, sin = (wave(angles).astype(np.float32) for wave in (np.cos, np.sin))

    for arrays in ({"x": np.concatenate([cos, sin], axis=1).T}, {"cos": cos.T, "sin": sin.T}):
        report = diagnose(client, LLAMA, **arrays).model_dump(exclude_none=True)
        assert "transposed" in [each["name"] for each in report["mistakes"]]
        assert report["checked"].keys() == {"elements"}
        assert "seq_len=300" in report["correct"]["url"]


NEOX: Json = {"model_type": "gpt_neox", **SIZES, "rotary_pct": 0.25, "num_hidden_layers": 4}
COHERE: Json = {"model_type": "cohere", **SIZES, "num_hidden_layers": 4, "rope_theta": 500000.0}
TWICE = {
    "half": lambda wave: np.concatenate([wave, wave], axis=1),
    "interleaved": lambda wave: np.repeat(wave, 2, axis=1),
}


@pytest.mark.parametrize(
    ("document", "base", "width", "pack"),
    [(LLAMA, 5e5, 64, "half"), (NEOX, 1e4, 16, "half"), (COHERE, 5e5, 64, "interleaved")],
    ids=["llama", "neox", "cohere"],
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, 24, 64])
def test_array_of_no_name_may_be_cosines_or_sines_alone(
    client: Client, document: Json, base: float, width: int, pack: str, dtype: Any, rows: int
) -> None:
    angles = np.outer(np.arange(rows), frequencies(base, width))
    cos, sin = (TWICE[pack](wave(angles)).astype(dtype) for wave in (np.cos, np.sin))

    for name in ("x", "table"):
        report = diagnose(client, document, **{name: cos})
        assert report.verdict == "equal"
        assert report.sentence.startswith("These are the cosines of the table alone")
    if rows > 1:
        assert diagnose(client, document, x=sin).sentence.startswith("These are the sines")
        other = TWICE[pack](np.cos(np.outer(np.arange(rows), frequencies(777.0, width))))
        assert names(diagnose(client, document, x=other.astype(dtype))) == ["wrong-base"]


def test_rotation_is_examined_against_the_settings_of_the_model(client: Client) -> None:
    right = diagnose(client, LLAMA, x=X, rotated=rotated(frequencies(500000)))
    wrong = diagnose(client, LLAMA, x=X, rotated=rotated(frequencies(10000)))

    assert (right.verdict, right.mistakes) == ("equal", [])
    assert right.expected.encoding == "rotary"
    assert right.expected.layout == "half"
    assert right.expected.values["rope_theta"].sources == ["/rope_theta"]
    assert (wrong.verdict, names(wrong)) == ("diagnosed", ["wrong-base"])
    assert "10000" in wrong.sentence
    assert "500000" in wrong.sentence


@pytest.mark.parametrize("is_batch", [True, False])
def test_heads_before_channels_are_known_by_their_number(client: Client, is_batch: bool) -> None:
    x = np.random.default_rng(2).standard_normal((1, 4, 24, 64)).astype(np.float32)
    right, wrong = (rotated(frequencies(base), x=x) for base in (500000, 10000))
    # The heads turn by their number, as if they were positions.
    along_heads = rotated(frequencies(500000), x=x.swapaxes(1, 2))

    def sent(array: Array) -> Array:
        return array.swapaxes(1, 2) if is_batch else array.swapaxes(1, 2)[0]

    assert diagnose(client, LLAMA, x=sent(x), rotated=sent(right)).verdict == "equal"
    assert names(diagnose(client, LLAMA, x=sent(x), rotated=sent(wrong))) == ["wrong-base"]
    (swapped,) = diagnose(
        client, LLAMA, x=sent(x), rotated=along_heads if is_batch else along_heads[0]
    ).mistakes
    assert swapped.name == "axes-swapped"
    own = swapped.content()
    assert (own["have"], own["want"]) == ((2, 1) if is_batch else (1, 0))


def test_axes_of_one_length_are_those_of_heads_and_positions(client: Client) -> None:
    x = np.random.default_rng(2).standard_normal((1, 4, 4, 64)).astype(np.float32)

    assert (
        diagnose(client, LLAMA, x=x, rotated=rotated(frequencies(500000), x=x)).verdict == "equal"
    )


def test_layout_of_the_model_is_expected(client: Client) -> None:
    swapped = rotated(frequencies(500000), "interleaved")

    assert names(diagnose(client, LLAMA, x=X, rotated=swapped)) == ["layout-swapped"]


def test_mistake_has_the_keys_of_engines_that_mend_it(client: Client) -> None:
    report = diagnose(client, LLAMA, x=X, rotated=rotated(frequencies(10000)))

    keys = report.mistakes[0].content()["keys"]
    assert keys["gguf"] == "llama.rope.freq_base"
    assert keys["llama.cpp"] == "--rope-freq-base"
    assert keys["transformers"].startswith("rope_parameters.rope_theta")


def test_forgotten_rule_has_its_settings_and_the_keys_of_engines(client: Client) -> None:
    config = {**LLAMA, "rope_scaling": {"type": "linear", "factor": 4.0}}

    report = diagnose(client, config, x=X, rotated=rotated(frequencies(500000)))

    (wrong,) = report.mistakes
    assert (wrong.name, wrong.content()["settings"]) == ("config-key-ignored", ["factor"])
    assert "gguf" in wrong.content()["keys"]


def test_wrong_frequencies_say_how_far_scores_move(client: Client) -> None:
    cos, sin = (
        part(np.outer(np.arange(48), frequencies(10000))).astype(np.float32)
        for part in (np.cos, np.sin)
    )
    tables = diagnose(client, LLAMA, cos=cos, sin=sin)
    report = diagnose(client, LLAMA, x=X, rotated=rotated(frequencies(10000)))

    apart = frequencies(500000) - frequencies(10000)
    assert [each.distance for each in report.scores] == [2**k for k in range(14)]
    for each in report.scores:
        assert each.agreement == pytest.approx(np.cos(each.distance * apart).mean(), abs=6e-5)
    assert tables.scores == report.scores


@pytest.mark.parametrize(
    "arrange",
    [
        lambda cos, sin: {"cos": cos, "sin": sin},
        lambda cos, sin: {"cos": np.tile(cos, 2), "sin": np.tile(sin, 2)},
        lambda cos, _: {"cos": np.tile(cos, 2)[None]},
        lambda cos, sin: {"cos_cache": cos, "sin_cache": sin},
        lambda cos, sin: {"cos_sin_cache": np.concatenate([cos, sin], axis=1)},
        lambda cos, sin: {"cos_sin_cache": np.concatenate([cos, sin], axis=1).astype(np.float16)},
        lambda cos, sin: {"freqs_cis": np.stack([cos, sin], axis=-1)},
        lambda cos, sin: {"layers.2.cos": cos, "layers.2.sin": sin},
    ],
)
def test_tables_may_have_any_packing(client: Client, arrange: Any) -> None:
    angles = np.outer(np.arange(48), frequencies(500000))
    arrays = arrange(np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32))

    assert diagnose(client, LLAMA, **arrays).verdict == "equal"


def test_one_axis_is_that_of_frequencies(client: Client) -> None:
    inv_freq = frequencies(500000).astype(np.float32)

    assert diagnose(client, LLAMA, inv_freq=inv_freq).verdict == "equal"


@pytest.mark.parametrize(
    "config",
    [
        {**LLAMA, "rope_scaling": LLAMA3},
        {"model_type": "gpt_oss", "head_dim": 64, "num_hidden_layers": 4},
        {"model_type": "qwen2_vl", **SIZES, "rope_theta": 1e6, "rope_scaling": {
            "type": "mrope", "mrope_section": [8, 12, 12]}},
        {"model_type": "gpt_neox", **SIZES, "rotary_pct": 0.25, "rotary_emb_base": 10000},
    ],
    ids=lambda config: config["model_type"],
)  # fmt: skip
def test_rotation_by_the_links_of_model_is_equal(client: Client, config: Json) -> None:
    encoding = client.post("/model", json=config).json()["encodings"][0]
    apply = encoding["links"]["apply"]
    body = save({"x": X})
    headers = {"Content-Type": "application/vnd.safetensors"}
    answer = client.post(apply.replace("?", ".json?"), content=body, headers=headers)
    turned = np.array(answer.json()["data"], np.float32)

    assert diagnose(client, config, x=X, rotated=turned).verdict == "equal"


def test_first_row_may_have_a_position(client: Client) -> None:
    whole = rotated(frequencies(500000), x=np.concatenate([X, X], axis=1))

    later = {"x": X[:, :10], "rotated": whole[:, 24:34]}
    assert diagnose(client, LLAMA, "start=24", **later).verdict == "equal"
    assert names(diagnose(client, LLAMA, **later)) == ["position-offset"]


def test_lists_by_length_follow_the_context_length(client: Client) -> None:
    lists = {"short_factor": [1.0] * 32, "long_factor": [2.0] * 32}
    config = {
        "model_type": "phi3", **SIZES, "original_max_position_embeddings": 16,
        "rope_scaling": {"type": "longrope", **lists},
    }  # fmt: skip
    scale = np.sqrt(1 + np.log(8192 / 16) / np.log(16))
    short, long = (scale * rotated(frequencies(1e4) / each) for each in (1, 2))

    assert diagnose(client, config, x=X, rotated=long).verdict == "equal"
    assert diagnose(client, config, "context_length=16", x=X, rotated=short).verdict == "equal"
    first = {"x": X[:, :8], "rotated": short[:, :8]}
    assert diagnose(client, config, **first).verdict == "equal"


def test_layer_is_required_where_layers_differ(client: Client) -> None:
    sliding = {"x": X, "rotated": rotated(frequencies(10000))}

    assert "rotary.full_attention has 5, 11; send layer" in refusal(client, GEMMA, **sliding)
    assert diagnose(client, GEMMA, "layer=4", **sliding).verdict == "equal"
    assert diagnose(client, GEMMA, "encoding=rotary.sliding_attention", **sliding).verdict == (
        "equal"
    )


def test_settings_of_layers_of_another_type_are_named_so(client: Client) -> None:
    report = diagnose(client, GEMMA, "layer=5", x=X, rotated=rotated(frequencies(10000)))

    (mistake,) = report.mistakes
    assert mistake.name == "rules-by-layer"
    assert mistake.content()["have"] == "rotary.sliding_attention"
    assert mistake.content()["want"] == "rotary.full_attention"
    assert "rope_theta=10000" in report.yours.url
    assert report.scores[0].distance == 1


def layers_of(bases: Mapping[int, float], *, before: str = "model.layers") -> dict[str, Array]:
    """Return queries and keys of layers, before and after a rotation by the base of each."""
    arrays = {}
    for layer, base in bases.items():
        for name in ("q", "k"):
            arrays[f"{before}.{layer}.self_attn.{name}"] = X
            arrays[f"{before}.{layer}.self_attn.{name}_rotated"] = rotated(frequencies(base))
    return arrays


def test_layers_with_the_same_report_are_a_group(client: Client) -> None:
    bases = {layer: 1e6 if layer == 5 else 1e4 for layer in range(12)}
    report = diagnose(client, GEMMA, **layers_of({**bases, 3: 5e5}))

    assert report.verdict == "diagnosed"
    assert report.sentence.startswith("layers 0-2, 4-10: equal; 3: the base is 500000")
    assert "; 11: this layer has the settings of rotary.sliding_attention" in report.sentence
    assert [each.layers for each in report.groups] == [
        [0, 1, 2, 4, 6, 7, 8, 9, 10], [3], [5], [11],
    ]  # fmt: skip
    assert [each.verdict for each in report.groups].count("equal") == 2
    assert report.groups[0].arrays == [
        f"model.layers.*.self_attn.{name}_rotated" for name in ("k", "q")
    ]
    assert names(report) == ["wrong-base", "rules-by-layer"]


def test_short_text_has_the_layers(client: Client) -> None:
    arrays = layers_of({0: 5e5, 1: 1e4}, before="layers")
    answer = post(client, "/diagnose", arrays, LLAMA, Accept="text/plain")

    first, *rest = answer.text.splitlines()
    assert first.startswith("layer 0: equal; 1: the base is 10000")
    assert any("1: wrong-base.gguf: llama.rope.freq_base" in line for line in rest)
    assert not any(": equal" in line for line in rest)


def test_two_engines_share_what_was_rotated(client: Client) -> None:
    right, wrong = rotated(frequencies(500000)), rotated(frequencies(10000))
    arrays = {"blk.1.q": X, "a.blk.1.q_rotated": right, "b.blk.1.q_rotated": wrong}

    report = diagnose(client, LLAMA, **arrays)

    verdicts = {each.arrays[0]: each.verdict for each in report.groups}
    assert verdicts == {"a.blk.*.q_rotated": "equal", "b.blk.*.q_rotated": "diagnosed"}
    assert "a.blk.*.q_rotated of layer 1: equal" in report.sentence


def test_layers_without_a_rotary_embedding_are_unchanged(client: Client) -> None:
    turned, noise = rotated(frequencies(2e6)), X + np.float32(1)

    assert diagnose(client, SMOLLM, "layer=3", x=X, rotated=X).verdict == "equal"
    report = diagnose(client, SMOLLM, "layer=3", x=X, rotated=turned)
    assert names(report) == ["rules-by-layer"]
    assert "the model does not rotate it" in report.sentence
    report = diagnose(client, SMOLLM, "layer=3", x=X, rotated=noise)
    assert (report.verdict, report.mistakes) == ("none", [])


def test_layers_without_a_model_are_examined_against_one_url(client: Client) -> None:
    arrays = layers_of({0: 1e4, 1: 5e5})
    answer = post(client, "/diagnose?to=/rope/apply%3Flayout=half", arrays)

    assert answer.json()["sentence"].startswith("layer 0: equal; 1: the base is 500000")


def test_json_has_the_model_as_an_object_or_a_text(client: Client) -> None:
    arrays = {"layers.0.q": X.tolist(), "layers.0.q_rotated": rotated(frequencies(5e5)).tolist()}
    text = "".join(f"{name}: {value}\n" for name, value in LLAMA.items())

    for document in (LLAMA, text, json.dumps(LLAMA)):
        answer = client.post("/diagnose", json={**arrays, "model": document})
        assert answer.status_code == 200, answer.text
        assert answer.json()["verdict"] == "equal"


def test_head_of_a_gguf_file_is_a_model(client: Client) -> None:
    own = {"rope.freq_base": 5e5, "embedding_length": 256, "attention.head_count": 4}
    head = gguf_file(model("llama", **own))

    turned = rotated(frequencies(5e5), "interleaved")
    assert diagnose(client, head, x=X, rotated=turned).verdict == "equal"
    report = diagnose(client, head, x=X, rotated=rotated(frequencies(1e4), "interleaved"))
    assert report.mistakes[0].content()["keys"]["gguf"] == "llama.rope.freq_base"


@pytest.mark.parametrize(
    ("document", "detail"),
    [
        ({"model_type": "mystery"}, "no positional encoding is known"),
        ({"model_type": "gpt2"}, "it has learned"),
        ({**LLAMA, "rope_theta": "a"}, "rope_theta"),
        (b"\xff\xff\xff", "no text in UTF-8"),
    ],
)
def test_model_is_refused_as_by_model(client: Client, document: Any, detail: str) -> None:
    assert detail in refusal(client, document, x=X, rotated=X)


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("layer=4", "the model has 4 layers"),
        ("encoding=vision.rotary", "there are rotary"),
        ("to=/rope", "model and to"),
        ("layer=-1", "layer must be at least 0"),
    ],
)
def test_parameters_of_a_model_are_checked(client: Client, query: str, detail: str) -> None:
    assert detail in refusal(client, LLAMA, f"/diagnose?{query}", x=X, rotated=X)


def test_encoding_along_several_axes_is_refused(client: Client) -> None:
    config = {
        "model_type": "qwen2_vl", **SIZES, "rope_theta": 1e6,
        "rope_scaling": {"type": "mrope", "mrope_section": [8, 12, 12]},
    }  # fmt: skip
    path = "/diagnose?encoding=vision.rotary"

    assert "give the URL of one as to=" in refusal(client, config, path, x=X, rotated=X)


@pytest.mark.parametrize(
    ("arrays", "detail"),
    [
        ({"layers.0.q_rotated": X}, "layers.0.q_rotated goes with layers.0.q: send both"),
        ({"layers.0.q": X}, "layers.0.q goes with layers.0.q_rotated: send both"),
        ({"a.q": X, "b.q": X, "q_rotated": X}, "may have been any of a.q, b.q"),
        ({"want": X}, "both the expected table"),
        ({"layers.0.q": X, "layers.0.q_rotated": X[..., :32]}, "layers.0.q_rotated: x has the"),
        ({"layers.9.q": X, "layers.9.q_rotated": X}, "the model has 4 layers"),
    ],
)
def test_arrays_that_do_not_go_together_are_refused(
    client: Client, arrays: dict[str, Array], detail: str
) -> None:
    assert detail in refusal(client, LLAMA, **arrays)


def test_layer_without_a_model_may_be_a_part_of_to(client: Client) -> None:
    path = "/diagnose?to=/rope%3Fhead_dim=64&start=24"

    assert "write the & before it as %26" in refusal(client, None, path, x=X, rotated=X)


def test_model_must_be_bytes(client: Client) -> None:
    answer = client.post("/diagnose", json={"x": [[1.0, 0.0]], "model": 3})
    assert "an object, or the text of a file" in answer.text
    body = {"model": np.zeros(4, np.float32), "x": X, "rotated": X}
    assert "as uint8" in post(client, "/diagnose", body).text


def test_compare_takes_a_model(client: Client) -> None:
    angles = np.outer(np.arange(48), frequencies(5e5))
    arrays = {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}

    report = post(client, "/compare", arrays, LLAMA).json()

    assert (report["equal"], "rope_theta=500000" in report["to"]) == (True, True)
    assert "to is required" in refusal(client, None, "/compare", **arrays)
    assert "to /diagnose" in refusal(client, LLAMA, "/compare", x=X, rotated=X)
    assert "to /diagnose" in refusal(client, LLAMA, "/compare", x=X, y=X)
    nope = refusal(client, SMOLLM, "/compare?layer=3", cos=arrays["cos"])
    assert "no rotary embedding" in nope


# Models without a rotary embedding along a sequence.
WHISPER: Json = {
    "model_type": "whisper", "d_model": 64, "max_source_positions": 60, "max_target_positions": 40,
}  # fmt: skip
T5: Json = {"model_type": "t5", "num_heads": 4, "d_model": 64, "d_kv": 16}
DINO: Json = {"model_type": "dinov3_vit", "hidden_size": 384, "num_attention_heads": 6}


def test_only_table_of_a_model_is_expected(client: Client) -> None:
    url = "/encoding?seq_len=60&d_model=64&convention=whisper"
    x = load_npy(client.get(url.replace("?", ".npy?")))

    assert diagnose(client, WHISPER, x=x).verdict == "equal"
    assert "position-offset" in names(diagnose(client, WHISPER, x=x[1:]))
    equal = post(client, "/compare", {"x": x}, WHISPER).json()["equal"]
    assert equal is True
    assert "start goes with" in refusal(client, WHISPER, "/diagnose?start=1", x=x)


@pytest.mark.parametrize(
    ("document", "ids"), [(T5, ["buckets", "buckets.2"]), (DINO, ["rotary"])], ids=["t5", "dino"]
)
def test_tables_of_which_none_is_certain_are_linked(
    client: Client, document: Json, ids: list[str]
) -> None:
    answer = post(client, "/diagnose", {"x": np.zeros((4, 4), np.float32)}, document)

    assert answer.status_code == 422
    assert "has rotary" not in answer.json()["detail"]
    faults = answer.json()["errors"]
    assert [each["detail"].partition(":")[0] for each in faults] == ids
    for each in faults:
        assert client.get(each["url"]).status_code == 200


def test_model_whose_tables_are_all_learned_has_none(client: Client) -> None:
    bert = {"model_type": "bert", "hidden_size": 64, "max_position_embeddings": 16}
    said = refusal(client, bert, x=np.zeros((16, 64), np.float32))
    assert said == "no table of the model can be compared with: it has learned"
