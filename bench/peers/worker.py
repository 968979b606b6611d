"""Serve one peer over stdin and stdout, a line of JSON each way.

.peers/bin/python -P bench/peers/worker.py PEER.py MODEL_DIRECTORY DTYPE

The first line out says what was loaded. Then each line in, {"texts", "size", "vectors"}, is
answered by {"seconds", "vectors"}: the time from a list of texts to a float32 array of their
vectors, tokenization included and this protocol not, and the vectors if they were asked for.

PEER.py defines `load(model_dir, dtype)`, which returns `embed(texts, size)`, and `LIBRARIES`.
"""

import base64
import json
import os
import runpy
import sys
import time
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray


def main(script: str, model_dir: str, dtype: str) -> None:
    # Whatever a library prints must not end up between the lines of the protocol.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    peer = runpy.run_path(script)
    embed = peer["load"](model_dir, dtype)
    ready = {"versions": {library: version(library) for library in peer["LIBRARIES"]}}
    print(json.dumps(ready), file=out, flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        started_s = time.perf_counter()
        vectors = embed(job["texts"], job["size"])
        seconds = time.perf_counter() - started_s
        answer: dict[str, object] = {"seconds": seconds}
        if job["vectors"]:
            answer["vectors"] = [_base64(row) for row in vectors]
        print(json.dumps(answer), file=out, flush=True)


def _base64(row: NDArray[np.float32]) -> str:
    return base64.b64encode(np.ascontiguousarray(row, "<f4").tobytes()).decode()


if __name__ == "__main__":
    main(*sys.argv[1:])
