// A live quote: privacy cost and expected accuracy of the form as it stands, before anything is spent.
const form = document.getElementById("request");

if (form !== null) {
  const slider = document.getElementById("epsilon-slider");
  const epsilon = form.elements.epsilon;
  const quote = document.getElementById("quote");
  const button = document.getElementById("review");
  let requested = 0;
  let waiting = null;

  // The slider is logarithmic, from 0.01 to 10.
  const toSlider = value => 100 * (Math.log10(value) + 2) / 3;
  const fromSlider = place => Number((10 ** (3 * place / 100 - 2)).toPrecision(2));

  // A field is shown with the products and the tier that it shapes; one that is hidden is not sent.
  const fit = () => {
    const sent = new FormData(form);
    const tier = sent.get("tier") ?? "global";
    for (const part of form.querySelectorAll("[data-tier]")) show(part, part.dataset.tier === tier);
    const ticked = sent.getAll("products");
    for (const part of form.querySelectorAll("[data-products]")) {
      show(part, tier === "instance" ? "instance" in part.dataset
        : part.dataset.products.split(" ").some(one => ticked.includes(one)));
    }
  };
  const show = (part, shown) => { part.disabled = part.hidden = !shown; };

  const later = () => {
    fit();
    outdate();
    clearTimeout(waiting);
    waiting = setTimeout(update, 400);
  };

  // The quote on the page is of another request: it may not be ordered, nor read as this one's.
  const outdate = () => {
    ++requested;
    button.disabled = true;
    quote.setAttribute("aria-busy", "true");
    const line = document.createElement("p");
    line.role = "status";
    line.append("Calculating…");
    quote.replaceChildren(line);
  };

  const warning = text => {
    const line = document.createElement("p");
    line.className = "warn";
    line.role = "alert";
    line.append(text);
    return line;
  };

  const update = async () => {
    const turn = ++requested;
    quote.setAttribute("aria-busy", "true");
    const answer = await fetch(form.dataset.quote, {
      method: "POST", body: new URLSearchParams(new FormData(form)),
    }).catch(() => null);
    const page = answer?.ok && !answer.redirected ? await answer.text() : null;
    if (turn !== requested) return; // a later request is under way
    if (page !== null) quote.innerHTML = page; // our own fragment, escaped by the server
    else if (answer?.redirected) {
      const link = document.createElement("a");
      link.href = "/sign-in?ended=yes&to=" + encodeURIComponent(location.pathname);
      link.append("Sign in");
      const line = warning("You are signed out. ");
      line.append(link, " to continue.");
      quote.replaceChildren(line);
    } else {
      quote.replaceChildren(warning(answer === null
        ? "The server cannot be reached. Nothing was spent."
        : "No quote is available at the moment. Nothing was spent. Try again in a few seconds."));
    }
    quote.setAttribute("aria-busy", "false");
    button.disabled = quote.querySelector("[data-affordable]") === null;
    draw(quote);
  };

  slider.addEventListener("input", () => { epsilon.value = fromSlider(Number(slider.value)); later(); });
  epsilon.addEventListener("input", () => { slider.value = toSlider(Number(epsilon.value)); later(); });
  form.addEventListener("change", later);
  // After "back" a browser restores what was ticked: fields, slider and quote follow it.
  addEventListener("pageshow", () => { slider.value = toSlider(Number(epsilon.value)); fit(); update(); });
}
