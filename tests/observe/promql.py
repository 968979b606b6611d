"""What a PromQL expression asks for: metrics, labels, functions. By its syntax tree."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import promql_parser as promql


@dataclass(frozen=True)
class Use:
    """One selector, and what stands around it, innermost first."""

    metric: str
    labels: frozenset[str]  # in its matchers and in `by` around it
    calls: tuple[str, ...]  # functions and aggregations
    range_s: float | None  # of a range selector


def uses(expr: str) -> list[Use]:
    """Raises ValueError for what is not PromQL."""
    return list(_walk(promql.parse(expr), (), frozenset()))


def _walk(node: object, calls: tuple[str, ...], labels: frozenset[str]) -> Iterator[Use]:
    match node:
        case promql.VectorSelector():
            yield _use(node, calls, labels, None)
        case promql.MatrixSelector():
            yield _use(node.vector_selector, calls, labels, node.range)
        case promql.AggregateExpr():
            if node.modifier is not None:
                assert node.modifier.type == promql.AggModifierType.By, "name what is to be left"
                labels |= frozenset(node.modifier.labels)
            yield from _walk(node.expr, (str(node.op), *calls), labels)
        case promql.Call():
            for argument in node.args:
                yield from _walk(argument, (node.func.name, *calls), labels)
        case promql.BinaryExpr():
            yield from _walk(node.lhs, calls, labels)
            yield from _walk(node.rhs, calls, labels)
        case promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
            yield from _walk(node.expr, calls, labels)
        case promql.NumberLiteral() | promql.StringLiteral():
            return
        case _:
            raise ValueError(f"not known here: {type(node).__name__}")


def _use(
    node: promql.VectorSelector,
    calls: tuple[str, ...],
    labels: frozenset[str],
    range_: timedelta | None,
) -> Use:
    matched = frozenset(matcher.name for matcher in node.matchers.matchers)
    seconds = None if range_ is None else range_.total_seconds()
    return Use(node.name, matched | labels, calls, seconds)
