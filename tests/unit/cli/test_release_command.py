"""The commands `release`, `verify` and `admin key`, as a person or a script uses them."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from typer.testing import CliRunner

from tests.sample_bundles import product_names, some_profiles, without_plan_simulation
from wattveil.bundle.bundle_files import MANIFEST, read_manifest
from wattveil.bundle.manifest import customer_list_sha256, request_sha256
from wattveil.bundle.report import quality_rows
from wattveil.cli import app, release
from wattveil.cli.profile_facts import profile_facts
from wattveil.products.request import ReleaseRequest
from wattveil.profiles import Profiles

LIGHT = ["--share", "clusters=0"]
UNCONFIRMED = ["release", "profiles.parquet", "--epsilon", "2", "--clusters", "3"]
COMMAND = [*UNCONFIRMED, "--yes"]


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Work in a folder with profiles, without simulations of plans."""
    monkeypatch.chdir(tmp_path)
    some_profiles().write_parquet("profiles.parquet")
    with without_plan_simulation():
        yield


def run(*arguments: str, code: int = 0, answer: str | None = None) -> str:
    """Run the command line and return what it printed."""
    result = CliRunner().invoke(app, arguments, input=answer, terminal_width=300)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output


def test_from_profiles_to_a_checked_bundle() -> None:
    """Key, release, verify, records for catalogues; each says what it did."""
    made = json.loads(run("admin", "key", "--json"))
    assert Path(made["public"]).exists()
    signed = ["--key", "utility.key", "--curator", "Us"]
    told = run(*COMMAND, *LIGHT, *signed)
    assert "Plan: epsilon 2.0" in told
    assert "differentially private" in told
    assert "wattveil verify bundle --key utility.key.pub" in told
    run("metadata", "bundle", "--url", "https://data.example")
    record = yaml.safe_load(Path("metadata/registry.yaml").read_text())
    assert record["deployment"]["basic"]["data_curators"] == ["Us"]
    seen = run("verify", "bundle", "--key", "utility.key.pub")
    assert "FAILED" not in seen
    assert "checks passed, 1 not run." in seen
    assert made["name"] in seen
    assert "you must trust the publisher" in seen


def test_labels_need_a_public_list() -> None:
    """Without it they are refused before anything is spent; with it all on the list have one."""
    labelled = ["--label-epsilon", "1", "--share", "load=0", "--share", "synthesis=0"]
    assert "the public list of all customers" in run(*COMMAND, *labelled, code=2)
    assert not Path("bundle").exists()
    Path("customers.txt").write_text("CUSTOMER-00001\n\nNO-READINGS\n", encoding="utf-8")
    run(*COMMAND, *labelled, "--real-ids", "--customer-list", "customers.txt")
    table = Path("bundle/tables/labels.csv").read_text(encoding="utf-8")
    assert "CUSTOMER-00001" in table
    assert "NO-READINGS" in table
    assert "CUSTOMER-00002" not in table


def test_an_approved_plan_fixes_the_customer_list() -> None:
    """Another list has another hash; `verify` compares it with published ids."""
    labelled = ["--label-epsilon", "1", "--share", "load=0", "--share", "synthesis=0", "--real-ids"]
    Path("one.txt").write_text("CUSTOMER-00001\nNO-READINGS\n")
    Path("other.txt").write_text("CUSTOMER-00001\nSOMEBODY\n")
    Path("same.txt").write_text("NO-READINGS\n CUSTOMER-00001\n")
    plan = [*COMMAND, *labelled, "--plan", "--json", "--customer-list"]
    planned = {
        name: json.loads(run(*plan, name))["request_sha256"]
        for name in ("one.txt", "other.txt", "same.txt")
    }
    assert planned["one.txt"] == planned["same.txt"] != planned["other.txt"]
    run(*COMMAND, *labelled, "--customer-list", "one.txt")
    manifest = read_manifest(Path("bundle"))
    assert manifest["request_sha256"] == planned["one.txt"]
    other = customer_list_sha256(["CUSTOMER-00001", "SOMEBODY"])
    for changed, problem in ((other, "labels are about"), (None, "customer_list_sha256 must be")):
        record = {**manifest, "customer_list_sha256": changed}
        record["request_sha256"] = request_sha256(record)
        Path("bundle", MANIFEST).write_text(json.dumps(record))
        verdict = json.loads(run("verify", "bundle", "--json", code=1))
        failed = [one for one in verdict["findings"] if not one["holds"]]
        assert any(problem in f"{one['check']} {one['seen']}" for one in failed)


@pytest.mark.parametrize("left_out", [0, 1])
def test_a_list_that_is_that_of_the_profiles_is_warned_of(left_out: int) -> None:
    """It shows who has readings; for the data holder only."""
    ids = some_profiles().customer_ids
    Path("customers.txt").write_text("\n".join(ids[left_out:]))
    labelled = ["--label-epsilon", "1", "--customer-list", "customers.txt", "--plan"]
    told = " ".join(run(*COMMAND, *labelled).split())
    assert ("names exactly the customers of the profiles" in told) == (left_out == 0)


def test_json_is_for_machines() -> None:
    """One JSON object each; the plan costs nothing and writes nothing."""
    planned = json.loads(run(*COMMAND, "--plan", "--json"))
    included = product_names(ReleaseRequest(epsilon=2.0))
    assert [part["name"] for part in planned["products"]] == included
    assert not Path("bundle").exists()
    released = json.loads(run(*COMMAND, *LIGHT, "--json"))
    assert released["guarantee"]["epsilon"] == "2.0"
    assert released["signed"] is False
    verdict = json.loads(run("verify", "bundle", "--json"))
    assert verdict["accepted"] is True
    assert verdict["not_proved"]


def test_the_plan_stops_before_anything_is_spent() -> None:
    """`--plan` prints parts and errors, and there is no bundle."""
    told = run(*COMMAND, "--plan", "--label-epsilon", "1", "--customers", "5000")
    assert "for 5,000 customers" in told
    assert "set aside" in told
    assert "wrong labels" in told
    assert not Path("bundle").exists()


def test_groups_are_listed_before_anything_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt group is seen in the plan and in the question; a refusal spends nothing."""
    monkeypatch.setattr(release, "_can_ask", lambda: True)
    told = run(*UNCONFIRMED, *LIGHT, "--by", "class", "--levels", "hoem,shop", code=1, answer="n\n")
    plan, _, question = told.partition("Spend epsilon")
    assert "2 groups by class: hoem, shop" in plan
    assert "2 groups by class: hoem, shop?" in question
    assert not Path("bundle").exists()
    planned = json.loads(run(*COMMAND, "--plan", "--json", "--by", "class", "--levels", "hoem"))
    assert (planned["groups"], planned["customers_per_group"]) == (["hoem"], 1000)
    assert "groups of equal size, 500 customers each" in " ".join(plan.split())


def test_a_period_that_contradicts_the_roughness_is_warned_of() -> None:
    """Both are public; profiles without a stated period are not judged."""
    assert "Warning: --roughness" not in run(*COMMAND, "--plan")
    rules = {"readings": {"period": ["2025-03-03", "2025-03-24"]}}
    replace(some_profiles(), rules=rules).write_parquet("profiles.parquet")
    told = run(*COMMAND, "--plan")
    assert 'profiles average 21 days (--period), which is "single month"' in told
    stated = ["--roughness", "single month"]
    assert "Warning: --roughness" not in run(*COMMAND, "--plan", *stated)


def test_assumed_estimates_are_announced() -> None:
    """An estimate that is not given is stated as assumed, one that is given is not."""
    none = " ".join(run(*COMMAND, "--plan").split())
    assert (
        'Assumed by default: --customers 1,000, --typical-kw 0.5, --roughness "some weeks".' in none
    )
    assert "Assumed by default: --typical-kw 0.5" in run(*COMMAND, "--plan", "--customers", "1000")
    every = ["--customers", "1000", "--typical-kw", "0.5", "--roughness", "single month"]
    assert "Assumed" not in run(*COMMAND, "--plan", *every)
    assert "Warning: --clip-kw is not given, so clipping bounds are chosen" in none
    assert "clipped to 7 kW" in " ".join(run(*COMMAND, "--plan", "--clip-kw", "7").split())


def test_a_weak_guarantee_is_warned_of_everywhere() -> None:
    """Plan, report, manifest and `verify` warn of the same epsilon and delta."""
    weak = ["--epsilon", "11", "--delta", "0.001"]
    told = run(*COMMAND, *LIGHT, *weak)
    seen, report = run("verify", "bundle"), Path("bundle/report.html").read_text("utf-8")
    limits = " ".join(read_manifest(Path("bundle"))["known_limits"])
    for text in (told, seen, report, limits):
        words = " ".join(text.split())
        assert "epsilon = 11 is above 10" in words
        assert "delta = 0.001 is not below 1/customers" in words
    assert len(json.loads(run("verify", "bundle", "--json"))["warnings"]) == 2
    assert "above 10" not in run(*COMMAND, "--plan", "--epsilon", "10")


def test_confirmation_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a terminal: no aborts, yes releases, and --yes skips the prompt."""
    monkeypatch.setattr(release, "_can_ask", lambda: True)
    assert "Spend epsilon 2.0 at delta 1e-06?" in run(*UNCONFIRMED, *LIGHT, code=1, answer="n\n")
    assert not Path("bundle").exists()
    run(*UNCONFIRMED, *LIGHT, answer="y\n")
    assert Path("bundle").exists()
    assert "Spend" not in run(*COMMAND, *LIGHT, "--out", "second")


@pytest.mark.parametrize("answer", ["n\n", "y\n", None])
def test_nothing_is_spent_without_a_terminal_to_confirm(
    answer: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer from a pipe is refused before the plan; a plan needs no answer."""
    monkeypatch.setattr(release, "release_bundle", lambda *_, **__: pytest.fail("spent"))
    run(*UNCONFIRMED, *LIGHT, "--plan", answer=answer)
    monkeypatch.setattr(release, "plan_release", lambda *_: pytest.fail("planned"))
    for style in ([], ["--json"]):
        told = run(*UNCONFIRMED, *LIGHT, *style, code=2, answer=answer)
        assert "--yes must be given where no terminal is available" in told


@pytest.mark.parametrize("stdin", [True, False, None])
def test_confirmation_needs_a_terminal_at_standard_input(
    stdin: bool | None,  # noqa: FBT001 - of the case
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A terminal there is enough, wherever output goes; without one, the release is refused."""
    terminal = None if stdin is None else SimpleNamespace(isatty=lambda: stdin)
    monkeypatch.setattr(sys, "stdin", terminal)
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: False))
    assert release._can_ask() == bool(stdin)


def test_a_plan_states_the_request_that_the_manifest_states() -> None:
    """Field by field: the plan that was approved belongs to the release, or it does not."""
    command_line = ["--epsilon", "2", *LIGHT, "--customers", "500", "--json"]
    planned = json.loads(run("release", "profiles.parquet", *command_line, "--plan"))
    run("release", "profiles.parquet", *command_line, "--yes")
    manifest = read_manifest(Path("bundle"))
    for name in ("request", "profiles", "customer_list_sha256", "request_sha256"):
        assert planned[name] == manifest[name]
    told = run("release", "profiles.parquet", *command_line[:-1], "--plan")
    assert manifest["request_sha256"] in told.replace("\n", "")
    assert f"time zone: {manifest['profiles']['timezone']}" in " ".join(told.split())
    other = json.loads(run("release", *command_line, "--plan", "--clip-kw", "9"))
    changed = {
        name for name, value in other["request"].items() if value != planned["request"][name]
    }
    assert changed == {"clip_kw"}
    alone = json.loads(run("release", *command_line, "--plan"))
    # The same hours of one average day; how profiles were made is not known.
    assert alone == {**planned, "profiles": None, "request_sha256": None}


def test_a_plan_states_in_words_how_profiles_were_made() -> None:
    """With the last day of the readings; a choice without a name of its own is stated, too."""
    stated = {
        "grid": {"minutes": 30, "split": "day", "closing_midnight": True},
        "timezone": "Europe/London",
        "min_days": 14,
        "max_gap_hours": None,
        "reading_rules": {"period": ["2025-03-03", "2025-03-24"], "register_rollover": 99999},
        "reading_options_inferred": False,
    }
    assert profile_facts(stated) == (
        "slots of 30 minutes; readings of 2025-03-03 to 2025-03-23; time zone: Europe/London;"
        " minimum days per customer: 14; averaged by: day; first slot repeated at the end: yes;"
        " register rollover: 99999"
    )
    stated["reading_rules"] = {"period": None}
    assert "days of the readings not stated" in profile_facts(stated)


def test_only_a_plan_needs_no_profiles() -> None:
    """The plan states which columns it assumes; a release names the argument that is missing."""
    told = run("release", "--epsilon", "2", *LIGHT, "--plan")
    assert "24 columns" in told
    assert "24 columns" not in run(
        "release", "profiles.parquet", "--epsilon", "2", *LIGHT, "--plan"
    )
    told = run("release", "--epsilon", "2", *LIGHT, "--yes", code=2)
    assert "PROFILES is required" in told
    assert not Path("bundle").exists()


def test_what_was_achieved_and_spent_is_reported() -> None:
    """After the release, beside what was planned; the plan before it does not deny the cost."""
    told = " ".join(run(*COMMAND, *LIGHT).split())
    _, _, after = told.partition("Released to bundle")
    rows = [row for row in quality_rows(read_manifest(Path("bundle"))) if row.achieved]
    assert "Planned and achieved" in after
    assert rows
    assert all(word in after for row in rows for word in row.achieved.split())
    assert after.endswith("Spent: epsilon 2, delta 1e-06")
    assert "No budget has been spent" not in told
    planned = " ".join(run(*COMMAND, *LIGHT, "--plan").split())
    assert "No budget has been spent" in planned


def test_groups_of_profiles_without_attributes_are_refused_with_the_remedy() -> None:
    """The file is named, and how it is made."""
    profiles = Profiles.read_parquet("profiles.parquet")
    replace(profiles, attributes={}).write_parquet("bare.parquet")
    told = run(
        "release", "bare.parquet", "--epsilon", "2", "--by", "class", "--levels", "a", code=1
    )
    remedy = "Build it with `wattveil profiles … --attributes FILE`."
    assert f"bare.parquet has no attributes. {remedy}" in told


def test_a_target_error_can_replace_epsilon() -> None:
    """`--target-error` finds the epsilon; the plan shows it."""
    command_line = ["release", "profiles.parquet", *LIGHT, "--plan", "--json"]
    planned = json.loads(run(*command_line, "--target-error", "0.05kW"))
    assert 0.1 < float(planned["guarantee"]["epsilon"]) < 10.0
    assert planned["products"][0]["expected"][0]["value"] <= 0.05


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "."], "out must be a new folder"),
        (["--out", "no/such/bundle"], "--out must be a new folder in one that exists"),
        (["--out", "s3a://lake/bundle"], "out must be a path on this machine, not an address"),
        (["--tier", "local"], "--tier"),
        (["--share", "clusters"], "--share must be product=weight"),
        (["--clip-kw", "-1"], "--clip-kw must be"),
        (["--clusters", "0"], "--clusters must be"),
        (["--by", "class"], "--levels must be given: the public list of the values of class"),
        (["--share", "maps=1"], "--share must be given for a product, one of: clusters"),
        (["--share", "shares=3"], "--share must be without shares, which needs a grouping"),
        (
            ["--normalise", "--share", "synthesis=1"],
            "--share must be without synthesis, which needs",
        ),
        (
            ["--clusters-by-group"],
            "--clusters-by-group must be given with by",
        ),
        (["--target-error", "0.1kW"], "--target-error must be omitted with --epsilon"),
        (["--by", "street", "--levels", "a,b"], "by must be an attribute of the profiles"),
        (["--delta", "2"], "delta must be above 0 and below 1"),
        (["--seed", "1"], "No such option"),
    ],
)
def test_bad_options_are_explained(arguments: list[str], words: str) -> None:
    """Field, rule and value, with exit code 2, before anything is spent."""
    told = run(*COMMAND, *arguments, code=2)
    assert words in " ".join(told.replace("│", " ").split())
    assert not Path("bundle").exists()


def test_what_is_wrong_is_refused_before_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan simulates for seconds; a wrong name or a missing list is seen at once."""
    monkeypatch.setattr(release, "plan_release", lambda *_: pytest.fail("planned"))
    told = run(*COMMAND, "--by", "street", "--levels", "a,b", code=2)
    assert "--by must be an attribute of the profiles" in told
    told = run(*COMMAND, "--label-epsilon", "1", code=2)
    assert "--customer-list must be given for labels: the public list" in told


def test_the_first_compilation_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The instance tier explains its waiting time; the global tier has none."""
    told: list[str] = []

    def silent(*_: object, started: Callable[[str], None], **__: object) -> None:
        started("clusters")
        raise OSError("enough")

    monkeypatch.setattr(release, "release_bundle", silent)
    monkeypatch.setattr(release, "working", lambda _: nullcontext(told.append))
    for tier in ("instance", "global"):
        run("release", "profiles.parquet", "--epsilon", "30", "--tier", tier, "--yes", code=1)
    (first, second) = (what for what in told if what.startswith("clusters"))
    assert "compiling" in first
    assert second == "clusters"


def test_a_list_in_another_encoding_is_reported() -> None:
    """One line, no traceback."""
    Path("customers.txt").write_bytes(b"Stra\xdfe 1\n")
    told = run(*COMMAND, "--label-epsilon", "1", "--customer-list", "customers.txt", code=1)
    assert "expected text in UTF-8" in " ".join(told.split())


def test_spaces_between_levels_do_not_matter() -> None:
    """A group named " shop" would have no customers."""
    told = run(*COMMAND, *LIGHT, "--by", "class", "--levels", "home, shop")
    assert read_manifest(Path("bundle"))["request"]["levels"] == ["home", "shop"]
    assert "the spelling of --levels" not in told


def test_a_misspelled_group_is_warned_of_after_the_release() -> None:
    """By the released counts alone; on the command line and in JSON."""
    misspelled = ["--by", "class", "--levels", "hoem", *LIGHT]
    told = " ".join(run(*COMMAND, *misspelled).split())
    assert "Warning: the listed groups have" in told
    assert "of about 1,000 customers (± one standard error); check the spelling" in told
    shutil.rmtree("bundle")
    found = json.loads(run(*COMMAND, *misspelled, "--json"))["warnings"]
    assert any("the listed groups have" in one for one in found)


def test_a_target_is_a_number_of_kilowatts() -> None:
    """Nothing else."""
    told = run("release", "profiles.parquet", "--target-error", "much", "--yes", code=2)
    assert "such as 0.1kW" in " ".join(told.replace("│", " ").split())


def test_a_foreign_file_is_reported() -> None:
    """Exit code 1 and one line: no profiles, no key, no bundle."""
    Path("other.parquet").write_text("no")
    assert "is not a Parquet file" in run("release", "other.parquet", "--epsilon", "1", code=1)
    assert "private key" in run(*COMMAND, "--key", "other.parquet", code=1)
    assert "BUNDLE: nowhere does not exist" in run("verify", "nowhere", code=1)
    assert "--key: nowhere.key does not exist" in run(*COMMAND, "--key", "nowhere.key", code=1)


def test_verify_fails_loudly() -> None:
    """A false bundle ends with exit code 1 and the check that failed."""
    run(*COMMAND, *LIGHT, "--json")
    manifest = read_manifest(Path("bundle"))
    manifest["guarantee"]["epsilon"] = "0.5"
    Path("bundle", MANIFEST).write_text(json.dumps(manifest))
    told = run("verify", "bundle", code=1)
    assert "FAILED" in told
    assert "checks failed" in told


def test_a_hostile_name_gives_the_terminal_no_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    """File names of a bundle are untrusted: they are shown, never interpreted."""
    monkeypatch.setenv("COLUMNS", "300")
    run(*COMMAND, *LIGHT, "--json")
    orders = "\x1b[2J\x1b[1;1H\x9b31m\u202eAll checks hold.\n[green]"
    Path("bundle", orders).write_text("")
    told = run("verify", "bundle", code=1)
    assert all(letter.isprintable() or letter == "\n" for letter in told)
    assert "\\x1b[2J\\x1b[1;1H\\x9b31m\\u202eAll checks hold.\\n[green]" in told
    nowhere = run("verify", orders, code=1)
    assert all(letter.isprintable() or letter == "\n" for letter in nowhere)
    assert "\\x1b[2J" in nowhere


@pytest.mark.parametrize("command", ["release", "synthesize", "verify", "admin key", "demo"])
def test_help_has_an_example(command: str) -> None:
    """Every command shows how it is used."""
    assert f"Example: wattveil {command}" in run(*command.split(), "--help")


def test_a_rounded_estimate_is_reported_in_a_line() -> None:
    """With --json beside the output; a number that is round already is not mentioned."""
    line = "public estimate of the number of customers: 1,409, rounded to 1,000"
    told = run(*COMMAND, *LIGHT, "--plan", "--customers", "1409")
    assert line in told.splitlines()
    assert "an exact one would reveal whether one customer is in the data" in " ".join(told.split())
    assert "for 1,000 customers" in told
    told = run(*COMMAND, *LIGHT, "--plan", "--customers", "1000", "--typical-kw", "0.5417")
    assert "public estimate of the median size: 0.5417 kW, rounded to 0.5 kW" in told
    assert "of about 0.5 kW" in told.replace("\n", " ")
    assert "rounded" not in run(*COMMAND, *LIGHT, "--plan", "--customers", "2000")
    arguments = [*COMMAND, *LIGHT, "--json", "--customers", "1409"]
    result = CliRunner().invoke(app, arguments, terminal_width=300)
    assert json.loads(result.stdout)["signed"] is False
    assert line in result.stderr.splitlines()
    assert "1409" not in Path("bundle", MANIFEST).read_text(encoding="utf-8")
    assert read_manifest(Path("bundle"))["request"]["customers"] == 1000


def test_a_large_delta_is_warned_of_wherever_it_is_shown() -> None:
    """Plan, JSON, manifest, card and report; a verifier accepts the bundle and its words."""
    large = [*COMMAND, *LIGHT, "--delta", "0.002", "--customers", "500"]
    words = "delta = 0.002 is not below 1/customers = 0.002, for the public estimate of 500"
    assert f"Warning: {words}" in " ".join(run(*large, "--plan").split())
    planned = json.loads(run(*large, "--plan", "--json"))
    assert any(words in warning for warning in planned["warnings"])
    assert json.loads(run(*large, "--json"))["warnings"] == planned["warnings"]
    assert words in read_manifest(Path("bundle"))["known_limits"][0]
    card = Path("bundle", "CARD.md").read_text(encoding="utf-8")
    guarantee, _, rest = card.partition("## Contents")
    assert f"**Warning:** {words}" in guarantee
    assert words in rest  # among the limits
    assert f"<b>Warning:</b> {words}" in Path("bundle", "report.html").read_text(encoding="utf-8")
    verdict = json.loads(run("verify", "bundle", "--json"))
    assert verdict["accepted"] is True
    summary = f"{len(verdict['findings'])} checks passed, 2 not run; 1 warning."
    assert verdict["summary"] == summary
    told = run("verify", "bundle")
    assert told.startswith("Warning: delta = 0.002")
    assert summary in told
    last = "Guarantee: epsilon 2.0 at delta 0.002 per customer, global tier. Not signed."
    assert " ".join(told.split()).endswith(last)
    small = [*COMMAND, *LIGHT, "--delta", "0.00199", "--customers", "500", "--out", "small"]
    assert "Warning" not in run(*small, "--clip-kw", "10")
    for page in ("CARD.md", "report.html", MANIFEST):
        assert "not below 1/customers" not in Path("small", page).read_text(encoding="utf-8")


def test_a_missing_signature_is_shown_as_not_run() -> None:
    """Outside the count, in words and as JSON: the same verdict by both."""
    run(*COMMAND, *LIGHT)
    verdict = json.loads(run("verify", "bundle", "--json"))
    told = run("verify", "bundle")
    assert f"{len(verdict['findings'])} checks passed, 2 not run." in told
    assert told.count("passed") == len(verdict["findings"]) + 1  # and the last line
    _, not_run = verdict["not_run"]  # the other is the total with other releases
    assert not_run["check"] == "the signature"
    words = " ".join(told.split())
    assert f"Not run: the signature ({not_run['reason']}). {not_run['remedy']}" in words
    assert "the signature" not in [one["check"] for one in verdict["findings"]]


def test_a_plan_says_what_the_rule_may_do() -> None:
    """The least count that is published, and which groups would stand together."""
    grouped = ["--by", "class", "--levels", "home,shop", *LIGHT]
    said = " ".join(run(*UNCONFIRMED, *grouped, "--rule", "15/20", "--plan").split())
    assert "at least 14 plus 3.09 standard deviations" in said
    assert "no customer has more than 20 %" in said
    assert "merged with its neighbours in the list (all groups together)" in said
    assert "Rule" not in run(*UNCONFIRMED, *grouped, "--plan")
