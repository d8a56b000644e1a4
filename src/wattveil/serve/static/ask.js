// A live quote: what is typed is priced, and the expected error shown, before anything is spent.
const form = document.getElementById("ask");

if (form !== null) {
  const slider = document.getElementById("epsilon-slider");
  const epsilon = form.elements.epsilon;
  const quote = document.getElementById("quote");
  const button = document.getElementById("order");
  let asked = 0;
  let waiting = null;

  // The slider is logarithmic: from a hundredth to ten.
  const toSlider = value => 100 * (Math.log10(value) + 2) / 3;
  const fromSlider = place => Number((10 ** (3 * place / 100 - 2)).toPrecision(2));

  // What the other tier has no choice of is not sent.
  const fit = () => {
    const tier = new FormData(form).get("tier") ?? "global";
    for (const part of form.querySelectorAll("[data-tier]")) part.disabled = part.dataset.tier !== tier;
  };

  const later = () => {
    fit();
    clearTimeout(waiting);
    waiting = setTimeout(ask, 400);
  };

  const ask = async () => {
    const turn = ++asked;
    quote.setAttribute("aria-busy", "true");
    let page;
    try {
      const answer = await fetch(form.dataset.quote, {
        method: "POST", body: new URLSearchParams(new FormData(form)),
      });
      page = answer.redirected
        ? '<p class="warn" role="alert">You are signed out. <a href="/sign-in">Sign in</a> to go on.</p>'
        : await answer.text();
    } catch {
      page = '<p class="warn" role="alert">The server cannot be reached. Nothing is spent.</p>';
    }
    if (turn !== asked) return; // a later question is under way
    quote.innerHTML = page; // our own fragment, escaped by the server
    quote.setAttribute("aria-busy", "false");
    button.disabled = quote.querySelector("[data-affordable]") === null;
    draw(quote);
  };

  slider.addEventListener("input", () => { epsilon.value = fromSlider(Number(slider.value)); later(); });
  epsilon.addEventListener("input", () => { slider.value = toSlider(Number(epsilon.value)); later(); });
  form.addEventListener("change", later);
  slider.value = toSlider(Number(epsilon.value));
  fit();
  ask();
}
