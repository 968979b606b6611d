"""Serve one engine over stdin and stdout, a line of JSON each way.

python -P bench/peers/worker.py ENGINE.py MODEL_DIRECTORY EXPORTS_DIRECTORY DTYPE

The first line out says what was loaded. Then each line in, {"texts", "size", "alone", "vectors"},
is answered by {"seconds", "vectors"}: the times from a list of texts to a float32 array of their
vectors, tokenization included and this protocol not: one of all texts, or where `alone` one of each
text by itself. And the vectors, if they were asked for.

ENGINE.py defines `load(model_dir, exports, dtype)`, which returns `embed(texts, size)`, and
`LIBRARIES`. Modules beside it can be imported.
"""

import base64
import json
import os
import runpy
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def main(script: str, model_dir: str, exports: str, dtype: str) -> None:
    # Whatever a library prints must not end up between the lines of the protocol.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.path.append(str(Path(script).parent))
    engine = runpy.run_path(script)
    embed = engine["load"](model_dir, exports, dtype)
    ready = {"versions": {library: version(library) for library in engine["LIBRARIES"]}}
    print(json.dumps(ready), file=out, flush=True)
    for line in sys.stdin:
        print(json.dumps(_answer(embed, json.loads(line))), file=out, flush=True)


def _answer(embed: Any, job: dict[str, Any]) -> dict[str, object]:
    texts, size = job["texts"], job["size"]
    parts = [[text] for text in texts] if job["alone"] else [texts]
    seconds, vectors = [], []
    for part in parts:
        started_s = time.perf_counter()
        rows = embed(part, size)
        seconds.append(time.perf_counter() - started_s)
        vectors.append(rows)
    answer: dict[str, object] = {"seconds": seconds}
    if job["vectors"]:
        answer["vectors"] = [_base64(row) for rows in vectors for row in rows]
    return answer


def _base64(row: NDArray[np.float32]) -> str:
    return base64.b64encode(np.ascontiguousarray(row, "<f4").tobytes()).decode()


if __name__ == "__main__":
    main(*sys.argv[1:])
