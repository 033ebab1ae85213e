/* Flows in: the chart descriptions of figures.py. Flows out: one Plotly drawing each, made when it
   comes near the window: the library's four megabytes and a dozen drawings would delay the page. */
(() => {
  const { data, make, isDark, token } = Page;
  const COLORS = {
    runs: { light: ["#2458c5", "#c2560c", "#1a7f5a", "#8b3fb0"], dark: ["#8ab0ff", "#ffab6b", "#6fd3ab", "#d59cf0"] },
    groups: { light: ["#2f8f57", "#2458c5", "#b9bec6"], dark: ["#5cc98a", "#8ab0ff", "#59626e"] },
    levels: { light: ["#17733a", "#2458c5", "#8b3fb0", "#c2560c", "#b3261e", "#5b6470"], dark: ["#7fd69b", "#8ab0ff", "#d59cf0", "#ffab6b", "#ff9c93", "#9aa4b1"] },
  };

  const axisChoice = document.getElementById("axis");
  const AXES = { step: "step", calls: "verifier calls", minutes: "minutes" };
  const plots = new Map();
  const drawn = new Set();

  /* The policy of the page admits the library's text by its hash. */
  function loadPlotly() {
    if (window.Plotly) return;
    const script = make("script");
    script.textContent = document.getElementById("plotly").textContent;
    document.head.append(script);
  }

  function drawChart(chart, node) {
    const axis = chart.only_step_axis ? "step" : axisChoice.value;
    const palette = COLORS[chart.ramp][isDark() ? "dark" : "light"];
    const legend = new Set(chart.series.map((s) => s.name)).size > 1;
    const traces = chart.series.map((s) => {
      const color = palette[s.color % palette.length];
      const few = s.y.length < 12 && !s.stacked;
      return {
        type: "scatter", mode: few ? "lines+markers" : "lines", name: s.name,
        x: s.x[axis], y: s.y, opacity: s.faint ? 0.28 : 1, showlegend: legend && !s.faint,
        hoverinfo: s.faint ? "skip" : undefined,
        line: { color, width: s.faint ? 1 : s.stacked ? 0.5 : 2 }, marker: { color, size: 6 },
        ...(s.stacked ? { stackgroup: "one" } : {}),
        hovertemplate: s.faint ? undefined : (chart.percent ? "%{y:.1%}" : "%{y:.4~g}") + "<extra>" + s.name.replace(/[<>&]/g, "") + "</extra>",
      };
    });
    const grid = { gridcolor: token("--line"), zeroline: false, linecolor: token("--line"), automargin: true, fixedrange: true };
    Plotly.react(node, traces, {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 12, color: token("--soft") },
      margin: { l: 44, r: 8, t: legend ? 30 : 10, b: 36 },
      xaxis: { ...grid, showgrid: false, title: { text: chart.only_step_axis ? "warm-start step" : AXES[axis], standoff: 6 } },
      yaxis: { ...grid, tickformat: chart.percent ? ".2~%" : undefined, nticks: 5, rangemode: chart.percent ? "tozero" : "normal", ...(chart.series.some((s) => s.stacked) ? { range: [0, 1] } : {}) },
      showlegend: legend, legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
      hovermode: "x unified",
      hoverlabel: { bgcolor: token("--panel"), bordercolor: token("--line"), font: { color: token("--ink") } },
    }, { displayModeBar: false, responsive: true });
  }

  function buildCharts() {
    const holder = document.getElementById("charts");
    if (!data.charts.length) {
      holder.replaceWith(make("p", "empty", "No step has been logged yet, so there is nothing to draw."));
      return;
    }
    document.getElementById("axis-controls").hidden = false;
    if (data.runs.length > 1) axisChoice.value = "calls";
    for (const chart of data.charts) {
      const card = make("div", "chart");
      card.append(make("h3", "", chart.title), make("div", "unit", chart.unit));
      const node = make("div", "plot");
      card.append(node);
      if (chart.note) card.append(make("div", "note", chart.note));
      holder.append(card);
      plots.set(node, chart);
    }
    const draw = (node) => { loadPlotly(); drawn.add(node); drawChart(plots.get(node), node); };
    const watcher = new IntersectionObserver((entries) => {
      for (const entry of entries.filter((item) => item.isIntersecting)) {
        watcher.unobserve(entry.target);
        draw(entry.target);
      }
    }, { rootMargin: "300px" });
    const redraw = () => drawn.forEach((node) => drawChart(plots.get(node), node));
    plots.forEach((_, node) => watcher.observe(node));
    addEventListener("beforeprint", () => plots.forEach((_, node) => { if (!drawn.has(node)) draw(node); }));
    axisChoice.addEventListener("change", redraw);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    document.getElementById("theme").addEventListener("click", redraw);
  }

  buildCharts();
})();
