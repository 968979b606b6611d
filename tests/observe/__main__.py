"""`python -m observe`: plays the scene, asks every panel's queries, prints a line for each."""

import sys
import time

from observe.dashboards import panels
from observe.outcome import ask
from observe.scene import played_scene


def main() -> None:
    began_s = time.monotonic()
    with played_scene() as scene:
        print(f"answers by status: {dict(sorted(scene.told.items()))}")
        outcomes = [ask(scene, panel) for panel in panels()]
    for outcome in outcomes:
        print(outcome.line())
    bad = [outcome for outcome in outcomes if not outcome.holds]
    print(f"{len(outcomes)} panels, {len(bad)} bad, {time.monotonic() - began_s:.0f} s")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
