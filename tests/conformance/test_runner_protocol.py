"""``posref conformance run`` with commands that behave well, badly, and not at all."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from service.__main__ import main
from service.conformance import implementations, judging, suite
from service.conformance.files.vector_file import Asked, VectorFile
from service.conformance.questions import Question

CONVERSATION = Path(__file__).parent / "engines" / "conversation.py"
QUESTION = Question("table", "/rope", {"head_dim": 2, "rope_theta": 10000.0}, (0, 1, 257))


def asked() -> Iterator[Asked]:
    yield "one pair of channels", QUESTION
    yield "the same, at a distance", Question("table", "/rope", QUESTION.parameters, (4096,))


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a suite of two small cases in two files."""
    folder = tmp_path_factory.mktemp("vectors")
    file = VectorFile("tiny/near", asked)
    (folder / "tiny_near.json").write_text(suite.text_of(file))
    other = VectorFile("tiny/far", lambda: iter([*asked()][1:]))
    (folder / "tiny_far.json").write_text(suite.text_of(other))
    return folder


@pytest.fixture
def run(
    vectors: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, Any]]:
    """Run the suite against a script; return the exit code, the text and the JSON."""

    def run_(script: str, *options: str, pipe: str = "") -> tuple[int, str, Any]:
        report = tmp_path / "report.json"
        command = [sys.executable, "-S", "-E", str(CONVERSATION), script, pipe]
        given = ["--suite", str(vectors), "--json", str(report), *options]
        code = main(["conformance", "run", *given, "--", *command])
        return code, capfd.readouterr().out, json.loads(report.read_bytes())

    return run_


def test_right_answers_pass(run: Callable[..., Any]) -> None:
    code, text, report = run("answering()")

    assert code == report["exit_code"] == 0
    assert not report["was_ended"]
    assert text.splitlines()[-1] == "3 pass"
    assert report["summary"]["passes"] == len(report["cases"]) == 3
    assert {each["status"] for each in report["cases"]} == {"passes"}
    assert report["implementation"] == {"name": "test", "version": "", "language": ""}


GREETED = "hear(); say(**HELLO); "
ENDS: dict[str, tuple[str, str]] = {
    "silent from the start": ("time.sleep(9)", "no answer within 0.4 seconds"),
    "silent when asked": (GREETED + "time.sleep(9)", "no answer within 0.4 seconds"),
    "noise without end": (
        GREETED + "hear()\nwhile True: print('x' * 99)",
        "no answer within 0.4 seconds",
    ),
    "noise without lines": (
        GREETED + "hear()\nwhile True: print('x' * 99, end='')",
        "no answer within 0.4 seconds",
    ),
    "leaves at once": ("sys.exit(7)", "it ends with exit code 7"),
    "leaves when asked": (GREETED + "hear(); sys.exit(7)", "it ends with exit code 7"),
    "dies": (GREETED + "hear(); os.kill(os.getpid(), 9)", "it ends with signal 9"),
    "closes its output": (
        GREETED + "hear(); os.close(1); time.sleep(9)",
        "it closes its standard input or output",
    ),
    "closes its input": (
        GREETED.replace("say", "os.close(0); say") + "time.sleep(9)",
        "it closes its standard input or output",
    ),
    "leaves, and its child does not": (
        GREETED + "hear()\nif os.fork(): os._exit(3)\ntime.sleep(9)",
        "it ends with exit code 3",
    ),
    "another protocol": (
        "hear(); say(type='hello', protocol=2)",
        "it speaks protocol 2, and the runner speaks 1",
    ),
    "no greeting": ("hear(); say(type='answer')", "the answer to hello is"),
    "a greeting that is not JSON": (
        'print(\'{"type": "hello",\', flush=True)',
        "the answer to hello is",
    ),
    "half a greeting": (
        'sys.stdout.write(\'{"type": "hello"\'); sys.stdout.flush(); sys.exit(1)',
        "it ends with exit code 1",
    ),
    "a list that is none": (
        "hear(); say(**HELLO, kinds='table')",
        "hello: kinds must be a list of strings",
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_command_that_ends_or_is_silent_has_code_3(
    name: str, run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, told = ENDS[name]
    monkeypatch.setattr(implementations, "_END_SECONDS", 0.1 if "closes" in told else 30)
    seconds = ("--timeout", "0.4") if "within" in told else ()

    code, text, report = run(script, "--junit", str(tmp_path / "junit.xml"), *seconds)

    assert code == report["exit_code"] == 3
    assert told in text.splitlines()[-1]
    assert told in report["failure"]
    errors = ET.parse(tmp_path / "junit.xml").findall(".//error")
    assert told in str(errors[-1].text)
    assert report["summary"]["passes"] == 0
    assert sum(report["summary"].values()) == 3


def test_what_was_answered_before_the_command_ends_is_reported(run: Callable[..., Any]) -> None:
    code, _, report = run(GREETED + "say(**right(hear())); hear()")

    assert code == 3
    assert report["summary"] == {
        "passes": 1,
        "fails": 0,
        "errs": 1,
        "unsupported": 0,
        "not_asked": 1,
    }


def test_a_command_that_is_none_has_code_3(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", "run", "--only", "rope/default/2", "--", "/no/such/thing"]) == 3
    assert "/no/such/thing does not start: No such file" in capfd.readouterr().out


ERRS: dict[str, tuple[str, str]] = {
    "not JSON": ('print(\'{"type": "answer", \', flush=True)', "a line is not JSON"),
    "not UTF-8": (
        'sys.stdout.buffer.write(b\'{"type": "answer", "\\xff": 1}\\n\'); sys.stdout.flush()',
        "a line is not JSON",
    ),
    "a long line": (
        'print(\'{"type": "answer", "x": "\' + \'x\' * 2**18 + \'"}\', flush=True)',
        "a line of more than 65536 bytes",
    ),
    "NaN in a message whose keys are sorted": (
        'print(\'{"dtype": "float32", "x": [NaN], "type": "answer"}\', flush=True)',
        "; what is not finite is null",
    ),
    "a long error": ("say(type='error', message='x' * 10**5)", "x" * 300 + "…"),
    "an error": ("say(type='error', message='no \\x1b[31m such\\nfile')", "no �[31m such file"),
    "another type": ("say(type='hello')", "its answer has the type hello"),
    "another id": ("say(**right(m), id='x/1')", "its id is x/1, and tiny/far/1 was asked"),
    "no arrays": ("say(**{**right(m), 'arrays': {}})", "arrays are none, and of pack=compact cos"),
    "arrays that are none": ("say(**{**right(m), 'arrays': []})", "arrays and npy must be objects"),
    "other arrays": (
        "say(**{**right(m), 'arrays': {'a': [[1]], 'b': [[1]]}})",
        "arrays are a, b, and of pack=compact cos, sin",
    ),
    "no type": ("say(**{**right(m), 'dtype': None})", "dtype is null, and must be one of float64"),
    "another element type": ("say(**{**right(m), 'dtype': 'float8'})", "dtype is float8, and must"),
    "integers": ("say(**{**right(m), 'dtype': 'int64'})", "dtype is int64, and must be"),
    "no pack": ("say(**right(m), pack='ring')", "pack is ring, and must be one of pair, complex"),
    "a pack that is none": ("say(**right(m), pack=[1])", "pack is [1], and must be one of"),
    "angles": ("say(**right(m), pack='angle')", "pack is angle, and must be one of pair"),
    "another pack": ("say(**right(m), pack='half')", "has the shape (1, 1), and not that of"),
    "ragged": (
        "say(**{**right(m), 'arrays': {'cos': [[1], [1, 2]], 'sin': [[1]]}})",
        "cos must be lists of numbers, all of one length",
    ),
    "texts": (
        "say(**{**right(m), 'arrays': {'cos': [['1']], 'sin': [[1]]}})",
        "cos must be lists of numbers",
    ),
    "a text among numbers": (
        "say(**{**right(m), 'arrays': {'cos': [['1', None]], 'sin': [[1]]}})",
        "cos must be lists of numbers",
    ),
    "truth": (
        "say(**{**right(m), 'arrays': {'cos': [[True]], 'sin': [[0]]}})",
        "cos must be lists of numbers",
    ),
    "objects": (
        "say(**{**right(m), 'arrays': {'cos': {'a': 1}, 'sin': [[1]]}})",
        "cos must be lists of numbers",
    ),
    "nothing": ("say(**{**right(m), 'arrays': {'cos': [], 'sin': []}})", "cos has no numbers"),
    "shapes that differ": (
        "say(**{**right(m), 'arrays': {'cos': [[1]], 'sin': [[1, 0]]}})",
        "cosines and sines have different shapes",
    ),
    "no file": (
        "say(**{**right(m), 'arrays': {}, 'npy': {'cos': 'none.npy', 'sin': 3}})",
        "cos: none.npy is no file",
    ),
    "a folder": (
        "say(**{**right(m), 'arrays': {}, 'npy': {'cos': '/', 'sin': '/'}})",
        "cos: / is no file",
    ),
    "a device": (
        "say(**{**right(m), 'arrays': {}, 'npy': {'cos': '/dev/zero', 'sin': '/'}})",
        "cos: /dev/zero is no file",
    ),
    "a pipe": (
        "say(**{**right(m), 'arrays': {}, 'npy': {'cos': PIPE + '/pipe', 'sin': '/'}})",
        "pipe is no file",
    ),
    "a pickle": (
        "say(**{**right(m), 'arrays': {}, 'npy': {'cos': PIPE + '/pickle.npy', 'sin': '/'}})",
        "an array of Python objects is a pickle",
    ),
    "a cut file": (
        "say(**{**right(m), 'arrays': {}, 'npy': {'cos': PIPE + '/cut.npy', 'sin': '/'}})",
        "bytes of elements",
    ),
    "a huge file": (
        "say(**{**right(m), 'arrays': {}, 'npy': {'cos': PIPE + '/huge.npy', 'sin': '/'}})",
        "has more than 4096 bytes",
    ),
}


@pytest.mark.parametrize("name", ERRS)
def test_an_answer_that_cannot_be_judged_errs_and_the_next_one_is_asked(
    name: str, run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(implementations, "MOST_LINE_BYTES", 2**16)
    monkeypatch.setattr(judging, "_MOST_FILE_BYTES", 4096)
    os.mkfifo(tmp_path / "pipe")
    np.save(tmp_path / "pickle.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "huge.npy", np.zeros(2**12))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "huge.npy").read_bytes()[:200])
    script, told = ERRS[name]

    # The first case gets what is wrong, the others get what is right.
    code, text, report = run(
        f"{GREETED}m = hear(); {script}\nwhile (m := hear())['type'] == 'case': say(**right(m))",
        pipe=str(tmp_path),
    )

    assert code == 1
    assert report["cases"][0]["status"] == "errs"
    assert told in report["cases"][0]["reason"]
    assert report["summary"]["passes"] == 2
    assert f"ERROR tiny/far/1              {report['cases'][0]['reason']}" in text


def test_lines_that_are_no_messages_are_passed_over_and_counted(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(implementations, "MOST_LINE_BYTES", 2**16)
    noise = "print('import error: \\x07no triton'); print('{}'); print('[1]'); print(); "
    logs = "say(type='log', text='x'); say(type=['answer']); print('{\"type\": \"log\", NaN}'); "
    log_when_asked = (
        "\nwhile (m := hear())['type'] == 'case': say(type='log', id=9); say(**right(m))"
    )

    long = "print('x' * 2**17); "

    code, text, report = run(f"{noise}{logs}{long}hear(); say(**HELLO){log_when_asked}")

    assert code == 0
    assert report["passed_over"] == 11
    lines = "not a message, and passed over: 11 lines of its standard output"
    assert f"{lines}, the first: import error: �no triton\n" in text


def test_a_message_of_another_type_alone_is_silence(run: Callable[..., Any]) -> None:
    for before in (GREETED + "hear(); ", ""):
        script = f"{before}say(type='anwser'); time.sleep(9)"

        code, text, report = run(script, "--timeout", "0.4")

        assert (code, report["passed_over"]) == (3, 1)
        assert '1 line of its standard output, the first: {"type": "anwser"}' in text


def test_a_flood_on_standard_error_stops_nothing(run: Callable[..., Any]) -> None:
    code, _, _ = run("sys.stderr.write('x' * 2**20); answering()")

    assert code == 0


def test_an_answer_that_nothing_asked_for_is_never_taken_for_one(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    early = "hear(); say(**HELLO); say(**right({'positions': [9, 9, 9]})); "

    code, text, report = run(
        f"{early}\nwhile (m := hear())['type'] == 'case': say(**right(m))",
        *("--junit", str(tmp_path / "junit.xml")),
    )

    assert code == 1
    assert report["unasked"] == 1
    told = "1 message came that nothing had asked for: answers may be those to other questions"
    assert f"\n{told}\n" in text
    root = ET.parse(tmp_path / "junit.xml").getroot()
    (failure,) = root.findall(".//testcase[@classname='posref'][@name='messages']/failure")
    assert failure.get("message") == failure.text == told


def test_a_line_that_has_begun_before_its_question_is_no_answer(run: Callable[..., Any]) -> None:
    line = "from json import dumps\nlong = dumps(right({'positions': [9]}))\n"
    both = "print(dumps(right(hear())), long[:9], sep='\\n', end='', flush=True)\n"

    code, _, report = run(
        f"{line}{GREETED}{both}m = hear(); print(long[9:], flush=True); say(**right(m))"
        "\nwhile (m := hear())['type'] == 'case': say(**right(m))"
    )

    assert (code, report["unasked"], report["summary"]["passes"]) == (1, 1, 3)


def test_a_greeting_may_come_before_it_is_asked_for(run: Callable[..., Any]) -> None:
    code, _, report = run(
        "sys.stdout.write('\ufeff'); say(**HELLO); hear()\n"
        "while (m := hear())['type'] != 'bye': say(**right(m))"
    )

    assert code == 0
    assert report["unasked"] == 0


def test_a_command_that_does_not_leave_is_ended_with_its_children(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(implementations, "LEAVE_SECONDS", 0.1)
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    held = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    held += "file = os.open(PIPE, os.O_WRONLY); is_parent = os.fork()\n"

    code, text, report = run(
        f"{held}if is_parent: answering()\ntime.sleep(99)", pipe=str(tmp_path / "pipe")
    )

    assert code == 0
    assert report["was_ended"]
    assert text.endswith("it did not leave within 0.1 seconds of bye, and was ended\n")
    # The end of the file: no process holds the pipe any more. An open one would block.
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_the_exit_code_after_bye_is_in_the_report(run: Callable[..., Any]) -> None:
    code, text, report = run("answering(); sys.exit(5)")

    assert (code, report["code"]) == (0, 5)
    assert text.endswith("3 pass\nafter bye, it ends with exit code 5\n")


def test_a_name_that_is_none_is_no_name(run: Callable[..., Any]) -> None:
    serve = "\nwhile (m := hear())['type'] == 'case': say(**right(m))"

    _, text, _ = run(f"hear(); say(**{{**HELLO, 'name': None}}, version=None); {serve}")

    assert text.startswith("unnamed implementation, suite ")


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_ended_ends_the_command(vectors: Path, tmp_path: Path, by: int) -> None:
    os.mkfifo(tmp_path / "pipe")
    script = "file = os.open(PIPE, os.O_WRONLY); os.write(file, b'x'); time.sleep(99)"
    command = [sys.executable, str(CONVERSATION), script, str(tmp_path / "pipe")]
    given = ["conformance", "run", "--suite", str(vectors), "--", *command]
    with (
        subprocess.Popen([sys.executable, "-m", "service", *given]) as runner,
        (tmp_path / "pipe").open("rb") as pipe,
    ):
        assert pipe.read(1) == b"x"
        runner.send_signal(by)
        assert runner.wait(30) == 128 + by
        # The end of the file: the command does not hold it any more.
        assert pipe.read(1) == b""


def test_reports_are_written_where_nobody_reads_the_text(vectors: Path, tmp_path: Path) -> None:
    files = (tmp_path / "report.json", tmp_path / "junit.xml")
    given = ["--suite", str(vectors), "--json", str(files[0]), "--junit", str(files[1])]
    command = [sys.executable, str(CONVERSATION), "answering()"]
    run = [sys.executable, "-m", "service", "conformance", "run", *given, "--", *command]
    with subprocess.Popen(run, stdout=subprocess.PIPE) as runner:
        assert runner.stdout is not None
        runner.stdout.close()

    assert json.loads(files[0].read_bytes())["exit_code"] == 0
    assert ET.parse(files[1]).getroot()[0].get("tests") == "3"


def test_a_closed_standard_output_changes_no_exit_code(vectors: Path) -> None:
    command = [sys.executable, str(CONVERSATION), "answering()"]
    run = [sys.executable, "-m", "service", "conformance", "run", "--suite", str(vectors), "--"]

    assert subprocess.call(["sh", "-c", '"$@" >&-', "sh", *run, *command]) == 0


def test_a_question_that_is_not_read_stops_nothing(run: Callable[..., Any], tmp_path: Path) -> None:
    content = json.loads(suite.text_of(VectorFile("tiny/long", asked)))
    content["cases"][0]["parameters"]["comment"] = "x" * 2**20
    (tmp_path / "long.json").write_text(json.dumps(content))

    options = ("--suite", str(tmp_path / "long.json"), "--timeout", "0.4")
    code, _, report = run(f"{GREETED}time.sleep(9)", *options)

    assert code == 3
    assert "no answer within" in report["failure"]


def test_what_is_not_listed_in_hello_is_not_asked(run: Callable[..., Any]) -> None:
    serve = "\nwhile (m := hear())['type'] == 'case': say(**right(m))"

    for listed in ("kinds=['rotate']", "rope_types=['yarn']", "kinds=['table'], rope_types=[]"):
        code, text, report = run(f"hear(); say(**HELLO, {listed}){serve}")
        assert code == 2
        assert report["summary"]["unsupported"] == 3
        assert "-     not listed in hello: tiny/far, tiny/near\n3 are not supported" in text
    code, _, _ = run(f"hear(); say(**HELLO, kinds=['table'], resources=[]){serve}")
    assert code == 0


def test_what_the_command_does_not_support_is_no_failure(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    no = "say(type='unsupported', reason='no far ones')"
    serve = f"hear(); say(**HELLO); hear(); {no}"
    serve += "\nwhile (m := hear())['type'] == 'case': say(**right(m))"

    code, text, report = run(serve, "--junit", str(tmp_path / "junit.xml"))

    assert code == 0
    assert report["cases"][0]["reason"] == "no far ones"
    assert "-     tiny/far                1 is not supported (no far ones)" in text
    assert text.endswith("2 pass, 1 is not supported\n")
    root = ET.parse(tmp_path / "junit.xml").getroot()
    (skipped,) = root.findall(".//testcase[@classname='tiny/far']/skipped")
    assert skipped.get("message") == "no far ones"
    assert root[0].attrib.items() >= {("tests", "3"), ("skipped", "1"), ("failures", "0")}


def test_every_reason_of_a_file_is_told(run: Callable[..., Any]) -> None:
    serve = "\nwhile (m := hear())['type'] == 'case': say(type='unsupported', reason=m['id'][-1])"

    code, text, _ = run(f"{GREETED}{serve}", "--only", "tiny/near/1", "--only", "tiny/near/2")

    assert code == 2
    assert "-     tiny/near               2 are not supported (1 × 1; 1 × 2)\n" in text


def test_junit_has_the_seconds_of_each_answer(run: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"
    slow = "m = hear(); time.sleep(0.3); say(**right(m)); m = hear(); say(**right(m)); hear()"

    _, _, report = run(f"{GREETED}{slow}; time.sleep(9)", "--junit", str(file), "--timeout", "0.5")

    root = ET.parse(file).getroot()
    cases = [float(str(each.get("time"))) for each in root.iterfind(".//testcase[@time]")]
    assert cases == [each["seconds"] for each in report["cases"]]
    assert (0.3 <= cases[0] < 0.5, cases[1] < 0.3, cases[2] >= 0.5) == (True, True, True)
    assert float(str(root[0].get("time"))) == pytest.approx(sum(cases), abs=2e-3)


@pytest.mark.parametrize(
    ("pattern", "cases"),
    [("tiny/far", 1), ("tiny/near/*", 2), ("*/1", 2), ("tiny/near/2", 1), ("*", 3)],
)
def test_only_chooses_cases_and_files(
    pattern: str, cases: int, run: Callable[..., Any], tmp_path: Path
) -> None:
    junit = tmp_path / "junit.xml"
    code, text, report = run("answering()", "--only", pattern, "--junit", str(junit))

    assert code == 0
    assert len(report["cases"]) == cases
    told = f", {cases} of 3 cases"
    for place in (text.splitlines()[0], report["part"], ET.parse(junit).getroot()[0].get("name")):
        assert str(place).endswith(told) == (cases < 3)


def test_a_choice_that_chooses_nothing_is_refused(
    vectors: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    only = ["--only", "tiny/near", "--only", "tiny/fra"]

    assert main(["conformance", "run", "--suite", str(vectors), *only, "--", "true"]) == 2
    assert capfd.readouterr().err == "no case is named tiny/fra\n"


def test_npy_files_are_read_with_the_type_that_the_answer_names(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    for name, wave in (("cos", np.cos), ("sin", np.sin)):
        np.save(tmp_path / f"{name}.npy", np.asfortranarray(wave([[[4096.0]]]), dtype=np.float32))
    files = "{name: f'{PIPE}/{name}.npy' for name in ('cos', 'sin')}"

    code, _, report = run(
        f"answering(arrays={{}}, npy={files})", "--only", "*far*", pipe=str(tmp_path)
    )

    assert code == 0
    assert report["cases"][0]["grade"] == "exact"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["run"],
        ["run", "--"],
        ["run", "--timeout", "0", "--", "true"],
        ["run", "--timeout", "x", "--", "true"],
        ["write"],
    ],
)
def test_bad_usage_has_code_2(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["conformance", *arguments])

    assert exited.value.code == 2
    told = capfd.readouterr().err
    assert "usage: posref conformance" in told
    assert "_seconds" not in told
    assert ("is no number of seconds above 0" in told) == ("--timeout" in arguments)


def test_a_folder_or_a_report_that_is_none_has_code_2(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["conformance", "run", "--suite", "/no/folder", "--", "true"]) == 2
    assert "/no/folder" in capfd.readouterr().err
    for option in ("--json", "--junit"):
        for place in (tmp_path / "no" / "report", tmp_path):
            command = ["touch", str(tmp_path / "started")]
            assert main(["conformance", "run", option, str(place), "--", *command]) == 2
            printed = capfd.readouterr()
            assert (printed.out, (tmp_path / "started").exists()) == ("", False)
            assert printed.err == f"{place}: no report can be written to this file\n"


def test_an_interrupted_run_ends_the_command(
    vectors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(implementations.Implementation, "ask", interrupted)
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    script = "file = os.open(PIPE, os.O_WRONLY); answering(); time.sleep(99)"
    command = [sys.executable, str(CONVERSATION), script, str(tmp_path / "pipe")]

    assert main(["conformance", "run", "--suite", str(vectors), "--", *command]) == 130
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_arguments_of_the_command_are_not_changed(
    vectors: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = "assert sys.argv[2:] == ['-1,2', '--', '-1e-3', '--json'], sys.argv\nanswering()"
    command = [sys.executable, str(CONVERSATION), script, "-1,2", "--", "-1e-3", "--json"]

    assert main(["conformance", "run", "--suite", str(vectors), "--", *command]) == 0
    assert "3 pass" in capfd.readouterr().out
