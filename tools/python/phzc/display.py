"""A plan as HTML, for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .plan import Plan

_ROWS = 40


def html(plan: Plan) -> str:
    """The summary, the collectives, and the layouts of the largest arguments, as tables."""
    figures = plan.figures
    parts = [
        f"<b>{escape(plan.step.name)}</b>: {escape(plan.summary().split(chr(10))[0])}",
        _table(
            ["stage", "mesh", "forward", "backward", "update", "memory"],
            [
                [
                    str(at),
                    s["mesh"] or "one device",
                    _time(s["forward_secs"]),
                    _time(s["backward_secs"]),
                    _time(s["update_secs"]),
                    _size(s["memory_bytes"]),
                ]
                for at, s in enumerate(figures["stages"])
            ],
        ),
        _table(
            ["collective", "axes", "per step", "bytes", "time"],
            [
                [c["kind"], ",".join(c["axes"]), str(c["count"]), _size(c["bytes"]), _time(c["time_secs"])]
                for c in figures["collectives"]
            ],
        ),
        _table(["argument", "shape", "layout"], _arguments(plan)),
        f"<details><summary>all of the summary</summary><pre>{escape(plan.summary())}</pre></details>",
    ]
    return "\n".join(part for part in parts if part)


def _arguments(plan: Plan) -> list[list[str]]:
    rows = [
        (leaf.aval, path, spec) for leaf, (path, spec) in zip(plan.step.inputs.arrays, plan.layouts.items())
    ]
    rows.sort(key=lambda row: -row[0].size)
    shown = [[path, f"{aval.dtype}{list(aval.shape)}", str(spec)] for aval, path, spec in rows[:_ROWS]]
    return shown + ([[f"and {len(rows) - _ROWS} more", "", ""]] if len(rows) > _ROWS else [])


def _table(head: list[str], rows: list[list[str]]) -> str:
    if not rows:
        return ""
    cells = ["<tr>" + "".join(f"<th>{escape(name)}</th>" for name in head) + "</tr>"]
    cells += ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    return "<table>" + "".join(cells) + "</table>"


def _time(secs: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if secs * scale >= 1:
            return f"{secs * scale:.3g} {unit}"
    return f"{secs * 1e9:.3g} ns"


def _size(n_bytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n_bytes < 1024:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:.3g} TiB"
