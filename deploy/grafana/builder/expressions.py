"""The few shapes that nearly all queries have. Metrics are named without the prefix."""

PREFIX = "florilege_"
MODEL = 'model=~"$model"'
PROCESS = 'instance=~"$instance"'
BOTH = f"{MODEL}, {PROCESS}"


def rate(metric: str, by: str = "", where: str = BOTH) -> str:
    """A second, of a counter: `requests_total`."""
    return _sum(by, f"rate({PREFIX}{metric}{{{where}}}[$__rate_interval])")


def ratio(part: str, whole: str) -> str:
    """No series, rather than NaN, where the whole is 0: so the panel says its no-data text."""
    return f"{part} / ({whole} > 0)"


def mean(histogram: str, by: str = "", where: str = BOTH) -> str:
    return ratio(rate(f"{histogram}_sum", by, where), rate(f"{histogram}_count", by, where))


def quantile(share: float, histogram: str, by: str = "", where: str = BOTH) -> str:
    labels = f"le, {by}" if by else "le"
    # The quantile of nothing is NaN, which is not at least 0.
    return f"histogram_quantile({share}, {rate(f'{histogram}_bucket', labels, where)}) >= 0"


def buckets(histogram: str, where: str = BOTH) -> str:
    """How many fell into each, for a heatmap."""
    return f"sum by (le) (increase({PREFIX}{histogram}_bucket{{{where}}}[$__rate_interval]))"


def shared(gauge: str, by: str = "model, lane", where: str = BOTH) -> str:
    """What every gateway tells alike: they are not added up."""
    return f"max by ({by}) ({PREFIX}{gauge}{{{where}}})"


def own(gauge: str, where: str = BOTH) -> str:
    """What each process tells of itself."""
    return f"{PREFIX}{gauge}{{{where}}}"


def _sum(by: str, expr: str) -> str:
    return f"sum by ({by}) ({expr})" if by else f"sum({expr})"
