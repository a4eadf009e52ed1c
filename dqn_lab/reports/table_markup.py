"""Tables of text as Markdown, or as an HTML page."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

_SIGNS = re.compile(r"[\\`*<|]|(?<![^\W_])_|_(?![^\W_])")  # an underscore inside a word is none
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:80em;margin:2em auto;padding:0 1em;color:#222;background:#fff}"
    "table{border-collapse:collapse}div{overflow-x:auto}th,td{padding:.3em .8em;border-bottom:1px solid #ccc;"
    "text-align:left;vertical-align:top}.number{text-align:right;white-space:nowrap}"
)


@dataclass(frozen=True)
class Table:
    """A table of text.

    Args:
        title: its heading.
        columns: names.
        rows: a cell of text for each column.
        notes: sentences below it.
        numbers: names of the columns that stand to the right.
    """

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    notes: tuple[str, ...] = ()
    numbers: Collection[str] = ()


def markdown(title: str, tables: Iterable[Table]) -> str:
    """The tables as Markdown, aligned to be read as they stand."""
    blocks = [f"# {_escaped(title)}"]
    for table in tables:
        blocks.append(f"## {_escaped(table.title)}")
        if table.columns:
            blocks.append("\n".join(_markdown_rows(table)))
        blocks += ["\n".join(f"- {_escaped(note)}" for note in table.notes)] if table.notes else []
    return "\n\n".join(blocks) + "\n"


def page(title: str, tables: Iterable[Table]) -> str:
    """The tables as one HTML page that needs nothing else."""
    parts = [
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{html.escape(title)}</title>',
        f'<meta name="viewport" content="width=device-width">\n<style>{_STYLE}</style>\n</head>\n<body>',
        f"<h1>{html.escape(title)}</h1>",
    ]
    for table in tables:
        parts.append(f"<h2>{html.escape(table.title)}</h2>")
        if table.columns:
            head = _html_row(table, table.columns, "th")
            rows = [_html_row(table, row, "td") for row in table.rows]
            parts += ["<div><table>", f"<thead>{head}</thead>", "<tbody>", *rows, "</tbody>", "</table></div>"]
        if table.notes:
            parts += ["<ul>", *(f"<li>{html.escape(note)}</li>" for note in table.notes), "</ul>"]
    return "\n".join([*parts, "</body>\n</html>\n"])


def _markdown_rows(table: Table) -> list[str]:
    cells = [[_escaped(cell) for cell in row] for row in (table.columns, *table.rows)]
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    numbers = [name in table.numbers for name in table.columns]
    lines = [
        " | ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numbers, strict=True)
        )
        for row in cells
    ]
    rule = " | ".join("-" * (width - right) + ":" * right for width, right in zip(widths, numbers, strict=True))
    return [f"| {line} |" for line in (lines[0], rule, *lines[1:])]


def _html_row(table: Table, cells: Sequence[str], tag: str) -> str:
    marks = [' class="number"' if name in table.numbers else "" for name in table.columns]
    marked = zip(marks, cells, strict=True)
    return "<tr>" + "".join(f"<{tag}{mark}>{html.escape(cell)}</{tag}>" for mark, cell in marked) + "</tr>"


def _escaped(text: str) -> str:
    """Text that Markdown takes as it stands."""
    return _SIGNS.sub(r"\\\g<0>", text)
