"""The server in a real browser: an administrator and an analyst, on desktop and phone screens."""

import os
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from playwright.sync_api import Browser, Page, Request

from tests.live_server import Running, put_profiles
from tests.sample_bundles import some_profiles
from wattveil.server.auth.sessions import COOKIE

SHOTS = os.environ.get("WATTVEIL_SCREENSHOTS")
"""Folder for screenshots, optional."""


def opened(browser: Browser, server: Running, *, width: int, dark: bool) -> tuple[Page, list[str]]:
    """Sign in; return the page, its console errors, and its requests to other hosts."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
    )
    page = context.new_page()
    heard: list[str] = []
    page.on("console", lambda message: heard.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: heard.append(f"error: {error}"))
    page.on("request", lambda request: heard.append(request.url))
    page.goto(f"{server.url}/")
    return page, heard


def signed_in(page: Page, token: str) -> None:
    """Sign in by the keyboard alone: the field has the focus."""
    page.wait_for_function("() => document.activeElement.id === 'token'")
    page.keyboard.type(token)
    page.keyboard.press("Enter")
    page.wait_for_selector("nav")


def looked_at(page: Page, name: str, width: int) -> None:
    """Check that nothing sticks out, and keep a picture."""
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if SHOTS:
        page.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)


def look_at_the_books(owner: Page) -> None:
    """See in the ledger what was done, and on the bars of the accounts how full they are."""
    owner.click("text=Ledger")
    said = owner.locator("h2:has-text('town') + section").inner_text()
    assert "zoe, global tier: epsilon 2.0" in said
    assert "global tier: epsilon 1.5" in said
    looked_at(owner, "ledger", 1280)
    owner.click("text=Administration")
    gauge = owner.locator(".gauge", has_text="zoe")
    share = gauge.locator("meter").evaluate("bar => bar.value")
    assert 0.5 < share < 0.75  # shares add up, epsilon does not: its own share is 0.75
    assert f"{100 * share:.0f} % spent" in gauge.inner_text()
    assert "epsilon 1.5 of 2 spent" in gauge.inner_text()


def test_owner_and_analyst_do_their_work(browser: Browser, server: Running) -> None:
    """Register, admit, set a budget; sign in as analyst, see a quote change, release, see plots."""
    put_profiles(server.state.folder, "town.parquet", some_profiles(50))
    owner, owner_heard = opened(browser, server, width=1280, dark=False)
    looked_at(owner, "sign-in", 1280)
    signed_in(owner, server.tokens["owner"])
    owner.click("text=Administration")
    register = owner.locator("form[action='/admin/datasets']")
    for field, value in {
        "name": "town",
        "file": "town.parquet",
        "title": "Homes of a town",
        "clip_kw": "5",
        "customers": "50",
        "groups": "class: home, shop",
        "allowance.epsilon": "4",
    }.items():
        register.locator(f"[name='{field}']").fill(value)
    register.locator("button").click()
    owner.wait_for_selector("text=town is registered.")
    owner.locator("form[action='/admin/people'] [name=name]").fill("zoe")
    owner.click("text=Create the account")
    token = owner.locator("#token").inner_text()
    looked_at(owner, "admin", 1280)
    town = owner.locator("section", has=owner.locator("h2 a", has_text="town"))
    town.locator("text=Set a budget").click()
    budget = town.locator("form[action='/admin/budgets']")
    budget.locator("[name=principal]").select_option("zoe")
    budget.locator("[name='allowance.epsilon']").fill("2")
    budget.locator("[name=reason]").fill("thesis")
    budget.locator("button").click()
    owner.wait_for_selector("text=The budget is set.")

    ann, ann_heard = opened(browser, server, width=390, dark=True)
    signed_in(ann, token)
    looked_at(ann, "datasets-phone", 390)
    ann.click("text=Homes of a town")
    ann.wait_for_selector("[data-affordable]")
    ann.wait_for_selector("#quote .main-svg")
    before = ann.locator("#quote table").inner_text()
    looked_at(ann, "order-phone", 390)
    ann.locator("#epsilon").fill("1.5")
    ann.wait_for_function(
        "before => document.querySelector('#quote[aria-busy=false] table') !== null"
        " && document.querySelector('#quote table').innerText !== before",
        arg=before,
    )
    ann.locator("text=More choices").click()
    looked_at(ann, "choices-phone", 390)
    ann.click("#review")
    ann.wait_for_selector("text=Confirm the order")
    looked_at(ann, "confirm-phone", 390)
    ann.click("#order")
    ann.wait_for_selector("text=Privacy guarantee")
    ann.wait_for_function("() => document.querySelectorAll('.plot svg.wide').length >= 2")
    looked_at(ann, "release-phone", 390)
    ann.goto(f"{server.url}/datasets/town")
    ann.wait_for_selector("[data-affordable]")
    ann.context.clear_cookies()
    ann.locator("#epsilon").fill("1.7")
    ann.wait_for_selector("text=You are signed out")
    look_at_the_books(owner)
    own = (f"{server.url}/", "data:")
    assert [one for one in owner_heard + ann_heard if not one.startswith(own)] == []


WIDTHS = pytest.mark.parametrize("width", [1280, 390])


def spent_by_ann(server: Running) -> float:
    """Return the epsilon that ann has spent."""
    budget = server.send("GET", "/v1/datasets/homes/budget", as_="ann").json
    return float(budget["own"]["epsilon_spent"])


def form_of_ann(browser: Browser, server: Running, width: int, epsilon: float) -> Page:
    """Open the order form, and wait for its quote."""
    page, _ = opened(browser, server, width=width, dark=False)
    signed_in(page, server.tokens["ann"])
    page.goto(f"{server.url}/datasets/homes")
    page.locator("#epsilon").fill(str(epsilon))
    page.wait_for_selector("#quote[aria-busy=false] [data-affordable]")
    return page


@WIDTHS
def test_the_form_sends_what_it_shows(browser: Browser, server: Running, width: int) -> None:
    """Fields of unticked products are hidden and not sent; what was confirmed is what is spent."""
    page = form_of_ann(browser, server, width, 0.2 + width / 1e6)
    clusters, labels = page.locator("[name=n_clusters]"), page.locator("[name=label_epsilon]")
    assert not clusters.is_visible()
    assert not labels.is_visible()
    assert page.locator("[name=by]").is_visible()  # load can be released by group
    page.check("[value=clusters]")
    clusters.fill("3")
    page.check("[value=labels]")
    labels.fill("0.1")
    looked_at(page, f"form-all-{width}", width)
    page.wait_for_selector("#quote[aria-busy=false] .terms")
    page.click("#quote .terms summary")
    for term in ("standalone epsilon", "supported segments", "expected wrong labels"):
        assert page.locator("#quote dt", has_text=term).is_visible()
    looked_at(page, f"form-terms-{width}", width)
    page.uncheck("[value=clusters]")
    page.uncheck("[value=labels]")
    assert not clusters.is_visible()
    assert not labels.is_visible()
    page.wait_for_selector("#review:enabled")
    looked_at(page, f"form-load-{width}", width)
    sent: list[dict[str, list[str]]] = []

    def kept(request: Request) -> None:
        if request.method == "POST" and request.url.endswith("/datasets/homes"):
            sent.append(parse_qs(request.post_data or ""))

    page.on("request", kept)
    before = spent_by_ann(server)
    quoted = page.locator("[data-affordable]").inner_text()
    page.click("#review")
    page.wait_for_selector("text=Confirm the order")
    assert sent[0].keys() == {"csrf_token", "epsilon", "products"}
    assert sent[0]["products"] == ["load"]
    assert page.locator("#products td").all_inner_texts()[0] == "Load"
    assert page.locator("#products tr").count() == 2  # with the head
    assert "Customer segments" in page.locator("#left-out").inner_text()
    looked_at(page, f"confirm-{width}", width)
    assert spent_by_ann(server) == before
    share = page.locator("[data-account=own] p span").inner_text().removesuffix(" spent afterwards")
    promised = page.locator("[data-account=own]").inner_text().rpartition("afterwards ")[2]
    assert quoted.startswith(f"Afterwards {share} of your budget is spent (now ")
    page.click("#order")
    page.wait_for_url("**/releases/*")
    release = page.url.rpartition("/")[2]
    assert f"{spent_by_ann(server):.3g}" == promised.strip()
    products = server.finished(release)["request"]["weights"]
    assert [name for name in products if products[name]] == ["load"]


@WIDTHS
def test_going_back_and_clicking_twice_spends_once(
    browser: Browser, server: Running, width: int
) -> None:
    """Back leads to pages that charge nothing; two clicks on one confirmation are one order."""
    page = form_of_ann(browser, server, width, 0.21 + width / 1e6)
    before = spent_by_ann(server)
    page.click("#review")
    page.wait_for_selector("#order")
    page.go_back()  # to the form, as it was left
    assert float(page.locator("#epsilon").input_value()) == 0.21 + width / 1e6
    page.wait_for_selector("#review:enabled")
    page.click("#review")
    page.wait_for_selector("#order")
    assert spent_by_ann(server) == before
    page.dblclick("#order")
    page.wait_for_url("**/releases/*")
    release = page.url
    once = spent_by_ann(server)
    assert once > before
    page.go_back()  # to the confirmation
    page.wait_for_selector("text=This order has been placed")
    looked_at(page, f"placed-{width}", width)
    page.reload()
    assert page.locator(f"a[href='{release.removeprefix(server.url)}']").is_visible()
    page.go_back()  # to the form
    page.wait_for_selector("#review")
    assert spent_by_ann(server) == once


@WIDTHS
def test_errors_are_pages_in_plain_words(browser: Browser, server: Running, width: int) -> None:
    """A wrong address, a page of administrators, an address of a form, an ended session."""
    page, _ = opened(browser, server, width=width, dark=False)
    signed_in(page, server.tokens["ann"])
    for path, heading in (
        ("/nothing", "Page not found"),
        ("/admin", "You do not have access to this page"),
        ("/admin/people", "This page cannot be opened this way"),
    ):
        page.goto(server.url + path)
        assert page.locator("h1").inner_text() == heading
        looked_at(page, f"problem{path.replace('/', '-')}-{width}", width)
        page.locator("main >> text=Data sets").click()
        assert page.locator("h1").inner_text() == "Data sets"
    page.context.clear_cookies()
    page.context.add_cookies([{"name": COOKIE, "value": "unknown", "url": server.url}])
    page.goto(f"{server.url}/datasets/homes")
    assert page.locator("text=Your session has ended").is_visible()
    looked_at(page, f"ended-{width}", width)
    signed_in(page, server.tokens["ann"])
    assert page.url == f"{server.url}/datasets/homes"


def test_an_order_needs_no_script(browser: Browser, server: Running) -> None:
    """Without JavaScript the form shows every field, and the request has those of its products."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(server.url)
    page.fill("[name=token]", server.tokens["ann"])
    page.click("text=Sign in >> nth=-1")
    page.goto(f"{server.url}/datasets/homes")
    page.fill("[name=epsilon]", "0.23")
    page.fill("[name=n_clusters]", "9")
    page.click("#review")
    assert page.locator("#products tr").count() == 2  # with the head
    before = spent_by_ann(server)
    page.click("#order")
    release = page.url.rpartition("/")[2]
    assert server.finished(release)["request"]["n_clusters"] == 6
    assert spent_by_ann(server) > before


@WIDTHS
def test_releases_state_what_was_ordered(browser: Browser, server: Running, width: int) -> None:
    """In the list and on the page of each; tables with what they contain; nothing is cut off."""
    body = {"epsilon": 0.24 + width / 1e6, "products": ["load"], "by": "class"}
    release = server.order(f"by-class-{width}", body).json["id"]
    server.finished(release)
    page, _ = opened(browser, server, width=width, dark=False)
    signed_in(page, server.tokens["ann"])
    page.goto(f"{server.url}/releases")
    row = page.locator("tr", has=page.locator(f"a[href='/releases/{release}']"))
    assert "Load; by class" in row.inner_text()
    assert "complete" in row.inner_text()
    table = page.locator("section.scroll")
    assert table.evaluate("one => one.scrollWidth <= one.clientWidth")
    looked_at(page, f"releases-{width}", width)
    page.goto(f"{server.url}/releases/{release}")
    stated = page.locator("#ordered").inner_text()
    assert "Load; by class · epsilon 0.24" in stated
    assert "by ann" in stated
    assert "Mean load per customer" in page.locator("tr", has_text="load_shapes").inner_text()
    looked_at(page, f"release-{width}", width)


@WIDTHS
def test_the_first_quote_fits_a_small_budget(browser: Browser, server: Running, width: int) -> None:
    """The form begins with an epsilon that can be ordered, not with a refusal."""
    name = f"small-{width}"
    server.admit(name, epsilon=0.2)
    page, _ = opened(browser, server, width=width, dark=False)
    signed_in(page, server.tokens[name])
    page.goto(f"{server.url}/datasets/homes")
    page.wait_for_selector("#quote[aria-busy=false] [data-affordable]")
    assert 0.1 < float(page.locator("#epsilon").input_value()) < 0.2


@WIDTHS
def test_a_bundle_is_verified_on_the_page(
    browser: Browser, server: Running, width: int, tmp_path: Path
) -> None:
    """Each check with its result and details, on a phone below one another."""
    body = {"epsilon": 0.25 + width / 1e6, "products": ["load"]}
    release = server.order(f"verified-{width}", body).json["id"]
    server.finished(release)
    archive = tmp_path / "bundle.zip"
    archive.write_bytes(server.send("GET", f"/v1/releases/{release}/bundle.zip", as_="ann").body)
    page, _ = opened(browser, server, width=width, dark=False)
    signed_in(page, server.tokens["ann"])
    page.goto(f"{server.url}/verify")
    page.set_input_files("#bundle", archive)
    page.click("#check button")
    table = page.locator("#verdict .scroll")
    table.wait_for()
    assert page.locator("#verdict h2").inner_text() == "All checks passed"
    assert table.evaluate("one => one.scrollWidth <= one.clientWidth")
    row = table.locator("tr", has_text="the signature")
    assert "passed" in row.inner_text()
    looked_at(page, f"verified-{width}", width)
