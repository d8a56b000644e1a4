// Draws every chart of a page, after it is laid out so that each gets the width it will keep.
const charts = document.querySelectorAll("[data-figure]");
for (const chart of charts) {
  const figure = JSON.parse(chart.dataset.figure);
  Plotly.newPlot(chart, figure.data, figure.layout, {responsive: true, displayModeBar: false});
}
