"""The facts about model types, and how they are read from a library."""

import ast
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.data.reviewed_bodies import LOCK, unreviewed
from tools.deductions import Formulas, Place, Sources, differences

MODELS = Path(__file__).parents[2] / "service" / "models"
FACTS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_bytes()) for path in sorted((MODELS / "facts").glob("*.json"))
}
UNREVIEWED = tomllib.loads((MODELS / "bodies" / "unreviewed.toml").read_text())

ROTARY = '''
import torch
from torch import nn
BASE = 10000.0

def turned(x):
    """Return a half turn."""
    return torch.cat((-x[1:], x[:1]))

class AlphaRotaryEmbedding(nn.Module):
    inv_freq: torch.Tensor
    def __init__(self, config: "AlphaConfig", device=None):
        super().__init__()
        width = config.head_dim  # half of it turns
        self.inv_freq = 1.0 / BASE ** (torch.arange(0, width, 2) / width)
    @torch.no_grad()
    def forward(self, x, positions) -> tuple:
        if x is None:
            raise ValueError("AlphaRotaryEmbedding needs x")
        return turned(x)
'''
RENAMED = ROTARY
for _old, _new in {
    "Alpha": "Beta",
    "half of it turns": "",
    "-> tuple": "",
    "width": "channels",
    '"""Return a half turn."""': "",
    "    @torch.no_grad()\n": "",
}.items():
    RENAMED = RENAMED.replace(_old, _new)


def hash_of(folder: Path, source: str, name: str = "AlphaRotaryEmbedding") -> str:
    path = folder / "models" / "made_up.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(source)
    return Sources(folder).hash(Place(path, name))


def test_a_hash_does_not_depend_on_names_comments_annotations_or_messages(tmp_path: Path) -> None:
    assert hash_of(tmp_path, ROTARY) == hash_of(tmp_path, RENAMED, "BetaRotaryEmbedding")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("10000.0", "500000.0"),
        ("-x[1:]", "x[1:]"),
        ("0, width, 2", "1, width, 2"),
        ("config.head_dim", "config.hidden_size"),
        ("return turned(x)", "return x"),
    ],
)
def test_a_hash_depends_on_the_computation_and_what_it_uses(
    tmp_path: Path, old: str, new: str
) -> None:
    assert hash_of(tmp_path, ROTARY) != hash_of(tmp_path, ROTARY.replace(old, new))


def test_a_class_that_only_inherits_has_the_hash_of_its_base(tmp_path: Path) -> None:
    source = f"{ROTARY}\nclass Beta(AlphaRotaryEmbedding):\n    pass\n"
    other = f"{ROTARY}\nclass Beta(AlphaRotaryEmbedding):\n    def forward(self, x): return x\n"

    assert hash_of(tmp_path, source, "Beta") == hash_of(tmp_path, ROTARY)
    assert hash_of(tmp_path, other, "Beta") != hash_of(tmp_path, ROTARY)


def test_the_hash_of_an_attribute_covers_the_methods_that_mention_it(tmp_path: Path) -> None:
    path = tmp_path / "models" / "made_up.py"
    hashes = []
    for other, own in (("1", "2"), ("3", "2"), ("1", "4")):
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            f"class A:\n def f(self): return self.wpe + {own}\n def g(self): return {other}\n"
        )
        hashes.append(Sources(tmp_path).hash(Place(path, "A"), ["wpe"]))

    assert hashes[0] == hashes[1] != hashes[2]


SIZES = {
    "image_size": (224, 448, 1344),
    "patch_size": (16, 16, 32),
    "hidden_size": (768, 1536, 3072),
    "window": (7, 14, 42),
    "length": (512, 608, 624),
    "size/0": (60, 120, 360),
    "size/1": (90, 180, 1080),
    "buckets": (32, 32, 32),
}
BUILDS = [{name: sizes[i] for name, sizes in SIZES.items()} for i in range(3)]


@pytest.mark.parametrize(
    ("values", "formula"),
    [
        ((512, 608, 624), "length"),
        ((514, 610, 626), "length + 2"),
        ((197, 785, 1765), "(image_size // patch_size) ** 2 + 1"),
        ((13, 27, 83), "2 * window - 1"),
        ((169, 729, 6889), "(2 * window - 1) ** 2"),
        ((384, 768, 1536), "hidden_size // 2"),
        ((60, 120, 360), "size/0"),
        ((256, 256, 256), "256"),
        ((32, 32, 32), None),
        ((101, 57, 903), None),
        ((512, 608), None),
    ],
)
def test_a_formula_predicts_a_size_in_every_build_or_is_none(
    values: tuple[int, ...], formula: str | None
) -> None:
    assert Formulas(BUILDS).of(values) == formula


def test_of_two_formulas_that_of_a_key_that_is_read_is_chosen() -> None:
    formulas = Formulas([{"a": 4, "longer": 4}, {"a": 8, "longer": 8}])

    assert formulas.of((4, 8)) == "a"
    assert formulas.of((4, 8), ["longer"]) == "longer"


def test_differences_name_the_bodies_that_changed() -> None:
    old = {"types": {"a": 1}, "bodies": {"0": ["x.A"], "1": ["x.B"]}, "layouts": {"f": "half"}}
    new = {"types": {"a": 1, "b": 2}, "bodies": {"2": ["x.A"], "1": ["x.B"]}, "layouts": {}}

    assert differences(json.dumps(old), json.dumps(new)) == [
        "body x.A: changed", "type b: new", "layout f: gone",
    ]  # fmt: skip


def reviewed() -> tuple[set[str], set[str]]:
    """Return the hashes and the names that entries are of."""
    bodies: set[str] = set()
    names: set[str] = set()
    for path in (MODELS / "bodies").glob("*.toml"):
        for entry in tomllib.loads(path.read_text()).values() if path.stem != "unreviewed" else ():
            bodies |= {*entry.get("bodies", ()), *entry.get("reviewed", ())}
            names |= {*entry.get("classes", ()), *entry.get("only", ())}
    return bodies, names


REVIEWED = json.loads(LOCK.read_text())


@pytest.mark.parametrize("library", FACTS)
def test_no_class_or_function_changed_since_it_was_reviewed(library: str) -> None:
    assert not unreviewed(FACTS[library], REVIEWED[library.partition("-")[0]])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("qwen2_vl.Qwen2VLModel.get_rope_index", "qwen2_vl"),
        ("bloom.BloomModel.build_alibi_tensor", "bloom"),
        ("swin.SwinRelativePositionBias", "swin"),
        ("llama.LlamaRotaryEmbedding", "llama"),
    ],
)
def test_a_body_that_changes_fails_its_review_alone(name: str, kind: str) -> None:
    facts = FACTS["transformers-5.23.0"]
    old = next(body for body, names in facts["bodies"].items() if name in names)
    bodies = {**facts["bodies"], old: [each for each in facts["bodies"][old] if each != name]}
    own = json.loads(json.dumps(facts["types"][kind]).replace(old, "changed"))
    changed = {"types": {**facts["types"], kind: own}, "bodies": {**bodies, "changed": [name]}}

    assert unreviewed(changed, REVIEWED["transformers"]) == {name: [kind]}


def test_a_body_that_is_new_or_gone_is_not_reviewed() -> None:
    facts = {"types": {}, "bodies": {"0": ["a.New"]}}

    assert unreviewed(facts, {"a.Gone": "1"}) == {"a.New": [], "a.Gone": []}


@pytest.mark.parametrize("library", FACTS)
def test_every_body_is_reviewed_or_listed_as_unreviewed(library: str) -> None:
    hashes, names = reviewed()
    modules = {m["body"] for t in FACTS[library]["types"].values() for m in t["modules"]}
    missing = {
        body: FACTS[library]["bodies"][body]
        for body in modules - hashes - {*UNREVIEWED[library]}
        if not names & {*FACTS[library]["bodies"][body]}
    }

    assert not missing


@pytest.mark.parametrize("library", FACTS)
def test_a_body_that_is_listed_as_unreviewed_is_in_the_facts_and_in_no_entry(library: str) -> None:
    hashes, names = reviewed()
    bodies = FACTS[library]["bodies"]
    reviewed_now = [
        body
        for body in UNREVIEWED[library]
        if body not in bodies or body in hashes or names & {*bodies[body]}
    ]

    assert not reviewed_now


def test_reviewed_hashes_are_of_bodies_in_the_facts() -> None:
    known = {body for facts in FACTS.values() for body in facts["bodies"]}

    assert reviewed()[0] <= known


@pytest.mark.parametrize("library", FACTS)
def test_every_type_has_defaults_modules_and_formulas_that_parse(library: str) -> None:
    for name, fact in FACTS[library]["types"].items():
        assert {"config", "model", "defaults", "modules"} <= fact.keys(), name
        for module in fact["modules"]:
            for tensor in module.get("tensors", {}).values():
                assert len(tensor["shape"]) == len(tensor["formula"])
                for formula in filter(None, tensor["formula"]):
                    ast.parse(formula, mode="eval")
