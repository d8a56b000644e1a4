"""The invariants of the ledger, one by one, on both databases. Names follow docs/ledger.md."""

import json
import shutil
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, Executable, select, text, update
from sqlalchemy.exc import DBAPIError

from tests.integration.conftest import Place
from tests.noise_sources import Silent
from tests.sample_bundles import EVERYTHING, some_profiles, without_plan_simulation
from tests.sample_ledgers import (
    ALLOWANCE,
    LARGER,
    broken,
    compute,
    open_dataset,
    order,
    own,
    populate,
    share_of,
    whole,
    write_payload,
)
from wattveil.bundle.plan import plan_release
from wattveil.bundle.produce import release_bundle
from wattveil.errors import (
    ChargeRefusedError,
    InvalidParameterError,
    KeyConflictError,
    LedgerUnavailableError,
)
from wattveil.privacy import noise
from wattveil.privacy.guarantee import Neighbours, Tier
from wattveil.server.ledger import ledger_audit
from wattveil.server.ledger.accounts import Charge, Release, ReleaseState
from wattveil.server.ledger.administration import PrincipalKind
from wattveil.server.ledger.admission import Refusal, charge_all
from wattveil.server.ledger.amounts import Allowance, Amounts
from wattveil.server.ledger.database import writing
from wattveil.server.ledger.fulfilment import BundleStore, answer, finish, resume
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.ledger.ledger_audit import audit_connection
from wattveil.server.ledger.ledger_tables import account, dataset, entry, metadata, refusal, release


def test_i1_what_is_spent_is_what_was_charged(ledger: Ledger) -> None:
    """Charges add up in the account of the data set and in each analyst's own."""
    price = share_of(10)
    for number in range(3):
        ledger.charge(order(f"a{number}", price=price))
    ledger.charge(order("b", price=price, principal="bob"))
    assert whole(ledger).spent == price + price + price + price
    assert own(ledger, "ann").spent == price + price + price
    assert own(ledger, "bob").spent == price
    assert broken(ledger) == []


def test_i1_no_account_passes_its_cap(ledger: Ledger) -> None:
    """A quarter fits four times; the fifth is refused, is written down, and changes nothing."""
    for number in range(4):
        ledger.charge(order(f"a{number}"))
    for principal, code in (("ann", Refusal.DATASET_BUDGET), ("bob", Refusal.DATASET_BUDGET)):
        with pytest.raises(ChargeRefusedError) as caught:
            ledger.charge(order("more", principal=principal))
        assert caught.value.code == code
    assert own(ledger, "bob").spent == Amounts()
    with ledger.engine.connect() as connection:
        codes = connection.execute(select(refusal.c.code)).scalars().all()
    assert codes == ["dataset_budget"] * 2
    assert broken(ledger) == []


def test_i1_every_measure_has_its_cap(ledger: Ledger) -> None:
    """Rho, label epsilon, delta and eta are refused each by itself."""
    caps = whole(ledger).caps
    for measure in ("rho", "epsilon", "delta", "eta"):
        with pytest.raises(ChargeRefusedError, match="data set's budget"):
            ledger.charge(order(measure, price=Amounts(**{measure: getattr(caps, measure) + 1})))
    ledger.charge(order("all", price=replace(caps, delta=0)))
    assert whole(ledger).left == Amounts()


def test_i1_the_database_refuses_what_the_code_would_not(ledger: Ledger) -> None:
    """An overspend, less spent than before, a changed past: the tables themselves say no."""
    paid = ledger.charge(order("a"))
    ledger.store(paid, Release(state=ReleaseState.FAILED))
    forbidden: list[Executable] = [
        update(account).values(rho_spent=account.c.rho_cap + 1),
        update(account).values(rho_spent=account.c.rho_spent - 1),
        update(entry).values(rho=0),
        entry.delete(),
        release.delete(),
        update(release).values(state="ok"),
        update(dataset).values(fingerprint="another"),
        text("UPDATE journal SET head_seq = head_seq - 1"),
        text("UPDATE journal SET unit = 'customer-day'"),
        text("DELETE FROM journal"),
        text("DELETE FROM account"),
    ]
    for statement in forbidden:
        with pytest.raises(DBAPIError), writing(ledger.engine).begin() as connection:
            connection.execute(statement)
    assert broken(ledger) == []


def test_i2_the_mechanism_runs_with_a_durable_charge(ledger: Ledger, tmp_path: Path) -> None:
    """When it begins, another connection sees the charge; a refusal computes nothing."""
    seen = []

    def describe_profiles(paid: Charge, path: Path) -> None:
        with ledger.engine.connect() as connection:
            charged = select(entry.c.kind).where(entry.c.seq == paid.seq)
            seen.append(connection.execute(charged).scalar_one())
        compute(paid, path)

    bundles = BundleStore(tmp_path / "releases")
    answer(ledger, bundles, order("a"), describe_profiles)
    with pytest.raises(ChargeRefusedError):
        answer(ledger, bundles, order("b", price=ALLOWANCE.caps), describe_profiles)
    assert seen == ["charge"]


def test_i3_what_is_sent_was_stored(ledger: Ledger, tmp_path: Path) -> None:
    """The answer is the stored row, and its bundle is in the store."""
    bundles = BundleStore(tmp_path / "releases")
    sent = answer(ledger, bundles, order("a"), compute)
    found = bundles.find(sent)
    assert ledger.payloads() == {sent.payload_ref}
    assert found is not None
    assert json.loads((found / "table.csv").read_text()) == {"wanted": "a"}


def test_i3_a_release_needs_a_charge(ledger: Ledger) -> None:
    """Nothing is stored for a charge that is not in the ledger, or that drew nothing itself."""
    paid = ledger.charge(order("a", request=1))
    reader = ledger.charge(order("b", request=1, principal="bob"))
    assert reader.source_seq == paid.seq
    for wrong in (
        replace(paid, seq=1),  # an entry, and no charge
        replace(paid, seq=99),
        replace(reader, source_seq=None),
    ):
        with pytest.raises(InvalidParameterError, match="pays for noise"):
            ledger.store(wrong, Release(state=ReleaseState.FAILED))


def test_i4_the_slower_worker_discards_its_draw(ledger: Ledger, tmp_path: Path) -> None:
    """Two workers on one charge: one release is stored, both answer with it, one folder is left."""
    bundles = BundleStore(tmp_path / "releases")
    paid = ledger.charge(order("a"))
    both = threading.Barrier(2)
    answers: list[Release] = []

    def work(name: str) -> None:
        def draw(_: Charge, path: Path) -> None:
            write_payload(path, name)
            both.wait()

        answers.append(finish(ledger, bundles, paid, draw))

    threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers[0] == answers[1]
    assert [path.name for path in bundles.folder.iterdir()] == [answers[0].payload_ref]


def test_i5_a_repeat_is_free_for_ever(ledger: Ledger, tmp_path: Path) -> None:
    """The same release for the same key; also with nothing left, and when closed."""
    bundles = BundleStore(tmp_path / "releases")
    first = answer(ledger, bundles, order("a"), compute)
    ledger.charge(order("rest", price=whole(ledger).left))
    ledger.close_dataset("homes", by="owner", reason="the year is over")
    spent = whole(ledger).spent
    assert answer(ledger, bundles, order("a"), compute) == first
    assert whole(ledger).spent == spent == whole(ledger).caps


def test_i5_a_key_stands_for_one_request(ledger: Ledger) -> None:
    """The same key with another request is a conflict; another principal's key is another key."""
    ledger.charge(order("a", request=1))
    with pytest.raises(KeyConflictError):
        ledger.charge(order("a", request=2))
    ledger.charge(order("a", request=3, principal="bob"))
    assert whole(ledger).spent == share_of(4) + share_of(4)


def test_i6_the_data_set_pays_once_for_a_request(ledger: Ledger, tmp_path: Path) -> None:
    """Another analyst pays from an account of their own; another key of one's own is free."""
    bundles = BundleStore(tmp_path / "releases")
    first = answer(ledger, bundles, order("a", request=1), compute)
    assert answer(ledger, bundles, order("b", request=1, principal="bob"), compute) == first
    assert answer(ledger, bundles, order("c", request=1), compute) == first
    assert (
        whole(ledger).spent == own(ledger, "ann").spent == own(ledger, "bob").spent == share_of(4)
    )
    assert broken(ledger) == []


def test_i6_a_reader_waits_for_the_draw_of_another(ledger: Ledger, tmp_path: Path) -> None:
    """A request that is charged and not yet drawn is finished by the next worker, once."""
    paid = ledger.charge(order("a", request=1))
    bundles = BundleStore(tmp_path / "releases")
    second = answer(ledger, bundles, order("b", request=1, principal="bob"), compute)
    assert ledger.release_of(paid) == second
    assert ledger.pending() == []


def test_refusals_do_not_fill_the_disk(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The latest are kept; nothing of the ledger is forgotten."""
    monkeypatch.setattr("wattveil.server.ledger.admission.KEPT_REFUSALS", 3)
    paid = ledger.charge(order("paid"))
    placed_orders = [order(f"k{number}", tier=Tier.INSTANCE) for number in range(5)]
    for one in placed_orders:
        with pytest.raises(ChargeRefusedError):
            ledger.charge(one)
    with ledger.reading() as connection:
        kept = connection.execute(select(refusal.c.request_sha256).order_by(refusal.c.id))
        assert kept.scalars().all() == [one.request_sha256 for one in placed_orders[2:]]
    assert ledger.charge(order("paid")) == paid
    assert broken(ledger) == []


def test_i8_refusals_have_codes_and_an_order(ledger: Ledger) -> None:
    """Each reason has its code; amounts, names and data appear in none."""
    open_dataset(ledger, "shops", allowance=ALLOWANCE)
    cases = {
        Refusal.GUARANTEE: order("a", neighbours=Neighbours.REPLACE_ONE),
        Refusal.TIER: order("a", tier=Tier.INSTANCE),
        Refusal.NOT_ADMITTED: order("a", dataset="shops"),
    }
    for code, placed_orders in cases.items():
        with pytest.raises(ChargeRefusedError) as caught:
            ledger.charge(placed_orders)
        assert caught.value.code == code
    ledger.set_budget("homes", LARGER, by="owner", reason="larger")
    with pytest.raises(ChargeRefusedError, match="the principal's budget"):
        ledger.charge(order("a", price=LARGER.caps))
    ledger.disable_principal("ann")
    with pytest.raises(ChargeRefusedError, match="disabled"):
        ledger.charge(order("a"))
    ledger.close_dataset("homes", by="owner", reason="over")
    with pytest.raises(ChargeRefusedError, match="closed"):
        ledger.charge(order("a", principal="bob"))
    assert whole(ledger).spent == Amounts()


def test_i9_a_failure_is_paid_and_says_nothing(ledger: Ledger, tmp_path: Path) -> None:
    """Whatever it raises ends as the same row; a repeat is the same, a new key pays."""

    def fail(_: Charge, path: Path) -> None:
        write_payload(path, "half")
        raise ValueError("row 17 of customer 4711")

    bundles = BundleStore(tmp_path / "releases")
    failed = Release(state=ReleaseState.FAILED)
    assert answer(ledger, bundles, order("a", request=1), fail) == failed
    assert answer(ledger, bundles, order("a", request=1), compute) == failed
    assert list(bundles.folder.iterdir()) == []
    again = answer(ledger, bundles, order("b", request=1), compute)
    assert again.state is ReleaseState.OK
    assert whole(ledger).spent == share_of(4) + share_of(4)
    assert broken(ledger) == []


def test_i9_a_ledger_that_fails_is_no_failed_draw(ledger: Ledger, tmp_path: Path) -> None:
    """What could not even be begun is not stored as failed: it stays to be done."""

    def fail(_: Charge, __: Path) -> None:
        raise LedgerUnavailableError("gone")

    bundles = BundleStore(tmp_path / "releases")
    with pytest.raises(LedgerUnavailableError):
        answer(ledger, bundles, order("a"), fail)
    assert answer(ledger, bundles, order("a"), compute).state is ReleaseState.OK


def test_i10_tiers_have_accounts_of_their_own(ledger: Ledger) -> None:
    """The instance tier is opened by a recorded act, for the data set, then for an analyst."""
    with pytest.raises(InvalidParameterError, match="tier must be open"):
        ledger.set_budget(
            "homes", ALLOWANCE, by="owner", reason="x", tier=Tier.INSTANCE, principal="ann"
        )
    ledger.set_budget("homes", ALLOWANCE, by="owner", reason="reproduction", tier=Tier.INSTANCE)
    ledger.set_budget(
        "homes", ALLOWANCE, by="owner", reason="x", tier=Tier.INSTANCE, principal="ann"
    )
    ledger.charge(order("a", tier=Tier.INSTANCE))
    assert whole(ledger, tier=Tier.INSTANCE).spent == share_of(4)
    assert whole(ledger).spent == own(ledger, "ann").spent == Amounts()
    with ledger.engine.connect() as connection:
        acts = connection.execute(select(entry.c.detail).where(entry.c.kind == "cap")).scalars()
        assert {"instance"} < {json.loads(act)["tier"] for act in acts}


def test_i11_linked_data_sets_share_one_budget(ledger: Ledger) -> None:
    """Copies do not multiply the budget: the same content is refused, an extract shares it."""
    with pytest.raises(InvalidParameterError, match="a copy would double the budget"):
        open_dataset(ledger, "copy", allowance=ALLOWANCE, fingerprint="hmac:homes")
    open_dataset(ledger, "may", linked_to="homes")
    ledger.charge(order("a"))
    ledger.charge(order("b", dataset="may"))
    assert whole(ledger) == whole(ledger, "may")
    assert whole(ledger).spent == share_of(4) + share_of(4)
    ledger.close_dataset("may", by="owner", reason="over")
    ledger.charge(order("c"))
    with pytest.raises(InvalidParameterError, match="those of the data set it is linked to"):
        open_dataset(ledger, "june", linked_to="homes", neighbours=Neighbours.REPLACE_ONE)
    with pytest.raises(InvalidParameterError, match="one of them"):
        open_dataset(ledger, "june", linked_to="homes", allowance=ALLOWANCE)
    assert broken(ledger) == []


def test_i12_simulated_noise_is_never_stored(ledger: Ledger, tmp_path: Path) -> None:
    """What is drawn from a test source is refused where bundles are made, and ends as a failure."""
    cheap = EVERYTHING.replace(label_epsilon=None, by=None, levels=(), weights={"clusters": 0.0})
    profiles = some_profiles()

    def draw(_: Charge, path: Path) -> None:
        with without_plan_simulation(), noise.simulate(Silent([])):
            release_bundle(profiles, plan_release(cheap, profiles.grid), path)

    stored = answer(ledger, BundleStore(tmp_path / "releases"), order("a"), draw)
    assert stored == Release(state=ReleaseState.FAILED)


def test_budgets_are_raised_with_a_reason(ledger: Ledger) -> None:
    """More may be spent then; less than is spent, no reason, no administrator: refused."""
    for number in range(4):
        ledger.charge(order(f"a{number}"))
    ledger.set_budget("homes", LARGER, by="owner", reason="the board agreed")
    ledger.set_budget("homes", LARGER, by="owner", reason="the same", principal="ann")
    ledger.charge(order("more"))
    refused: list[tuple[str, dict[str, object]]] = [
        ("at least what is spent", {"allowance": ALLOWANCE}),
        ("reason must be given", {"reason": " "}),
        ("an administrator", {"by": "ann"}),
        ("one that is registered", {"name": "barns"}),
        ("there is no principal named eve", {"principal": "eve"}),
    ]
    usual = {"name": "homes", "allowance": LARGER, "by": "owner", "reason": "because"}
    for words, change in refused:
        with pytest.raises(InvalidParameterError, match=words):
            ledger.set_budget(**{**usual, **change})  # type: ignore[arg-type] # cases
    with ledger.engine.connect() as connection:
        said = connection.execute(select(entry.c.detail).where(entry.c.kind == "cap")).scalars()
        assert "the board agreed" in {json.loads(detail)["reason"] for detail in said}
    assert broken(ledger) == []


def test_names_are_given_once(ledger: Ledger) -> None:
    """A principal, a data set and a closed data set are not made twice."""
    with pytest.raises(InvalidParameterError, match="principal must be a new name"):
        ledger.add_principal("ann", PrincipalKind.ANALYST)
    with pytest.raises(InvalidParameterError, match="dataset must be a new name"):
        open_dataset(ledger, "homes", allowance=ALLOWANCE, fingerprint="hmac:2")
    ledger.close_dataset("homes", by="owner", reason="over")
    with pytest.raises(InvalidParameterError, match="one that is open"):
        ledger.close_dataset("homes", by="owner", reason="over")
    ledger.disable_principal("ann")
    with pytest.raises(InvalidParameterError, match="not disabled"):
        ledger.disable_principal("ann")
    with pytest.raises(InvalidParameterError, match="one that is registered"):
        ledger.charge(order("a", dataset="barns"))


def test_what_is_no_name_reaches_no_transaction_of_others(ledger: Ledger) -> None:
    """PostgreSQL would refuse all that shares the commit."""
    small = Allowance(epsilon=0.1, delta=1e-6)
    with pytest.raises(InvalidParameterError, match="1 to 63 of a-z"):
        ledger.disable_principal("ann\0")
    with pytest.raises(InvalidParameterError, match="1 to 63 of a-z"):
        ledger.set_budget("homes", small, by="owner", reason="x", principal="ann\0")


def test_a_crash_is_resumed(place: Place) -> None:
    """What was charged and not stored is finished at the next start; stray draws are gone."""
    bundles = BundleStore(place.folder / "releases")
    with place.open() as ledger:
        populate(ledger)
        paid = ledger.charge(order("a"))
        write_payload(bundles.draft(paid), "a draw that was never stored")
    with place.open() as ledger:
        assert resume(ledger, bundles, compute) == 1
        assert resume(ledger, bundles, compute) == 0
        stored = ledger.release_of(paid)
    assert stored is not None
    assert [path.name for path in bundles.folder.iterdir()] == [stored.payload_ref]


def test_a_closed_ledger_takes_nothing(place: Place) -> None:
    """After `close` a charge is refused; what waited before is finished."""
    with place.open() as ledger:
        populate(ledger)
    with pytest.raises(LedgerUnavailableError, match="closed"):
        ledger.charge(order("a"))


def test_orders_that_wait_together_are_decided_in_turn(ledger: Ledger) -> None:
    """In one batch: the same key, the same request, a conflict and the last of the budget."""
    price = share_of(2)
    placed_orders = [
        order("a", price=price),
        order("a", price=price),
        order("a", price=price, request="other"),
        order("b", price=price, request="a"),
        order("c", price=price),
        order("d", price=price),
        order("e", price=price, request="a", principal="bob"),
    ]
    placed = [(ledger._resolve(one), one) for one in placed_orders]
    made = ledger._writer.run(lambda session: charge_all(session, 1, placed), journal_id=1)
    kinds = [type(one).__name__ for one in made]
    assert kinds == [
        *("Charge", "Charge", "KeyConflictError", "Charge", "Charge"),
        *("ChargeRefusedError", "Charge"),
    ]
    assert made[0] == made[1]
    assert whole(ledger).spent == price + price == own(ledger, "ann").spent
    assert broken(ledger) == []


def test_the_tables_are_those_of_the_migrations(ledger: Ledger) -> None:
    """What Alembic made is what the code describes."""
    with ledger.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_tables_of_older_software_are_brought_up_to_date(place: Place) -> None:
    """A ledger of the first version, with a charge: nothing of it changes, and the rest appears."""
    with place.open() as ledger:
        populate(ledger)
        paid = ledger.charge(order("a"))
        ledger.store(paid, Release(state=ReleaseState.FAILED))
        record = place.folder / "ledger.database"
        record.write_text(record.read_text().splitlines()[0])  # without the identity
        with writing(ledger.engine).begin() as connection:
            for table in (
                "ledger_identity",
                "series",
                "reviewed_order",
                "session",
                "planned",
                "identity",
                "lost_dataset",
                "share",
                "principal_event",
                "registration",
                "token",
            ):
                connection.execute(text(f"DROP TABLE {table}"))
            if connection.dialect.name == "postgresql":
                for name in (
                    "share_no_update",
                    "share_no_delete",
                    "principal_event_no_update",
                    "principal_event_no_delete",
                    "lost_dataset_no_update",
                    "lost_dataset_no_delete",
                ):
                    connection.execute(text(f"DROP FUNCTION {name}()"))
            on = "" if connection.dialect.name == "sqlite" else " ON release"
            for change in ("insert", "delete"):
                connection.execute(text(f"DROP TRIGGER release_count_{change}{on}"))
                if on:
                    connection.execute(text(f"DROP FUNCTION release_count_{change}()"))
            connection.execute(text("ALTER TABLE journal DROP COLUMN stored"))
            connection.execute(text("DROP INDEX ix_entry_principal"))
            connection.execute(text("DROP INDEX ix_release_fingerprint"))
            for name in ("number", "fingerprint"):
                connection.execute(text(f"ALTER TABLE release DROP COLUMN {name}"))
            connection.execute(text("UPDATE alembic_version SET version_num = 'v2_0001'"))
    with place.open() as ledger:
        assert ledger.charge(order("a")) == paid
        stored = ledger.release_of(paid)
        assert stored is not None
        assert ledger.is_recorded(paid.journal_id, stored.number)  # by this start
        assert broken(ledger) == []
        with ledger.engine.connect() as connection:
            assert compare_metadata(MigrationContext.configure(connection), metadata) == []


@pytest.mark.parametrize("version", ["9999", "0003"])
def test_tables_of_an_unknown_version_are_refused(place: Place, version: str) -> None:
    """Tables of a newer version, or of 0.1, are not touched."""
    with place.open() as ledger:
        engine = writing(ledger.engine)
        with engine.begin() as connection:
            connection.execute(text(f"UPDATE alembic_version SET version_num = '{version}'"))
    with pytest.raises(InvalidParameterError, match="or a version that it upgrades"):
        place.open()


def test_the_audit_finds_every_planted_fault(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the guards taken away, each kind of damage is found; and nothing before it.

    Whether entries are taken one by one, as on the first page, or all at once: the two charges are
    a page of their own if a page has two entries.
    """
    ledger.charge(order("a", request=1))
    ledger.charge(order("b", request=1, principal="bob"))
    ledger.store(ledger.charge(order("a", request=1)), Release(state=ReleaseState.FAILED))
    assert broken(ledger) == []
    _drop_guards(ledger)
    faults = {
        "UPDATE entry SET rho = rho + 1 WHERE seq = 5": "the chain of every journal is whole",
        "UPDATE account SET rho_spent = rho_spent - 1 WHERE principal_id IS NULL": "accounts hold",
        "UPDATE account SET rho_cap = rho_cap + 1": "accounts hold",
        "UPDATE journal SET head_seq = head_seq - 1": "no entry is missing at the end",
        "UPDATE entry SET source_seq = 2 WHERE seq = 6": "every release belongs to a charge",
        "UPDATE entry SET own_account_id = NULL WHERE seq = 6": "on the right accounts",
        "UPDATE entry SET own_account_id = account_id WHERE seq = 5": "on the right accounts",
        "UPDATE entry SET account_id = 3 WHERE seq = 5": "on the right accounts",
        "UPDATE entry SET prev_sha256 = row_sha256 WHERE seq = 6": "the chain of every journal",
        "UPDATE entry SET rho = -rho WHERE seq = 5": "accounts hold",
        "UPDATE entry SET account_id = NULL WHERE seq = 5": "every release was charged",
        "UPDATE entry SET rho = 4000000000000 WHERE seq = 5": "no account was ever above its cap",
        "UPDATE journal SET stored = stored + 1": "journals state the number of their releases",
        "UPDATE release SET seq = 6": "every release belongs to a charge",
    }
    for fault, found in faults.items():
        with writing(ledger.engine).connect() as connection:
            connection.execute(text(fault))
            said = _broken_within(connection)
            assert any(found in check for check in said), (fault, said)
            with monkeypatch.context() as small:
                small.setattr(ledger_audit, "_PAGE", 2)
                assert _broken_within(connection) == said
            connection.rollback()
    assert broken(ledger) == []
    monkeypatch.setattr(ledger_audit, "_PAGE", 2)
    monkeypatch.setattr(ledger_audit.Replay, "_take", _only_acts)
    assert broken(ledger) == []


def _only_acts(self: ledger_audit.Replay, row: ledger_audit.Row, _: str) -> None:
    """Take what is no charge, so that the test sees charges taken a page at a time."""
    assert row[ledger_audit.COLUMNS.index("kind")] != "charge"
    _TAKE(self, row, row[-1])


_TAKE = ledger_audit.Replay._take


def _drop_guards(ledger: Ledger) -> None:
    names = {
        "sqlite": "SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger'",
        "postgresql": "SELECT tgname, relname FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid"
        " WHERE NOT tgisinternal AND pg_table_is_visible(c.oid)",
    }[ledger.engine.dialect.name]
    with writing(ledger.engine).begin() as connection:
        for trigger, table in connection.execute(text(names)).all():
            on = "" if ledger.engine.dialect.name == "sqlite" else f" ON {table}"
            connection.execute(text(f"DROP TRIGGER {trigger}{on}"))


def _broken_within(connection: Connection) -> list[str]:
    """Audit inside a transaction that is not committed."""
    return [finding.check for finding in audit_connection(connection) if not finding.holds]


def test_a_loss_counts_under_every_budget_that_is_given_again(tmp_path: Path) -> None:
    """A cap raised after the backup, a tier opened after it: what was charged under them is lost.

    Raising the cap again needs a declaration, which counts as spent; the audit agrees.
    """
    folder, file = tmp_path / "data", tmp_path / "data" / "ledger.sqlite"
    folder.mkdir()
    with Ledger.open(folder) as ledger:
        populate(ledger)
    shutil.copy(file, tmp_path / "old.sqlite")
    with Ledger.open(folder) as ledger:
        ledger.set_budget("homes", LARGER, by="owner", reason="more")
        ledger.set_budget("homes", ALLOWANCE, by="owner", reason="x", tier=Tier.INSTANCE)
    shutil.copy(tmp_path / "old.sqlite", file)
    Ledger.accept(folder, by="owner", reason="disk lost")
    too_much = replace(LARGER, epsilon=2.0 * LARGER.epsilon)
    with Ledger.open(folder) as ledger:
        assert whole(ledger).left == Amounts()
        for tier in Tier:
            again = partial(
                ledger.set_budget, "homes", LARGER, by="owner", reason="again", tier=tier
            )
            with pytest.raises(InvalidParameterError, match="lost_epsilon must be given"):
                again()
            with pytest.raises(InvalidParameterError, match="at most the budget"):
                again(lost=too_much)
            again(lost=LARGER)
            found, _ = ledger.accounts("homes", "ann", tier)
            assert found is not None
            assert found.left == Amounts()
        with ledger.reading() as connection:
            assert all(finding.holds for finding in audit_connection(connection))


def test_a_declaration_of_a_loss_needs_a_loss(ledger: Ledger) -> None:
    """Nothing was lost: there is nothing to declare."""
    with pytest.raises(InvalidParameterError, match="no entries were lost"):
        ledger.set_budget("homes", LARGER, by="owner", reason="more", lost=ALLOWANCE)
    with pytest.raises(InvalidParameterError, match="unless a budget is raised"):
        ledger.set_budget(
            "homes", ALLOWANCE, by="owner", reason="x", principal="ann", lost=ALLOWANCE
        )
