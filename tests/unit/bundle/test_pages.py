"""What a reader sees: the report and the card."""

import math
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from pyarrow import compute

from tests.sample_bundles import LEVELS
from wattveil.bundle.bundle_files import read_manifest, read_table
from wattveil.bundle.card import card_text
from wattveil.bundle.report import report_page
from wattveil.products.tables import Table
from wattveil.web.formatting import format_number

MAX_BYTES = 1_500_000


def tables_of(bundle: Path, *names: str) -> dict[str, Table]:
    """Return tables of a bundle."""
    return {
        name: Table(name=name, text="", columns=(), data=read_table(bundle, name)) for name in names
    }


def test_the_report_shows_every_part(whole: Path) -> None:
    """One section per product; the privacy statement; no external resources."""
    page = (whole / "report.html").read_text(encoding="utf-8")
    statement = read_manifest(whole)
    titles = re.findall("<h2>(.*?)</h2>", page)
    assert titles[:3] == ["Summary", "Load", "Customer segments"]
    assert {"Synthetic customers", "Segments by group", "Interpretation and limitations"} < set(
        titles
    )
    assert statement["guarantee_text"] in unescape(page)
    for lines in (statement[field] for field in ("unprotected", "preprocessing", "known_limits")):
        assert all(line in unescape(page) for line in lines)
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=\"(?!data:)", page)
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert page.count("<figure") == 3 + 2 + 3 + 2 + 1 + 1
    assert (
        page.count('<details class="data">') == 6
    )  # load, curves, sizes, synthetic, shares, budget
    assert len(page.encode()) <= MAX_BYTES


def test_the_report_states_planned_and_achieved_segments(whole: Path) -> None:
    """The number of the manifest beside the one of the plan, in the first section."""
    manifest = read_manifest(whole)
    (record,) = (one for one in manifest["products"] if one["name"] == "clusters")
    (achieved,) = (
        one for one in record["achieved"] if one["quantity"] == "distinguishable segments"
    )
    (planned,) = (text for text in record["expected"] if text.startswith("distinguishable"))
    first = (whole / "report.html").read_text(encoding="utf-8").partition("</section>")[0]
    assert f"<b>{achieved['count']} of {achieved['of']}</b>" in first
    assert f"(planned: {planned.partition(': ')[2].partition(' of ')[0]}" in first


def test_readers_see_one_word_for_a_segment(whole: Path) -> None:
    """Cluster is the name of a column, a table or a product; titles, axes and texts say segment."""
    page = unescape((whole / "report.html").read_text(encoding="utf-8"))
    shown = [
        *re.findall(r"<(?:h2|h3|figcaption|summary|text|th)[^>]*>([^<]*)", page),
        *re.findall(r'(?:aria-label|alt)="([^"]*)"', page),
    ]
    assert any("segment" in text.lower() for text in shown)
    assert not [text for text in shown if re.search(r"(?i)\bclusters?\b(?! \d+ %)", text)]
    for text in (page, (whole / "CARD.md").read_text(encoding="utf-8")):
        assert not re.search(r"(?i)\bcluster \d", text)


def test_the_achieved_error_of_a_mean_load_is_the_released_one(whole: Path) -> None:
    """The root mean square of std_kw over slots: of each group, of which the largest is named."""
    shapes = read_table(whole, "load_shapes").to_pandas()
    due = {name: (errors**2).mean() ** 0.5 for name, errors in shapes.groupby("group").std_kw}
    page = (whole / "report.html").read_text(encoding="utf-8")
    (row,) = re.findall(r"<tr>(?:(?!</tr>).)*>standard error of a mean load<.*?</tr>", page)
    (planned,) = re.findall(r">([\d.]+) kW", row)
    assert float(planned) > 0.0  # of a group of mean size
    ((low, high, name),) = re.findall(r">([\d.]+) to ([\d.]+) kW by group, largest: (\w+)<", row)
    assert float(low) == pytest.approx(min(due.values()), rel=0.01)
    assert float(high) == pytest.approx(due[name], rel=0.01)
    assert due[name] == max(due.values())


def test_segments_are_sorted_by_size_on_one_scale(whole: Path) -> None:
    """The largest first, both flags on each, pale below 2 standard errors, one vertical axis."""
    sizes = read_table(whole, "cluster_sizes").to_pydict()
    page = (whole / "report.html").read_text(encoding="utf-8")
    section = page.partition("<h2>Customer segments</h2>")[2].partition('<details class="data"')[0]
    figures = section.split("<figure")[1:]
    order = [int(re.findall(r"Segment (\d+) ·", one)[0]) for one in figures]
    assert order == sorted(range(3), key=lambda cluster: -sizes["customers"][cluster])
    for cluster, figure in zip(order, figures, strict=True):
        above = sizes["customers"][cluster] > 2.0 * sizes["customers_std"][cluster]
        assert ("size &gt; 2 SE" in figure) == above
        assert figure.startswith(' class="faded"') != above
        assert figure.count('class="flag ') == 2
    assert len({re.findall(r'text-anchor="end">([^<:]*)</text>', one)[0] for one in figures}) == 1


def test_each_section_says_which_customers_it_counts(whole: Path) -> None:
    """Load and shares count the listed groups, segments and synthetic customers all."""
    page = unescape((whole / "report.html").read_text(encoding="utf-8"))
    counted = dict(re.findall(r"<h2>([^<]+)</h2>\s*<p><b>Includes:</b> (all |)customers", page))
    assert counted == {
        "Load": "",
        "Segments by group": "",
        "Customer segments": "all ",
        "Synthetic customers": "all ",
        "Labels": "all ",
    }
    assert "Includes:</b> customers in the listed groups (class: home, shop)." in page
    first = page.partition("</section>")[0]
    assert "estimated number of customers, listed groups" in first
    assert "segments of all customers" in first


def test_groups_are_marked_by_findings_alone(whole: Path) -> None:
    """A size within 2 standard errors, a share of clipped customers above them. A bound is none."""
    manifest = read_manifest(whole)
    names = ("groups", "load_shapes", "load_duration", "cluster_shares")
    tables = tables_of(whole, *names)

    def section(**changes: float) -> str:
        data = tables["groups"].data
        for name, value in changes.items():
            column = compute.if_else(compute.equal(data["group"], "shop"), value, data[name])
            data = data.set_column(data.schema.get_field_index(name), name, column)
        page = report_page(manifest, {**tables, "groups": replace(tables["groups"], data=data)})
        return page.partition("<h2>Load</h2>")[2].partition("</section>")[0]

    def flags(**changes: float) -> list[str]:
        return re.findall(r"✗ (shop: [^<]+)<", section(**changes))

    sure = {"customers": 500.0, "clipped_share": 0.1, "clipped_share_std": 0.01}
    assert not flags(**sure)
    assert not flags(**sure, max_clipping_bias_kw=112.0)
    assert "112 kW, depending on the group:" in section(max_clipping_bias_kw=112.0)
    (empty,) = flags(**{**sure, "customers": 1.9, "customers_std": 1.0})
    assert "may be empty" in empty
    assert not flags(**{**sure, "customers": 2.1, "customers_std": 1.0})
    (clipped,) = flags(**{**sure, "clipped_share": 0.33})
    assert "31 % or more" in clipped
    assert not flags(**{**sure, "clipped_share": 0.33, "clipped_share_std": 0.1})


def test_the_summary_states_the_mean_load(whole: Path) -> None:
    """The mean of the groups by their customers, computed again, and its interval and clipping."""
    groups = read_table(whole, "groups").to_pydict()
    weight = dict(zip(groups["group"], groups["customers"], strict=True))
    load: dict[str, float] = {}
    shapes = read_table(whole, "load_shapes").to_pylist()
    for row in shapes:
        share = weight[row["group"]] / sum(weight.values())
        load[row["time"]] = load.get(row["time"], 0.0) + share * row["load_kw"]
    mean = sum(load.values()) / 24.0
    first = (whole / "report.html").read_text(encoding="utf-8").partition("</section>")[0]
    assert "The mean load per customer in the listed groups (by " in first
    errors = dict(zip(groups["group"], groups["customers_std"], strict=True))
    shared: dict[str, float] = {}
    variance: dict[str, float] = {}
    for row in shapes:  # errors of groups are correlated, those of sizes are not
        time, off = row["time"], row["load_kw"] - load[row["time"]]
        shared[time] = shared.get(time, 0.0) + weight[row["group"]] * row["std_kw"]
        variance[time] = variance.get(time, 0.0) + (errors[row["group"]] * off) ** 2
    reach = [math.hypot(own, variance[time] ** 0.5) for time, own in shared.items()]
    wide = 1.96 * sum(reach) / sum(weight.values()) / 24.0
    energy = (
        f"({24 * mean:.1f} ± {24 * wide:.1f} kWh per day; very large customers aside, see Load)"
    )
    assert f" is {mean:.2f} ± {wide:.2f} kW {energy}." in first
    assert f"<b>{mean:.2f} ± {wide:.2f} kW</b>" in first
    biases = zip(groups["group"], groups["max_clipping_bias_kw"], strict=True)
    hidden = sum(weight[name] * bias for name, bias in biases) / sum(weight.values())
    most = format_number(hidden, 2)
    assert f"up to {most} kW" not in first  # of groups: its section explains the bound
    assert first.count("very large customers aside, see Load") == 2


def test_bias_and_errors_have_one_row_for_all_groups(whole: Path) -> None:
    """Each number with its group, not a row per group with the same text."""
    page = (whole / "report.html").read_text(encoding="utf-8")
    section = page.partition("<h2>Bias and errors</h2>")[2].partition("</section>")[0]
    groups = read_table(whole, "groups").to_pydict()
    for source, kind in (("clipping", "upper bound"), ("privacy noise", "standard error")):
        rows = [row for row in section.split("<tr>") if f">{source}<" in row and f">{kind}<" in row]
        assert len(rows) == 1
        assert "mean load, by group" in rows[0]
    bounds = zip(groups["group"], groups["max_clipping_bias_kw"], strict=True)
    for name, bound in bounds:
        assert f"{name} {format_number(float(f'{bound:.6g}'))} kW" in section


def test_what_bands_of_the_load_do_not_cover_stands_below_them(whole: Path) -> None:
    """The caption above the figures is short; the effects of clipping follow."""
    page = (whole / "report.html").read_text(encoding="utf-8")
    section = page.partition("<h2>Load</h2>")[2].partition("</section>")[0]
    above, figures, below = section.partition("<figure")
    assert figures
    assert "worst-case bound" in below.rpartition("</figure>")[2]
    assert "worst-case bound" not in above
    assert len(above) < 800


def test_the_report_states_the_achieved_error_of_a_share(whole: Path) -> None:
    """The largest standard error, beside the planned one; intervals stand in the chart."""
    page = (whole / "report.html").read_text(encoding="utf-8")
    largest = 100.0 * max(read_table(whole, "cluster_shares").to_pydict()["share_std"])
    _, _, row = page.partition("error of a share")
    cell = row.partition("</tr>")[0]
    assert f" to {largest:.2g} percentage points by group, largest: " in cell
    section = page.partition("<h2>Segments by group</h2>")[2].partition("</section>")[0]
    rows = read_table(whole, "cluster_shares").num_rows
    assert section.count('<rect class="series-') == section.count('class="error"') == rows


def test_the_summary_states_the_guarantee(whole: Path) -> None:
    """Factor, epsilon and delta in words."""
    first = (whole / "report.html").read_text(encoding="utf-8").partition("</section>")[0]
    assert "by a factor of at most 54.60 (epsilon 4), plus at most 1e-06 (delta)" in first
    assert "the value of these data, the bound is epsilon 8 at delta 5.56e-05" in first
    assert "the bound is epsilon 8 at delta 5.56e-05" in card_text(read_manifest(whole))


def test_a_part_that_is_not_there_has_no_section(whole: Path) -> None:
    """Without its tables, a section is left out, and the rest stands."""
    statement = read_manifest(whole)
    bare = report_page(statement, {})
    assert "Customer segments" not in bare
    assert "<h2>Load</h2>" not in bare
    assert "<h2>Privacy guarantee and budget</h2>" in bare
    assert "products add up to more" in bare
    one = {**statement, "products": [statement["products"][0], statement["products"][-1]]}
    assert "products add up to more" not in report_page(one, {})
    alone = report_page(statement, tables_of(whole, "centroids"))
    assert "Customer segments" in alone
    assert "Customers per segment" not in alone


def test_a_cluster_without_synthetic_customers_is_marked(whole: Path) -> None:
    """A lonely curve beside fans would look like a fault."""
    tables = tables_of(whole, "centroids", "synthetic")
    clusters = tables["synthetic"].data["cluster"]
    kept = clusters[0].as_py()  # one that was drawn, whatever the noise
    few = tables["synthetic"].data.filter(compute.equal(clusters, kept))
    tables["synthetic"] = Table(name="synthetic", text="", columns=(), data=few)
    page = report_page(read_manifest(whole), tables)
    titles = re.findall("<figcaption>(.*?)\n", page)
    marked = [title for title in titles if title.endswith("too small to be sampled")]
    assert len(marked) == 2
    assert f"Segment {kept} · too small to be sampled" not in marked


def test_a_publisher_without_a_name_is_cited_as_such(whole: Path) -> None:
    """In the same words on card and page."""
    statement = read_manifest(whole)
    cite = f"Publisher not stated ({statement['published_at'][:4]}). Load profiles"
    assert cite in card_text(statement)
    assert cite in report_page(statement, {})
    assert "> Us (" in card_text({**statement, "curator": "Us"})


def test_card_and_report_state_the_period_of_the_readings(whole: Path) -> None:
    """The last day is the one before the end of the option; without it, the minimum of days."""
    statement = read_manifest(whole)
    rules = statement["profiles"]["reading_rules"]
    known = f"at least {statement['profiles']['min_days']} days per customer; "
    for period, text in (
        (None, f"{known}the publisher did not state their dates"),
        (["2025-03-03", "2027-03-03"], "2025-03-03 to 2027-03-02"),
    ):
        profiles = {**statement["profiles"], "reading_rules": {**rules, "period": period}}
        changed = {**statement, "profiles": profiles}
        assert f"\nReadings: {text}.\n" in card_text(changed)
        assert f"<b>Readings:</b> {text}." in report_page(changed, {})


def test_words_of_the_curator_stay_words(whole: Path) -> None:
    """A title is no markup."""
    statement = read_manifest(whole)
    statement["title"] = "<script>alert(1)</script>"
    statement["curator"] = "A & B <b>"
    page = report_page(statement, {})
    assert "<script>alert" not in page
    assert "A &amp; B &lt;b&gt;" in page


def test_the_card_escapes_what_the_publisher_states(whole: Path) -> None:
    """Titles and other texts are shown as they are: no HTML, links or emphasis."""
    hostile = "<img src=x> [x](javascript:y) `a` *b* | \\"
    texts = ("title", "curator", "region", "contact", "intended_use")
    statement = {**read_manifest(whole), **dict.fromkeys(texts, hostile)}
    statement["other_releases_on_same_people"] = hostile
    statement["unprotected"] = [hostile]
    card = card_text(statement)
    assert "<img" not in card
    assert "[x](" not in card.replace("\\[x\\](", "")
    # In Markdown, the escaped text is the text itself.
    shown = unescape(re.sub(r"\\([\\`*\[\]|])", r"\1", card))
    assert shown.count(hostile) == len(texts) + 2 + 2  # citation: publisher and title


def test_the_card_has_all_sections(whole: Path) -> None:
    """Guarantee, tables with units, what is not protected, how to cite."""
    statement = read_manifest(whole)
    card = (whole / "CARD.md").read_text(encoding="utf-8")
    assert card == card_text(statement)
    assert statement["guarantee_text"] in card
    for part in statement["products"]:
        for table in part["tables"]:
            assert f"**{table['name']}**" in card
    assert "`load_kw` (mean load, kW)" in card
    assert "## What is not protected" in card
    assert statement["release_id"] in card


def test_groups_are_shown_by_name(whole: Path) -> None:
    """Each group is in the pictures of load and shares."""
    page = unescape((whole / "report.html").read_text(encoding="utf-8"))
    for title in ("Load", "Segments by group"):
        section = page.partition(f"<h2>{title}</h2>")[2].partition("</section>")[0]
        assert all(level in section.partition("<details")[0] for level in LEVELS)


def test_the_card_names_both_clipping_limits(whole: Path) -> None:
    """The public bound of the clusters, and where the bounds of load by group are."""
    clipping = [line for line in read_manifest(whole)["preprocessing"] if "clipped" in line]
    card = (whole / "CARD.md").read_text(encoding="utf-8")
    assert len(clipping) == 2
    assert all("5 kW" in line for line in clipping)
    assert "clip_kw" in clipping[1]
    assert "clip_kw of the table groups" in " ".join(card.split())
    assert max(read_table(whole, "groups")["clip_kw"].to_pylist()) <= 5.0
