// A live quote: what is typed is priced, and the expected error shown, before anything is spent.
const form = document.getElementById("ask");
const slider = document.getElementById("epsilon-slider");
const epsilon = form.elements.epsilon;
const quote = document.getElementById("quote");
const button = document.getElementById("order");
let asked = 0;

// The slider is logarithmic: from a hundredth to ten.
const toSlider = value => 100 * (Math.log10(value) + 2) / 3;
const fromSlider = place => Number((10 ** (3 * place / 100 - 2)).toPrecision(2));

slider.addEventListener("input", () => { epsilon.value = fromSlider(Number(slider.value)); later(); });
epsilon.addEventListener("input", () => { slider.value = toSlider(Number(epsilon.value)); later(); });
form.addEventListener("change", later);

let waiting = null;
function later() {
  clearTimeout(waiting);
  waiting = setTimeout(ask, 400);
}

async function ask() {
  const turn = ++asked;
  quote.setAttribute("aria-busy", "true");
  const answer = await fetch(form.dataset.quote, {
    method: "POST", body: new URLSearchParams(new FormData(form)),
  });
  const page = await answer.text();
  if (turn !== asked) return; // a later question is under way
  quote.innerHTML = page; // our own fragment, escaped by the server
  quote.setAttribute("aria-busy", "false");
  button.disabled = quote.querySelector("[data-affordable]") === null;
  for (const chart of quote.querySelectorAll("[data-figure]")) {
    const figure = JSON.parse(chart.dataset.figure);
    Plotly.newPlot(chart, figure.data, figure.layout, {responsive: true, displayModeBar: false});
  }
}

slider.value = toSlider(Number(epsilon.value));
ask();
