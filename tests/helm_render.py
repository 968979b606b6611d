"""Renders charts in a process of its own, since Helm brings Go's runtime: JSON lines in and out."""

import json
import sys
from typing import Any

import helm_python


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """{"chart", "values", "release", "namespace"[, "lint"]} -> {"files"} or {"error"}."""
    try:
        if question.get("lint"):
            report = helm_python.lint(question["chart"], question["values"], strict=True)
            return {
                "files": {m["path"]: m["error"] for m in report["messages"] if m["severity"] > 1}
            }
        chart = helm_python.Chart.load(question["chart"])
        chart.validate_schema(question["values"])
        names = {"name": question["release"], "namespace": question["namespace"]}
        return {"files": chart.render(question["values"], **names)}
    except helm_python.HelmError as error:
        return {"error": str(error)}


if __name__ == "__main__":
    helm_python.disable_logging()
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
