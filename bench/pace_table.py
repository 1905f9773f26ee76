"""The settings of bench/pace, and the tables of its results: figures with limits."""

import dataclasses
import math
import pathlib
import sys

import report


@dataclasses.dataclass(frozen=True)
class Settings:
    """What bench/pace measures."""

    # Measure very little, as a test of the script.
    quick: bool = False
    # Also measure a change of the traffic with 4 GiB.
    large: bool = False
    # The folder with traces for the section rates, or None.
    traces: pathlib.Path | None = None
    # The bytes of an item of the simulated cache in addition to its key and value; None is slabwise's own number.
    item_bytes: int | None = None

    def choose(self, full, quick):
        """Returns the first value, or the second one for a quick measurement."""
        return quick if self.quick else full


@dataclasses.dataclass(frozen=True)
class Figure:
    """A measured number. Without a limit, it is only reported."""

    value: float
    # The format of the value and of the limit.
    form: str = "{:,.4f}"
    # The highest or the lowest valid value, or None.
    at_most: float | None = None
    at_least: float | None = None

    def violation(self):
        """Returns on which side of its limit the figure is, or None if it is valid."""
        if self.at_most is not None and not self.value <= self.at_most:
            return "above"
        if self.at_least is not None and not self.value >= self.at_least:
            return "below"
        return None

    def __str__(self):
        value = self.form.format(self.value)
        if self.at_most is None and self.at_least is None:
            return value
        side, limit = ("<=", self.at_most) if self.at_least is None else (">=", self.at_least)
        note = f" {self.violation()}" if self.violation() else ""
        return f"{value} ({side} {self.form.format(limit)}){note}"

    def as_json(self):
        limits = {"at_most": self.at_most, "at_least": self.at_least}
        limits = {name: limit for name, limit in limits.items() if limit is not None}
        # JSON has no infinity.
        value = self.value if math.isfinite(self.value) else None
        if not limits:
            return value
        return {"value": value, **limits, "valid": self.violation() is None}


@dataclasses.dataclass
class Table:
    """A table of results. All rows have the same columns; a cell is a text or a Figure."""

    title: str
    rows: list
    # Measured numbers that the table does not show. They are only in the JSON file.
    details: list = dataclasses.field(default_factory=list)

    def as_json(self):
        def cell(value):
            return value.as_json() if isinstance(value, Figure) else value

        rows = [{name: cell(value) for name, value in row.items()} for row in self.rows]
        return {"title": self.title, "rows": rows, "details": self.details}


def print_table(section, table):
    print(f"\n{section}: {table.title}\n")
    if table.rows:
        print(report.table(list(table.rows[0]), [row.values() for row in table.rows]), flush=True)


def violations(section, table):
    """Returns a text for each figure of the table that violates its limit."""
    return [
        f"{section}, {next(iter(row.values()))}: {name} {figure}"
        for row in table.rows for name, figure in row.items()
        if isinstance(figure, Figure) and figure.violation()
    ]


def progress(text):
    print(text, file=sys.stderr, flush=True)
