"""The total with other releases: from the manifests that are named, in place of a ledger."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.sample_bundles import make_bundle, only
from tests.series_bundles import some_series
from tests.unit.dossier.conftest import Files
from wattveil.bundle.replaced_data import bound_text
from wattveil.bundle.total_loss import read_cost, total_loss
from wattveil.cli import app
from wattveil.dossier.dossier_document import Dossier, dossier_markdown, make_dossier
from wattveil.dossier.evidence import Evidence
from wattveil.errors import InvalidParameterError
from wattveil.privacy.guarantee import Tier
from wattveil.products.request import ReleaseRequest

TOTAL = "Total with other releases"


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release about the same customers."""
    out = tmp_path_factory.mktemp("other") / "bundle"
    make_bundle(out, ReleaseRequest(epsilon=1.0, weights=only("load"), customers=300))
    return out


def answers_named(made: Dossier, name: str) -> list[str]:
    """Return the answers of the clauses of this name."""
    found = (one for one in made.clauses if one.clause.name == name)
    return [answer.text for one in found for answer in one.answers]


def test_the_total_replaces_a_missing_ledger(counted: Files, other: Path) -> None:
    """Every clause that a ledger would answer states the total, and its question is not asked."""
    alone = make_dossier(counted.evidence(ledger=None), "iso-27559", answers={})
    evidence = Evidence.read(counted.bundle, others=(other,))
    made = make_dossier(evidence, "iso-27559", answers={})
    question = evidence.absent("ledger").question
    assert question in alone.open_questions
    assert question not in made.open_questions
    expected = total_loss([read_cost(counted.bundle), read_cost(other)])
    stated = f"Total of 2 releases about the same customers, computed from their manifests: \
{bound_text(expected.guarantee)}."
    assert any(stated in text for text in answers_named(made, "Quantifying identifiability"))
    assert answers_named(alone, TOTAL) == []
    (summary, table) = answers_named(made, TOTAL)
    assert stated in summary
    for one in expected.counted:
        assert one.release_id in table
        assert f"| {one.release_id} |" in dossier_markdown(made)


def test_a_ledger_is_not_replaced(counted: Files, other: Path) -> None:
    """Its caps and entries are stated, and the total of named releases beside them."""
    evidence = Evidence.read(counted.bundle, ledger=counted.ledger, others=(other,))
    made = make_dossier(evidence, "iso-27559", answers={})
    (ledger,) = (
        text for text in answers_named(made, "Quantifying identifiability") if "releases" in text
    )
    assert ledger.startswith("Over releases: 2 releases")
    assert answers_named(made, TOTAL)


def test_a_series_has_a_total_with_other_releases(other: Path, tmp_path: Path) -> None:
    """Its manifests state no other releases, and it is in no ledger that could be given."""
    folder = some_series(tmp_path, 0).folder
    made = make_dossier(Evidence.read(folder, others=(other,)), "gdpr", answers={})
    (summary, table) = answers_named(made, TOTAL)
    assert "Total of 2 releases" in summary
    assert "kind series" in table


def test_releases_without_a_total_are_warned_of(counted: Files, tmp_path: Path) -> None:
    """The instance tier is not counted, and the dossier says that nothing bounds it."""
    instance = tmp_path / "instance"
    request = ReleaseRequest(tier=Tier.INSTANCE, epsilon=8.0, delta=1e-4, n_clusters=2, clip_kw=5.0)
    make_bundle(instance, request)
    made = make_dossier(Evidence.read(counted.bundle, others=(instance,)), "gdpr", answers={})
    assert any("No total exists for all named" in one.text for one in made.conflicts)
    assert "Total of 1 of 2 releases" in answers_named(made, TOTAL)[0]
    with pytest.raises(InvalidParameterError, match="different releases"):
        Evidence.read(counted.bundle, others=(counted.bundle,))


def test_the_command_takes_other_releases(counted: Files, other: Path, tmp_path: Path) -> None:
    """Each with an option of its own."""
    words = ["dossier", str(counted.bundle), "--standard", "gdpr", "--with", str(other)]
    result = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "dossier")])
    assert result.exit_code == 0, result.output
    assert TOTAL in (tmp_path / "dossier" / "dossier.md").read_text("utf-8")
