// A live quote: privacy cost and expected accuracy of the form as it stands, before anything is spent.
const form = document.getElementById("request");

if (form !== null) {
  const slider = document.getElementById("epsilon-slider");
  const epsilon = form.elements.epsilon;
  const quote = document.getElementById("quote");
  const button = document.getElementById("order");
  let requested = 0;
  let waiting = null;

  // The slider is logarithmic, from 0.01 to 10.
  const toSlider = value => 100 * (Math.log10(value) + 2) / 3;
  const fromSlider = place => Number((10 ** (3 * place / 100 - 2)).toPrecision(2));

  // Fields of the other tier are disabled and not sent.
  const fit = () => {
    const tier = new FormData(form).get("tier") ?? "global";
    for (const part of form.querySelectorAll("[data-tier]")) part.disabled = part.dataset.tier !== tier;
  };

  const later = () => {
    fit();
    clearTimeout(waiting);
    waiting = setTimeout(update, 400);
  };

  const update = async () => {
    const turn = ++requested;
    quote.setAttribute("aria-busy", "true");
    let page;
    try {
      const answer = await fetch(form.dataset.quote, {
        method: "POST", body: new URLSearchParams(new FormData(form)),
      });
      page = answer.redirected
        ? '<p class="warn" role="alert">You are signed out. <a href="/sign-in">Sign in</a> to continue.</p>'
        : await answer.text();
    } catch {
      page = '<p class="warn" role="alert">The server cannot be reached. Nothing is spent.</p>';
    }
    if (turn !== requested) return; // a later request is under way
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
  update();
}
