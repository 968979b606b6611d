"""The tables of `tokenizers`, as Markdown."""

from bench.fleet.report import machine_lines, page, section
from bench.statistics import Spread
from bench.tokenizers.results import LibraryRow, TokenizersResults


def tokenizers_markdown(results: TokenizersResults) -> str:
    names = list(dict.fromkeys(row.tokenizer for row in results.rows))
    return page(
        "Tokenizer libraries",
        [
            *machine_lines(results.date, results.machine),
            f"ids checked on {results.texts:,} package descriptions in English, German, French and "
            f"Japanese, and on {results.odd_texts:,} odd texts",
            f"CPU time of one thread, {results.rounds} rounds in random order, every text new; "
            "medians, ratios with the least and greatest of all rounds",
        ],
        *(
            section(
                name,
                (
                    *("library", "version", "texts with other ids", "odd texts"),
                    *(f"{tokens} tokens, µs" for tokens in _loads(results)),
                    *(f"{tokens} tokens, × tokenizers" for tokens in _loads(results)),
                ),
                [_cells(row) for row in results.rows if row.tokenizer == name and not row.failure],
            )
            for name in names
        ),
        section(
            "Not compared",
            ("tokenizer", "library", "why"),
            [
                (row.tokenizer, row.library, row.failure.replace("|", "\\|"))
                for row in results.rows
                if row.failure
            ],
        ),
    )


def _loads(results: TokenizersResults) -> list[int]:
    return sorted({speed.tokens for row in results.rows for speed in row.speeds})


def _cells(row: LibraryRow) -> tuple[str, ...]:
    return (
        *(row.library, row.version, f"{row.differing:,}", f"{row.odd_differing:,}"),
        *(f"{speed.microseconds.median:.1f}" for speed in row.speeds),
        *(_spread(speed.ratio) for speed in row.speeds),
    )


def _spread(ratio: Spread) -> str:
    return f"{ratio.median:.1f} ({ratio.min:.1f} … {ratio.max:.1f})"
