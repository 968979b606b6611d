"""`florilege` with an engine that dies when it meets a certain token: run by test_death.py."""

import sys
import time

from engine.batch import Batch
from engine.engine import Engine
from engine.lazy import LazyTensor

DEADLY_ID = 9947  # "poison" in MiniLM's vocabulary

how = sys.argv.pop(1)
step = Engine.step


def deadly_step(self: Engine, batch: Batch) -> LazyTensor:
    if DEADLY_ID in batch.input_ids:
        if how == "exit":
            raise SystemExit(1)
        time.sleep(3600)
    return step(self, batch)


Engine.step = deadly_step  # type: ignore[method-assign]

if __name__ == "__main__":
    from cli.main import app

    app()
