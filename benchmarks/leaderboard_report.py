"""Tables and chart of the leaderboard, and its summary figures."""

import csv
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from wattveil.lab.baselines.accuracy_limit import AccuracyLimit
from wattveil.lab.baselines.baseline_summary import is_wild

OURS = "ours"
FLOOR = 1e-3
"""Smaller losses count as this in ratios: a ratio of two losses near zero says nothing."""
MARKER = "<!-- Below: written by `make leaderboard` -->"
NEAR_LIMIT = 2.0


@dataclass(frozen=True, kw_only=True)
class Cell:
    """All methods on one family, kind of row and epsilon."""

    family: str
    split: str
    kind: str
    customers: int
    slots: int
    epsilon: float
    limit: AccuracyLimit
    losses: Mapping[str, Mapping[str, Sequence[float]]]
    """By method and variant."""
    roles: Mapping[str, str]

    @cached_property
    def medians(self) -> dict[str, float]:
        """Return the median loss of the best variant of each method."""
        return {
            method: min(float(np.median(losses)) for losses in variants.values())
            for method, variants in self.losses.items()
        }

    @cached_property
    def best_peer(self) -> str:
        """Return the peer of minimum loss."""
        peers = [name for name, role in self.roles.items() if role == "peer"]
        return min(peers, key=self.medians.__getitem__)

    def variant(self, method: str) -> str:
        """Return the best variant of a method."""
        variants = self.losses[method]
        return min(variants, key=lambda name: float(np.median(variants[name])))

    def ratio_to(self, method: str) -> float:
        """Return the loss of a method over ours."""
        return max(self.medians[method], FLOOR) / max(self.medians[OURS], FLOOR)

    @property
    def ratio(self) -> float:
        """Return the loss of the best peer over ours."""
        return self.ratio_to(self.best_peer)

    @property
    def wild(self) -> int:
        """Return the number of our runs above 3 medians + 0.02."""
        (losses,) = self.losses[OURS].values()
        return int(is_wild(np.array(losses)).sum())

    @property
    def runs(self) -> int:
        """Return the number of our runs."""
        (losses,) = self.losses[OURS].values()
        return len(losses)

    @property
    def over_limit(self) -> float:
        """Return our loss over max(A, B)."""
        return max(self.medians[OURS], FLOOR) / max(self.limit.reference, FLOOR)

    @property
    def peer_over_limit(self) -> float:
        """Return the loss of the best peer over max(A, B): the lead of a method at the limit."""
        return self.ratio * self.over_limit


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def write_report(cells: Sequence[Cell], titles: Mapping[str, str], folder: Path) -> str:
    """Write CSV, Markdown and chart; return the Markdown."""
    _write_csv(cells, folder / "leaderboard.csv")
    parts = [_summary(cells), _against_limit(cells), _by_method(cells, titles)]
    parts += [
        _by_family([cell for cell in cells if cell.kind == kind], kind)
        for kind in dict.fromkeys(cell.kind for cell in cells)
    ]
    text = "\n\n".join(parts) + "\n"
    (folder / "leaderboard.md").write_text(text, encoding="utf-8")
    shown = [cell for cell in cells if cell.split == "held-out"] or list(cells)
    (folder / "leaderboard.svg").write_text(_chart(shown), encoding="utf-8")
    return text


def write_page(text: str, chart: Path, page: Path) -> None:
    """Put the tables below the marker of a page, and the chart into its folder of images."""
    head, found, _ = page.read_text(encoding="utf-8").partition(MARKER)
    if not found:
        message = f"{page} has no line {MARKER}"
        raise ValueError(message)
    images = page.parent / "images"
    shutil.copyfile(chart, images / chart.name)
    page.write_text(f"{head}{MARKER}\n\n{text}", encoding="utf-8")


def _write_csv(cells: Sequence[Cell], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            [
                *("family", "split", "kind", "customers", "slots", "epsilon", "method", "role"),
                *("variant", "runs", "low", "median", "high", "against_b", "over_ours"),
                *("one_draw", "no_small_clusters", "bound", "wild"),
            ]
        )
        for cell in cells:
            for method in cell.losses:
                variant = cell.variant(method)
                losses = np.array(cell.losses[method][variant])
                low, median, high = np.quantile(losses, [0.25, 0.5, 0.75])
                limit = cell.limit
                writer.writerow(
                    [
                        *(cell.family, cell.split, cell.kind, cell.customers, cell.slots),
                        *(cell.epsilon, method, cell.roles[method], variant, len(losses)),
                        *(low, median, high, limit.against_b(median), cell.ratio_to(method)),
                        *(limit.one_draw, limit.no_small_clusters, limit.bound),
                        int(is_wild(losses).sum()),
                    ]
                )


def _splits(cells: Sequence[Cell]) -> list[tuple[str, str, list[Cell]]]:
    """Return split, kind and cells of each, the held-out families first."""
    splits = sorted({cell.split for cell in cells}, key=lambda split: split != "held-out")
    found = []
    for split in splits:
        for kind in dict.fromkeys(cell.kind for cell in cells):
            of_both = [cell for cell in cells if (cell.split, cell.kind) == (split, kind)]
            if of_both:
                found.append((split, kind, of_both))
    return found


def _summary(cells: Sequence[Cell]) -> str:
    head = (
        *("families", "rows", "cells", "best peer / ours: geometric mean", "minimum"),
        *("cells below 1", "at most 2 max(A, B)", "runs above 3 medians + 0.02"),
    )
    lines = [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
    for split, kind, of_both in _splits(cells):
        ratios = [cell.ratio for cell in of_both]
        near = np.mean([cell.over_limit <= NEAR_LIMIT for cell in of_both])
        wild, runs = sum(cell.wild for cell in of_both), sum(cell.runs for cell in of_both)
        lines.append(
            f"| {split} | {kind} | {len(of_both)} | **{geometric_mean(ratios):.2f}** | "
            f"{min(ratios):.2f} | {sum(ratio < 1.0 for ratio in ratios)} | {near:.0%} of cells | "
            f"{wild} of {runs} ({wild / runs:.1%}) |"
        )
    return "\n".join(lines)


def _against_limit(cells: Sequence[Cell]) -> str:
    """Return how far the best peer and we are from the limit, by epsilon."""
    epsilons = sorted({cell.epsilon for cell in cells})
    head = ("ratio, geometric mean", *(f"ε = {epsilon:g}" for epsilon in epsilons), "all", "range")
    lines = [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
    for split, kind, of_both in _splits(cells):
        for name, values in (
            ("best peer / max(A, B)", [cell.peer_over_limit for cell in of_both]),
            ("ours / max(A, B)", [cell.over_limit for cell in of_both]),
        ):
            by_epsilon = [
                geometric_mean(
                    [
                        value
                        for cell, value in zip(of_both, values, strict=True)
                        if cell.epsilon == epsilon
                    ]
                )
                for epsilon in epsilons
            ]
            means = (f"{value:.2f}" for value in (*by_epsilon, geometric_mean(values)))
            extremes = f"{min(values):.2f} to {max(values):.2f}"
            lines.append(f"| {split}, {kind}: {name} | {' | '.join(means)} | {extremes} |")
    return "\n".join(lines)


def _by_method(cells: Sequence[Cell], titles: Mapping[str, str]) -> str:
    """Return the geometric mean of each method's loss over ours."""
    groups = _splits(cells)
    lines = [
        "Loss over ours, geometric mean (minimum), best variant of each cell:",
        "",
        "| method | " + " | ".join(f"{split}, {kind}" for split, kind, _ in groups) + " |",
        "|" + " --- |" * (1 + len(groups)),
    ]
    held_out = [cell for cell in cells if cell.split == groups[0][0]]
    roles = cells[0].roles
    names = sorted(
        (name for name in titles if name != OURS),
        key=lambda name: (
            roles[name] == "oracle",
            geometric_mean([cell.ratio_to(name) for cell in held_out]),
        ),
    )
    best = [[cell.ratio for cell in group] for _, _, group in groups]
    shown = (f"**{geometric_mean(group):.2f}** ({min(group):.2f})" for group in best)
    lines.append(f"| best peer of each cell | {' | '.join(shown)} |")
    for name in names:
        ratios = [[cell.ratio_to(name) for cell in group] for _, _, group in groups]
        title = titles[name] + (" (oracle, no peer)" if roles[name] == "oracle" else "")
        shown = (f"{geometric_mean(group):.2f} ({min(group):.2f})" for group in ratios)
        lines.append(f"| {title} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _by_family(cells: Sequence[Cell], kind: str) -> str:
    """Return the losses of ours and of the best peer beside the limit, one row per family."""
    epsilons = sorted({cell.epsilon for cell in cells})
    lines = [
        f"Loss, rows as {kind}: ours / best peer (its name) / max(A, B)",
        "",
        "| family | customers | slots | " + " | ".join(f"ε = {one:g}" for one in epsilons) + " |",
        "|" + " --- |" * (3 + len(epsilons)),
    ]
    for family in dict.fromkeys(cell.family for cell in cells):
        mine = [cell for cell in cells if cell.family == family]
        first = mine[0]
        mark = "" if first.split == "held-out" else " (tuning)"
        shown = (
            f"{_number(cell.medians[OURS])} / {_number(cell.medians[cell.best_peer])} "
            f"({cell.best_peer}) / {_number(cell.limit.reference)}"
            for cell in mine
        )
        lines.append(
            f"| {family}{mark} | {first.customers:,} | {first.slots} | {' | '.join(shown)} |"
        )
    return "\n".join(lines)


def _number(loss: float) -> str:
    return f"{loss:.2f}" if loss >= 1.0 else f"{loss:.3f}".lstrip("0")


# --- chart ----------------------------------------------------------------------------------------

_LEFT, _TOP, _ROW, _PANEL, _GAP = 190, 62, 20, 205, 46
_LOWEST, _HIGHEST = 1e-3, 20.0
_INK, _BLUE, _ORANGE, _GREY = "#22303c", "#1f6fb2", "#d9730d", "#8a97a3"


def _chart(cells: Sequence[Cell]) -> str:
    """Return a chart: a panel per kind and epsilon, a row per family, losses on a log scale."""
    kinds = list(dict.fromkeys(cell.kind for cell in cells))
    epsilons = sorted({cell.epsilon for cell in cells})
    width = _LEFT + len(epsilons) * (_PANEL + _GAP)
    marks, top = [_legend()], _TOP
    for kind in kinds:
        names = list(dict.fromkeys(cell.family for cell in cells if cell.kind == kind))
        bottom = top + _ROW * len(names)
        marks += [
            _text(_LEFT - 10, top + _ROW * (row + 0.65), name, "end")
            for row, name in enumerate(names)
        ]
        for column, epsilon in enumerate(epsilons):
            left = _LEFT + column * (_PANEL + _GAP)
            marks.append(_text(left, top - 8, f"{kind}, ε = {epsilon:g}", "start"))
            marks += _axis(left, top, bottom)
            for row, name in enumerate(names):
                y = top + _ROW * (row + 0.5)
                marks += [
                    _cell_marks(cell, left, y)
                    for cell in cells
                    if (cell.family, cell.kind, cell.epsilon) == (name, kind, epsilon)
                ]
        top = bottom + 64
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}" '
        f'viewBox="0 0 {width} {top}" font-family="sans-serif" font-size="12" fill="{_INK}">\n'
        "<title>Accuracy loss of Wattveil, of the best peer, and the limit</title>\n"
        f'<rect width="{width}" height="{top}" fill="#fff"/>\n' + "\n".join(marks) + "\n</svg>\n"
    )


def _place(loss: float) -> float:
    inside = min(max(loss, _LOWEST), _HIGHEST)
    return _PANEL * math.log(inside / _LOWEST) / math.log(_HIGHEST / _LOWEST)


def _cell_marks(cell: Cell, left: float, y: float) -> str:
    limit, ours, peer = (
        left + _place(loss)
        for loss in (cell.limit.reference, cell.medians[OURS], cell.medians[cell.best_peer])
    )
    return (
        f'<line x1="{ours:.1f}" x2="{peer:.1f}" y1="{y}" y2="{y}" stroke="{_GREY}"/>'
        f'<line x1="{limit:.1f}" x2="{limit:.1f}" y1="{y - 7}" y2="{y + 7}" stroke="{_INK}" '
        'stroke-width="2"/>'
        f'<circle cx="{peer:.1f}" cy="{y}" r="4.5" fill="{_ORANGE}"/>'
        f'<circle cx="{ours:.1f}" cy="{y}" r="4.5" fill="{_BLUE}"/>'
    )


def _axis(left: float, top: float, bottom: float) -> list[str]:
    marks = []
    for tick in (0.001, 0.01, 0.1, 1.0, 10.0):
        x = left + _place(tick)
        marks.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}" stroke="#dfe5ea"/>')
        marks.append(_text(x, bottom + 16, f"{tick:g}", "middle"))
    return marks


def _legend() -> str:
    entries = ((_BLUE, "Wattveil"), (_ORANGE, "best peer, bounds given for free"))
    drawn = [
        f'<circle cx="{_LEFT + 6 + 100 * at}" cy="20" r="4.5" fill="{colour}"/>'
        + _text(_LEFT + 16 + 100 * at, 24, name, "start")
        for at, (colour, name) in enumerate(entries)
    ]
    x = _LEFT + 330
    drawn.append(
        f'<line x1="{x}" x2="{x}" y1="13" y2="27" stroke="{_INK}" stroke-width="2"/>'
        + _text(x + 10, 24, "max(A, B), the limit", "start")
    )
    return "".join(drawn)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'
