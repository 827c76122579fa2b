"""The names that ``posref conformance run`` gives to the mistakes of implementations."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from service.__main__ import main
from service.conformance import naming, suite
from service.conformance.expected import expectation
from service.conformance.files.vector_file import Asked, VectorFile
from service.conformance.judging import AnswerArrays, InvalidAnswer, Judgement, read_answer
from service.conformance.mistakes.makers import MAKERS
from service.conformance.mistakes.wrong import Wrong
from service.conformance.naming import names_of
from service.conformance.questions import Question, numbers_of
from service.conformance.recorded_cases import RecordedCase, cases_in, texts_of
from service.conformance.tolerance import UNIT_ROUNDOFF, Expectation
from service.encodings.rotary.angles import PACKS
from service.numerics.tables import size
from service.routes.table_urls import read_url

ENGINE = Path(__file__).parent / "engines" / "rotary.py"
PLACES = (0, 1, 257, 2049, 4097)


def table(base: float, width: int = 16, places: tuple[int, ...] = PLACES) -> Question:
    return Question("table", "/rope", {"head_dim": width, "rope_theta": base}, places)


def asked() -> Iterator[Asked]:
    yield "Llama 2", table(10000.0)
    yield "Llama 3", table(500000.0)
    yield "negative positions", table(1e6, 8, (-257, -1, 0, 1))


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a small suite."""
    file = tmp_path_factory.mktemp("vectors") / "rope.json"
    file.write_text(suite.text_of(VectorFile("rope/some", asked)))
    return file


Run = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def run(vectors: Path, tmp_path: Path) -> Run:
    """Run a suite against the engine with a mistake; return the exit code and the JSON."""

    def run_(*engine: str, options: Sequence[str] = (), of: Path = vectors) -> Any:
        report = tmp_path / "report.json"
        given = ["--suite", str(of), "--json", str(report), *options]
        command = [sys.executable, str(ENGINE), *engine]
        code = main(["conformance", "run", *given, "--", *command])
        return code, json.loads(report.read_bytes())

    return run_


@pytest.mark.parametrize("pack", ["compact", "half"])
@pytest.mark.parametrize("dtype", [*UNIT_ROUNDOFF])
def test_an_honest_implementation_passes(dtype: str, pack: str, run: Run) -> None:
    code, report = run("", dtype, pack)

    assert code == 0
    assert report["summary"]["passes"] == 3
    assert all(each["share"] < 1 for each in report["cases"])
    assert {each["dtype"] for each in report["cases"]} == {dtype}


NAMED = {
    "wrong-base": (2, "numbers"),
    "sine-sign": (3, "numbers"),
    "halves-swapped": (3, "numbers"),
    "layout-swapped": (3, "numbers"),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("mistake", NAMED)
def test_a_mistake_is_named_in_every_case_that_shows_it(mistake: str, dtype: str, run: Run) -> None:
    failing, by = NAMED[mistake]

    code, report = run(mistake, dtype, "half" if mistake == "layout-swapped" else "compact")

    assert code == 1
    named = [each["mistake"] for each in report["cases"] if each["status"] == "fails"]
    assert len(named) == report["summary"]["fails"] == failing
    assert {each["name"] for each in named} == {mistake}
    assert {each["by"] for each in named} == {by}
    assert all(each["effect"] for each in named)


def test_a_mistake_says_which_request_gives_the_wrong_numbers(run: Run) -> None:
    _, report = run("wrong-base")

    request = report["cases"][1]["mistake"]["request"]
    assert "rope_theta=10000" in request["url"]
    assert report["cases"][1]["first"]["position"] == 1


def test_what_no_numbers_name_is_diagnosed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naming, "MAKERS", {})
    monkeypatch.setattr(naming, "_MOST_DIAGNOSED", 2)

    _, report = run("not-rotated")

    names = [(each["mistake"]["name"], each["mistake"]["by"]) for each in report["cases"]]
    assert names == [("not-rotated", "diagnosis")] * 2 + [("unexplained", "")]
    _, report = run("twice-the-base")
    mistake = report["cases"][0]["mistake"]
    assert (mistake["name"], mistake["values"]["have"]) == ("wrong-base", 20000)
    assert "20000" in mistake["sentence"]
    _, report = run("not-rotated", options=["--no-diagnosis"])
    assert {each["mistake"]["name"] for each in report["cases"]} == {"unexplained"}


def test_what_is_unexplained_says_where_the_numbers_are_wrong(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    code, report = run("wrong-pairs")

    assert code == 1
    mistake = report["cases"][0]["mistake"]
    assert (mistake["name"], mistake["by"]) == ("unexplained", "")
    assert mistake["findings"]
    printed = capfd.readouterr().out
    assert f"unexplained: {mistake['sentence']} Found: {mistake['findings'][0]}" in printed


def test_a_mistake_has_the_url_of_its_numbers(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    _, report = run("wrong-base")

    url = report["cases"][1]["mistake"]["request"]["url"]
    assert f"\n      a server gives the same wrong numbers: {url}\n" in capfd.readouterr().out


def test_an_effect_is_told_once_and_places_of_every_case(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    _, report = run("wrong-base")

    printed = capfd.readouterr().out
    assert printed.count("effect: The frequencies are wrong") == 1
    wrong = [each for each in report["cases"] if each["status"] == "fails"]
    assert [each["places"] for each in wrong] == ["only pairs from 1 on"] * 2
    assert printed.count("; only pairs from 1 on\n") == 2
    told = {"key": "rope_theta", "have": "10000", "want": "500000"}
    assert wrong[0]["mistake"]["values"] == told


@pytest.mark.parametrize(
    ("numbers", "label", "passes_as"),
    [
        ("float32", "float64", "float32"),
        ("float16", "float64", "float16"),
        ("float16", "float32", "float16"),
        ("bfloat16", "float32", "bfloat16"),
        ("float32", "float32", None),
    ],
)
def test_an_answer_that_passes_in_a_narrower_type_says_so(
    numbers: str, label: str, passes_as: str | None, run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    code, report = run("", numbers, "compact", label)

    assert code == (passes_as is not None)
    hinted = [each for each in report["cases"] if each["status"] == "fails"]
    assert all(each["passes_as"] == passes_as for each in hinted)
    told = f"dtype: in {passes_as} the answer passes; if its numbers are of that type, say so."
    assert (told in capfd.readouterr().out) == (passes_as is not None)


def test_numbers_of_a_wide_type_are_not_called_narrow(run: Run) -> None:
    _, report = run("slightly-off", "float32")

    assert report["summary"]["fails"] == 3
    assert all(each["passes_as"] is None for each in report["cases"])


def test_position_ids_may_be_integral_floats() -> None:
    (case,) = [each for each in cases_in(texts_of(None)) if each.id == "positions/ids/1"]
    right = case.expected.arrays[
        "position_ids" if "position_ids" in case.expected.arrays else "array"
    ]

    def judged(numbers: Any, dtype: Any = "int64") -> bool:
        message = {"dtype": dtype, "arrays": {"ids": numbers}}
        return Judgement(case, read_answer(message, case)).has_passed

    for numbers in (right, right.astype(float), right[None]):
        assert all(
            judged(numbers.tolist(), dtype) for dtype in ("int64", "float32", "float64", None)
        )
    assert not judged((right + 0.5).tolist())
    assert not judged((right + 2**53).tolist())
    assert not judged(np.full(right.shape, 2**64 - 1, dtype=np.uint64).tolist())


def test_a_number_that_is_none_is_wrong_and_unexplained(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    code, report = run("nan")

    assert code == 1
    assert report["cases"][0]["first"] == {
        "array": "cos",
        "index": [1, 0],
        "position": 1,
        "got": None,
        "want": 0.5403023058681398,
        "allowed": pytest.approx(6.4e-8, rel=0.01),
    }
    assert report["cases"][0]["mistake"]["name"] == "unexplained"
    told = "first wrong: position 1, cos of pair 0: got nan, want 0.540302306 ± 6.4e-08; 1 of 80"
    assert f"{told} numbers is wrong\n" in capfd.readouterr().out


def test_another_shape_fails(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    code, report = run("truncated")

    assert code == 1
    assert report["cases"][0]["status"] == "fails"
    assert "the shape is (4, 8), and must be (5, 8)" in capfd.readouterr().out


def test_iterated_frequencies_are_a_notice_where_they_cost_too_much(
    run: Run, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    wide = VectorFile("rope/wide", lambda: iter([("128 channels", table(10000.0, 128))]))
    (tmp_path / "wide.json").write_text(suite.text_of(wide))

    code, report = run("iterated", of=tmp_path / "wide.json")

    assert code == 1
    mistake = report["cases"][0]["mistake"]
    assert mistake["name"] == "iterated-frequencies"
    assert mistake["by"] == "arithmetic"
    assert "the right convention; its iterated frequencies cost 1." in capfd.readouterr().out
    assert run("", of=tmp_path / "wide.json")[0] == 0


def test_junit_has_a_class_for_a_file_and_says_from_which_position(
    run: Run, tmp_path: Path
) -> None:
    run("wrong-base", options=["--junit", str(tmp_path / "junit.xml")])

    suites = ET.parse(tmp_path / "junit.xml").getroot()
    (found,) = suites
    assert suites.tag == "testsuites"
    assert found.attrib.items() >= {("tests", "3"), ("failures", "2"), ("errors", "0")}
    assert {each.get("classname") for each in found} == {"rope/some"}
    failures = found.findall("testcase/failure")
    assert [str(each.text).partition(",")[0] for each in failures] == [
        "first wrong: position 1",
        "first wrong: position -257",
    ]
    assert {each.get("type") for each in failures} == {"wrong-base"}
    assert all(str(each.get("message")).startswith("wrong-base: ") for each in failures)
    assert all(str(each.get("message")) in str(each.text) for each in failures)


def recorded(question: Question, expected: Expectation | None = None) -> RecordedCase:
    return RecordedCase("a/1", "a", "", question, expected or expectation(question))


HALVES = {"head_dim": 8, "layout": "half"}
SECTIONS = {
    "head_dim": 16,
    "mrope_section": [2, 3, 3],
    "positions_t": [0, 1, 5],
    "positions_h": [0, 1, 2],
    "positions_w": [3, 1, 2],
}


@pytest.mark.parametrize("sections", [False, True])
@pytest.mark.parametrize("pack", [each for each in PACKS if each != "angle"])
def test_every_packing_is_unpacked_and_its_copies_must_be_equal(pack: str, sections: bool) -> None:
    question = Question("table", "/rope", SECTIONS) if sections else table(10000.0)
    url = question.request.url
    right = {name: numbers_of(each) for name, each in read_url(url).document.arrays.items()}
    case = recorded(question, Expectation(right, np.zeros(right["cos"].shape)))
    sent = {}
    for name, each in read_url(url.replace("=compact", f"={pack}")).document.arrays.items():
        elements = each.read(0, size(each)).reshape(each.shape)
        is_complex = elements.dtype.kind == "c"
        sent[name] = np.stack([elements.real, elements.imag], -1) if is_complex else elements

    def judged() -> Judgement:
        arrays = {name: each[None].tolist() for name, each in sent.items()}
        message = {"dtype": "float64", "pack": pack, "arrays": arrays}
        return Judgement(case, read_answer(message, case))

    assert judged().has_passed
    assert judged().grade == "exact"
    next(iter(sent.values())).reshape(len(right["cos"]), -1)[1, -1] += 1e-9
    assert judged().wrong.sum() == 1
    assert ("copies differ" in judged().summary) == ("half" in pack or "interleaved" in pack)


def test_a_numbers_place_is_that_of_the_first_listed_position() -> None:
    x = [[[1.0] * 8] * 3] * 2
    question = Question("rotate", "/rope/apply", HALVES, (9, 4, 5), x)
    case = recorded(question)
    rotated = np.array(case.expected.arrays["rotated"])
    rotated[0, 2, 1] = rotated[1, 1, 3] = 7
    answer = read_answer({"dtype": "float32", "arrays": {"y": rotated.tolist()}}, case)

    first = Judgement(case, answer).first_wrong

    assert (first.position, first.index, first.got) == (4, (1, 1, 3), 7.0)
    assert first.text.startswith("first wrong: position 4, rotated at [1, 1, 3]: got 7, want ")


@pytest.mark.parametrize("dtype", ["int64", "uint8", "float16", "long", None])
def test_integers_are_exact_in_any_type(dtype: str | None) -> None:
    case = recorded(Question("array", "/relative/t5", {"query_len": 4, "key_len": 4}))
    right = case.expected.arrays["array"]

    for numbers, grade in ((right, "exact"), (right + 0.0, "exact"), (right + 1, None)):
        message = {"dtype": dtype, "arrays": {"buckets": numbers.tolist()}}
        judgement = Judgement(case, read_answer(message, case))
        assert judgement.has_passed == (grade is not None)
        assert grade is None or judgement.grade == grade


FOREIGN = Question("array", "/a/resource/of/another/suite")
BIASES = Question("array", "/relative/alibi", {"num_heads": 4, "query_len": 3, "key_len": 3})
TURNED = Question("rotate", "/rope/apply", HALVES, PLACES, [[1.0] * 8] * 5)
FAR = Question(
    "array",
    "/relative/alibi",
    {"num_heads": 4, "query_positions": [0, 9, 511], "key_positions": [0, 7, 500]},
)
DISTANCES = Question("array", "/relative/conformer", {"query_len": 3, "d_model": 4})
IMAGE = Question(
    "array", "/encoding/grid", {"convention": "mae", "d_model": 8, "height": 2, "width": 2}
)


@pytest.mark.parametrize(
    ("question", "shape", "wrong", "told"),
    [
        (table(10000.0), (2, 5, 8), np.s_[...], ""),
        (table(10000.0), (2, 5, 8), np.s_[0, 1, 3], ""),
        (table(10000.0), (2, 5, 8), np.s_[1], "only sin"),
        (table(10000.0), (2, 5, 8), np.s_[..., 5:7], "only pairs 5 to 6"),
        (table(10000.0), (2, 5, 8), np.s_[:, 1:, 5:], "only pairs from 5 on"),
        (table(10000.0), (2, 5, 8), np.s_[:, 1:, :], ""),
        (table(10000.0), (2, 5, 8), np.s_[:, 3:, :], "only positions from 2049 on"),
        (table(10000.0), (2, 5, 8), np.s_[:, 1, 2], "only position 1, pair 2"),
        (table(10000.0), (2, 5, 8), np.s_[..., [0, 2, 7]], "only pairs 0, 2 and 7"),
        (table(10000.0), (2, 5, 8), np.s_[..., [0, 2, 3, 5, 7]], ""),
        (BIASES, (1, 4, 3, 3), np.s_[0, 3], "only head 3"),
        (BIASES, (1, 4, 3, 3), np.s_[0, ::2, 1:], "only even heads, queries from 1 on"),
        (FAR, (1, 4, 3, 3), np.s_[..., 1:, :], "only queries from 9 on"),
        (FAR, (1, 4, 3, 3), np.s_[..., 1], "only key 7"),
        (DISTANCES, (1, 5, 4), np.s_[:, 3:], "only rows from 3 on"),
        (TURNED, (1, 5, 8), np.s_[..., 4:], "only channels from 4 on"),
        (TURNED, (1, 2, 5, 8), np.s_[:, 1], "only head 1"),
        (IMAGE, (1, 4, 8), np.s_[:, 2:], "only tokens from 2 on"),
        (FOREIGN, (1, 3, 4), np.s_[..., 1:], "only columns from 1 on"),
        (FOREIGN, (1, 6), np.s_[..., 1:3], "only rows 1 to 2"),
    ],
)
def test_places_of_wrong_numbers_are_told_where_others_are_right(
    question: Question, shape: tuple[int, ...], wrong: Any, told: str
) -> None:
    numbers = np.zeros(shape)
    numbers[wrong] = 1
    names = ("cos", "sin") if len(numbers) > 1 else ("bias",)
    right = Expectation({name: np.zeros(shape[1:]) for name in names}, np.zeros(shape[1:]))
    copies = {name: each[None] for name, each in zip(names, numbers, strict=True)}
    judgement = Judgement(recorded(question, right), AnswerArrays("float64", {}, copies))

    assert judgement.places == told
    assert judgement.summary.endswith(f" wrong; {told}" if told else " wrong")


def test_a_name_that_goes_with_passing_cases_is_preferred() -> None:
    right = [recorded(table(base)) for base in (10000.0, 500000.0)]
    cases = [RecordedCase(f"a/{n}", "a", "", c.question, c.expected) for n, c in enumerate(right)]
    copies = {name: each[None] for name, each in cases[0].expected.arrays.items()}
    judgements = [Judgement(case, AnswerArrays("float64", {}, copies)) for case in cases]

    named = names_of(judgements, diagnoses=False)

    assert judgements[0].has_passed
    assert named["a/1"].name == "wrong-base"


def test_copies_that_differ_are_not_named_after_a_mistake_that_the_case_hides() -> None:
    right = expectation(table(10000.0, places=(0,))).arrays
    copies = {name: np.stack([each, each * (1 - 2.0**-24)]) for name, each in right.items()}
    judgement = Judgement(
        recorded(table(10000.0, places=(0,))), AnswerArrays("float32", {}, copies)
    )

    assert not judgement.has_passed
    assert names_of([judgement], diagnoses=False)["a/1"].name == "unexplained"


def test_rows_that_are_numbers_name_the_mistake_of_rows_that_are_none() -> None:
    case = recorded(table(500000.0))
    copies = {name: each[None].copy() for name, each in expectation(table(1e6)).arrays.items()}
    copies["cos"][0, 2] = np.nan
    judgement = Judgement(case, AnswerArrays("float64", {}, copies))

    assert names_of([judgement], diagnoses=False)["a/1"].name == "wrong-base"
    assert judgement.first_wrong.position == 1


def test_a_mistake_that_cannot_be_made_of_a_question_stops_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(question: Question, _: Expectation) -> Iterator[Wrong]:
        assert question.positions is not None
        yield Wrong(expectation(question.changed(rope_theta=(1e6, 2e6)[len(PLACES)])))

    makers = {"transposed": (failing,), "wrong-base": MAKERS["wrong-base"]}
    monkeypatch.setattr(naming, "MAKERS", makers)
    copies = {name: each[None] for name, each in expectation(table(1e6)).arrays.items()}
    judgement = Judgement(recorded(table(5e5)), AnswerArrays("float64", {}, copies))

    assert names_of([judgement], diagnoses=False)["a/1"].name == "wrong-base"


def test_a_search_for_a_name_that_fails_loses_no_run(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> Iterator[Wrong]:
        raise RecursionError("too deep")

    monkeypatch.setattr(naming, "MAKERS", {"transposed": (failing,)})

    code, report = run("wrong-base")

    assert (code, report["summary"]["fails"], report["summary"]["passes"]) == (1, 2, 1)
    mistake = report["cases"][1]["mistake"]
    assert mistake["name"] == "unexplained"
    assert mistake["sentence"] == "The search for a name failed: RecursionError('too deep')."


def test_a_case_may_be_left_out_of_the_diagnoses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naming, "MAKERS", {})
    copies = {name: each[None] for name, each in expectation(table(20000.0)).arrays.items()}
    judgement = Judgement(recorded(table(10000.0)), AnswerArrays("float64", {}, copies))

    for left_out, name in (((), "wrong-base"), (("a/1",), "unexplained")):
        named = names_of([judgement], diagnoses=True, undiagnosed=left_out)
        assert named["a/1"].name == name


def test_another_base_is_not_called_iterated_frequencies() -> None:
    x = (np.arange(-20, 20).reshape(5, 8) / 8).tolist()
    given = {"head_dim": 8, "layout": "half", "rope_theta": 500000.0}
    question = Question("rotate", "/rope/apply", given, (7, 3, 257, 3, 0), x)
    other = expectation(question.changed(rope_theta=500000.0 * 1.000005)).arrays
    copies = {name: each[None] for name, each in other.items()}
    judgement = Judgement(recorded(question), AnswerArrays("float32", {}, copies))

    assert not judgement.has_passed
    assert names_of([judgement], diagnoses=False)["a/1"].name == "unexplained"


def test_noise_is_not_called_rounded_decimals() -> None:
    right = expectation(table(1e6)).arrays
    noise = np.random.default_rng(0).choice([-2e-5, 2e-5], next(iter(right.values())).shape)
    named = {}
    for name, decimals in {"noise": None, "printed": 4}.items():
        copies = {
            part: (each + noise if decimals is None else np.round(each, decimals))[None]
            for part, each in right.items()
        }
        judgement = Judgement(recorded(table(1e6)), AnswerArrays("float32", {}, copies))
        named[name] = names_of([judgement], diagnoses=False)["a/1"].name

    assert named == {"noise": "unexplained", "printed": "rounded-decimals"}


def test_the_least_integer_is_wrong_where_zero_is_expected() -> None:
    case = recorded(Question("array", "/relative/t5", {"query_len": 4, "key_len": 4}))
    right = case.expected.arrays["array"]
    least = np.where(right == 0, np.iinfo(np.int64).min, right)
    judgement = Judgement(case, AnswerArrays("int64", {"array": least}, {"array": least[None]}))

    assert judgement.has_shape
    assert not judgement.has_passed


def test_an_error_while_a_name_is_searched_leaves_the_case_unexplained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(question: Question, _: Expectation) -> Iterator[Wrong]:
        raise KeyError(question.resource)

    monkeypatch.setattr(naming, "iterated", failing)
    right = expectation(table(1e6)).arrays
    copies = {name: each[None] * (1 + 2e-7) for name, each in right.items()}
    judgement = Judgement(recorded(table(1e6)), AnswerArrays("float32", {}, copies))

    assert not judgement.has_passed

    assert names_of([judgement], diagnoses=False)["a/1"].name == "unexplained"


@pytest.mark.parametrize("seed", range(3))
def test_no_answer_stops_the_judge(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-8, 8, (1, 3, 8)).tolist()
    cases = [
        recorded(table(10000.0)),
        recorded(
            Question("rotate", "/rope/apply", {"head_dim": 8, "layout": "half"}, (0, 1, 5), x)
        ),
        recorded(Question("array", "/relative/t5", {"query_len": 4, "key_len": 4})),
    ]
    judgements = []
    for case in cases:
        right = case.expected.shape
        for shape in (right, (1, *right), right[::-1], (*right, 2), (2, 3, 4), (1,), ()):
            numbers = rng.standard_normal(shape) * 10.0 ** rng.integers(-320, 300)
            sent = np.where(rng.random(shape) < 0.1, np.nan, numbers).tolist()
            names = (("cos", "sin"), ("rope",), ("array",))[rng.integers(3)]
            message = {
                "dtype": rng.choice([*UNIT_ROUNDOFF, "int64"]),
                "pack": rng.choice([*PACKS]),
                "arrays": dict.fromkeys(names, sent),
            }
            try:
                judgements.append(Judgement(case, read_answer(message, case)))
            except InvalidAnswer:
                continue

    named = names_of(judgements, diagnoses=True)

    assert named.keys() == {each.case.id for each in judgements if not each.has_passed}
    assert all(each.summary for each in judgements if not each.has_passed)


def test_files_say_all_that_the_rule_needs() -> None:
    questions = [each for _, each in asked()]
    texts = {"a.json": suite.text_of(VectorFile("rope/some", asked))}

    for question, case in zip(questions, cases_in(texts), strict=True):
        own = expectation(question)
        assert case.question == question
        for name in own.arrays:
            for dtype in UNIT_ROUNDOFF:
                assert (case.expected.allowed(name, dtype) == own.allowed(name, dtype)).all()
