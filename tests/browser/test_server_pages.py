"""The server in a real browser: an administrator and an analyst, on desktop and phone screens."""

import os

from playwright.sync_api import Browser, Page

from tests.live_server import Running, put_profiles
from tests.sample_bundles import some_profiles

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
    assert "epsilon 1.5 so far, 2 at the end" in gauge.inner_text()


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
        "epsilon": "4",
    }.items():
        register.locator(f"[name={field}]").fill(value)
    register.locator("button").click()
    owner.wait_for_selector("text=town is registered.")
    owner.locator("form[action='/admin/people'] [name=name]").fill("zoe")
    owner.click("text=Admit")
    token = owner.locator("#token").inner_text()
    looked_at(owner, "admin", 1280)
    town = owner.locator("section", has=owner.locator("h2 a", has_text="town"))
    town.locator("text=Set a budget").click()
    budget = town.locator("form[action='/admin/budgets']")
    budget.locator("[name=principal]").select_option("zoe")
    budget.locator("[name=epsilon]").fill("2")
    budget.locator("[name=reason]").fill("thesis")
    budget.locator("button").click()
    owner.wait_for_selector("text=The budget is set.")

    ann, ann_heard = opened(browser, server, width=390, dark=True)
    signed_in(ann, token)
    looked_at(ann, "datasets-phone", 390)
    ann.click("text=Homes of a town")
    ann.wait_for_selector("[data-affordable]", timeout=60_000)
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
    ann.click("#order")
    ann.wait_for_selector("text=Privacy guarantee", timeout=60_000)
    ann.wait_for_function("() => document.querySelectorAll('.plot svg.wide').length >= 2")
    looked_at(ann, "release-phone", 390)
    ann.go_back()
    ann.wait_for_selector("[data-affordable]")
    ann.context.clear_cookies()
    ann.locator("#epsilon").fill("1.7")
    ann.wait_for_selector("text=You are signed out")
    look_at_the_books(owner)
    own = (f"{server.url}/", "data:")
    assert [one for one in owner_heard + ann_heard if not one.startswith(own)] == []
