"""One library with one tokenizer.json, over stdin and stdout, a line of JSON each way.

PYTHON worker.py LIBRARY TOKENIZER.json REPOSITORY

The first line out is {"version"}. {"check": FILE} is answered by {"digests"}, of the ids of each
text of FILE, null where it failed; {"time": TEXTS} by {"seconds"} of CPU, of all threads.
"""

import hashlib
import json
import os
import sys
import time
from array import array
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

_AT_ONCE = 256


def main(name: str, tokenizer: str, repository: str) -> None:
    # Whatever a library prints must not end up between the lines of the protocol.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.path.insert(0, repository)
    from bench.tokenizers.libraries import LIBRARIES, Encode

    def digests(texts: list[str], encode: Encode) -> list[str | None]:
        try:
            return [digest(row) for row in encode(texts)]
        # A panic in Rust is a BaseException. Which text it was is found one by one.
        except BaseException:
            return [None] if len(texts) == 1 else [digests([t], encode)[0] for t in texts]

    library = LIBRARIES[name]
    encode = library.load(Path(tokenizer).read_bytes())
    print(json.dumps({"version": version(library.package)}), file=out, flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        if "check" in job:
            texts = json.loads(Path(job["check"]).read_text())
            parts = [texts[at : at + _AT_ONCE] for at in range(0, len(texts), _AT_ONCE)]
            answer = {"digests": [one for part in parts for one in digests(part, encode)]}
            print(json.dumps(answer), file=out, flush=True)
            continue
        began_s = time.process_time()
        encode(job["time"])
        print(json.dumps({"seconds": time.process_time() - began_s}), file=out, flush=True)


def digest(ids: Iterable[int]) -> str:
    return hashlib.blake2b(array("q", map(int, ids)).tobytes(), digest_size=8).hexdigest()


if __name__ == "__main__":
    main(*sys.argv[1:])
