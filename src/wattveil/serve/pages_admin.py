"""Pages of administrators: data sets, budgets, people."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.responses import HTMLResponse

from wattveil.public_estimate import rounding_note
from wattveil.serve import datasets, people
from wattveil.serve.access import Access
from wattveil.serve.bodies import BudgetBody, DatasetBody, PrincipalBody, Product
from wattveil.serve.counter import Counter
from wattveil.serve.house import House
from wattveil.serve.pages import REFUSALS, Form, SentForm, Visitor, in_words, visiting
from wattveil.serve.problems import Code, Problem
from wattveil.serve.sessions import Sessions

_TEXTS = ("title", "curator", "region", "contact", "customer_list_file")


def admin_pages(house: House, access: Access, sessions: Sessions) -> APIRouter:
    """Return the pages on which owners act."""
    routes, acts = APIRouter(include_in_schema=False), _Acts(house)
    visitor = Depends(visiting(sessions, access))

    def overview(who: Visitor, said: dict[str, object], status: int = 200) -> HTMLResponse:
        with house.ledger.reading() as connection:
            known, everybody = datasets.all_datasets(connection), people.everybody(connection)
        accounts = [Counter(house).accounts(one) for one in known]
        shown = {"said": None, "refusal": None, "token": None, "token_of": None, **said}
        pairs = list(zip(known, accounts, strict=True))
        return who.page("admin.html", status, datasets=pairs, people=everybody, **shown)

    @routes.get("/admin")
    def show_admin(who: Annotated[Visitor, visitor]) -> HTMLResponse:
        who.check_admin()
        return overview(who, {})

    @routes.post("/admin/{act}")
    def do(act: str, form: SentForm, who: Annotated[Visitor, visitor]) -> HTMLResponse:
        who.check_admin()
        sessions.check_form(who.session, form.text("form_word"))
        if act not in acts.known:
            raise Problem(Code.NOT_FOUND)
        try:
            return overview(who, acts.known[act](form, who.holder.name))
        except REFUSALS as refusal:
            return overview(who, {"refusal": in_words(refusal)}, 422)

    return routes


class _Acts:
    """What a form of the overview does; each returns what the page then says."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.known = {
            "datasets": self._register,
            "budgets": self._set_budget,
            "close": self._close,
            "people": self._admit,
            "tokens": self._issue,
            "revoke": self._lock_out,
            "disable": self._disable,
        }

    def _register(self, form: Form, by: str) -> dict[str, object]:
        texts = {name: text for name in _TEXTS if (text := form.text(name))}
        labelled = "customer_list_file" in texts
        products = [one for one in Product if labelled or one is not Product.LABELS]
        body = DatasetBody.model_validate(
            {
                **texts,
                "name": form.text("name"),
                "file": form.text("file"),
                "clip_kw": form.number("clip_kw"),
                "customers": form.whole("customers"),
                "typical_kw": form.number("typical_kw"),
                "groups": read_groups(form.text("groups")),
                "products": products,
                **_shared_or_own(form),
            }
        )
        house = self._house
        datasets.register(house.ledger, house.folder, body, by=by, look=house.look)
        sent = form.whole("customers")
        note = rounding_note(sent) if isinstance(sent, int) else None
        return {"said": f"{body.name} is registered." + (f" Note: {note}." if note else "")}

    def _set_budget(self, form: Form, by: str) -> dict[str, object]:
        body = BudgetBody.model_validate(
            {
                "allowance": _allowance(form),
                "reason": form.text("reason"),
                "tier": form.text("tier"),
                "whose": form.text("whose") or None,
            }
        )
        self._house.ledger.set_budget(
            form.text("dataset"),
            datasets.allowance_of(body.allowance),
            by=by,
            reason=body.reason,
            tier=body.tier,
            whose=body.whose,
        )
        return {"said": "The budget is set."}

    def _close(self, form: Form, by: str) -> dict[str, object]:
        name = form.text("dataset")
        self._house.ledger.close_dataset(name, by=by, reason=form.text("reason"))
        return {"said": f"{name} is closed."}

    def _admit(self, form: Form, by: str) -> dict[str, object]:
        body = PrincipalBody.model_validate({"name": form.text("name"), "kind": form.text("kind")})
        return {"token": people.admit(self._house.ledger, body, by=by), "token_of": body.name}

    def _issue(self, form: Form, by: str) -> dict[str, object]:
        name = form.text("name")
        return {"token": people.further_token(self._house.ledger, name, by=by), "token_of": name}

    def _lock_out(self, form: Form, by: str) -> dict[str, object]:
        name = form.text("name")
        people.lock_out(self._house.ledger, name, by=by)
        return {"said": f"Every token of {name} is worthless now."}

    def _disable(self, form: Form, by: str) -> dict[str, object]:
        name = form.text("name")
        people.disable(self._house.ledger, name, by=by)
        return {"said": f"{name} is disabled."}


def _shared_or_own(form: Form) -> dict[str, Any]:
    """Return the data set whose budget a new one shares, or a budget of its own."""
    linked_to = form.text("linked_to")
    return {"linked_to": linked_to} if linked_to else {"allowance": _allowance(form)}


def _allowance(form: Form) -> dict[str, Any]:
    names = ("epsilon", "delta", "label_epsilon")
    return {name: value for name in names if (value := form.number(name)) is not None}


def read_groups(text: str) -> dict[str, list[str]]:
    """Read an attribute a line: its name, a colon, its values with commas between them."""
    groups = {}
    for line in filter(str.strip, text.splitlines()):
        name, _, values = line.partition(":")
        groups[name.strip()] = [value.strip() for value in values.split(",") if value.strip()]
    return groups
