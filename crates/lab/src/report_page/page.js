for (const { id, data, layout } of JSON.parse(document.getElementById("figures").textContent)) {
  Plotly.newPlot(id, data, layout, { responsive: true, displaylogo: false });
}
