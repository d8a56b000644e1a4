// Draws every figure of a page or of a part of it. On a screen in the colours of its theme, on paper
// in those of the figures themselves, which are made for a light ground.
function draw(root, printed = false) {
  const style = getComputedStyle(document.documentElement);
  const [ink, line] = ["--ink", "--line"].map(name => style.getPropertyValue(name).trim());
  for (const place of root.querySelectorAll("[data-figure]")) {
    const {data, layout} = JSON.parse(place.dataset.figure);
    if (!printed) {
      const own = layout.template.layout;
      layout.font = {...layout.font, color: ink};
      for (const axis of [own.xaxis, own.yaxis]) {
        Object.assign(axis, {gridcolor: line, linecolor: line, zerolinecolor: line});
      }
      for (const trace of data) if (trace.error_x) trace.error_x.color = ink;
    }
    Plotly.newPlot(place, data, layout, {responsive: true, displayModeBar: false});
  }
}

// This script stands at the end of a page or is deferred: every figure has the width it will keep.
draw(document);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(document));
addEventListener("beforeprint", () => draw(document, true));
addEventListener("afterprint", () => draw(document));
