// Draws every chart of a page or a part of it, in the colours of the page.
function draw(root) {
  const style = getComputedStyle(document.documentElement);
  const [ink, line] = ["--ink", "--line"].map(name => style.getPropertyValue(name).trim());
  const axis = {gridcolor: line, zerolinecolor: line, linecolor: line};
  for (const chart of root.querySelectorAll("[data-figure]")) {
    const figure = JSON.parse(chart.dataset.figure);
    const layout = {...figure.layout, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: {...figure.layout.font, color: ink}};
    for (const name of Object.keys(layout).filter(name => /^[xy]axis/.test(name))) {
      layout[name] = {...layout[name], ...axis};
    }
    const data = figure.data.map(trace =>
      trace.error_x ? {...trace, error_x: {...trace.error_x, color: ink}} : trace);
    Plotly.newPlot(chart, data, layout, {responsive: true, displayModeBar: false});
  }
}

// After the page is laid out, so that each chart gets the width it will keep.
draw(document);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(document));
