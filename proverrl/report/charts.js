/* Flows in: the chart descriptions of figures.py. Flows out: one Plotly drawing each, made when it
   comes into the window, or near it once the reader scrolls: starting the library's four megabytes
   takes longer than all else, and would keep a page that was just opened from answering. */
(() => {
  const { data, make, isDark, token } = Page;
  const COLORS = {
    runs: { light: ["#2458c5", "#c2560c", "#1a7f5a", "#8b3fb0", "#b3261e", "#6b6200", "#0c7a8c", "#5b6470"], dark: ["#8ab0ff", "#ffab6b", "#6fd3ab", "#d59cf0", "#ff9c93", "#d8cc5a", "#6cd0e0", "#9aa4b1"] },
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

  const fade = (color, share) => `rgba(${[1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16)).join(",")},${share})`;

  /* The two edges of a band, filled between; none where a point has no interval. */
  function bandOf(s, x, color) {
    const edge = { type: "scatter", mode: "lines", x, hoverinfo: "skip", showlegend: false, line: { width: 0 } };
    return [{ ...edge, y: s.low }, { ...edge, y: s.high, fill: "tonexty", fillcolor: fade(color, 0.16) }];
  }

  function tracesOf(chart, s, palette, axis, legend) {
    const x = s.x[axis];
    const color = palette[s.color % palette.length];
    const few = s.y.length < 12 && !s.stacked;
    const format = (chart.percent ? "%{y:.1%}" : "%{y:.4~g}");
    const name = s.name.replace(/[<>&]/g, "");
    const line = {
      type: "scatter", mode: few ? "lines+markers" : "lines", name,
      x, y: s.y, opacity: s.faint ? 0.28 : 1, showlegend: legend && !s.faint,
      hoverinfo: s.faint ? "skip" : undefined,
      line: { color, width: s.faint ? 1 : s.stacked ? 0.5 : 2 }, marker: { color, size: 6 },
      ...(s.stacked ? { stackgroup: "one" } : {}),
      hovertemplate: s.faint ? undefined : format + "<extra>" + name + "</extra>",
    };
    if (!s.low?.length) return [line];
    line.customdata = s.low.map((low, place) => low === null ? "" : chart.percent ? ` [${(100 * low).toFixed(1)}, ${(100 * s.high[place]).toFixed(1)}]` : "");
    line.hovertemplate = format + "%{customdata}<extra>" + name + "</extra>";
    return [...bandOf(s, x, color), line];
  }

  function drawChart(chart, node) {
    const axis = chart.axis ?? axisChoice?.value ?? "step";
    const palette = COLORS[chart.ramp][isDark() ? "dark" : "light"];
    const legend = new Set(chart.series.map((s) => s.name)).size > 1;
    const traces = chart.series.flatMap((s) => tracesOf(chart, s, palette, axis, legend));
    const grid = { gridcolor: token("--line"), zeroline: false, linecolor: token("--line"), automargin: true, fixedrange: true };
    Plotly.react(node, traces, {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 12, color: token("--soft") },
      margin: { l: 44, r: 8, t: legend ? 30 : 10, b: 36 },
      xaxis: { ...grid, showgrid: false, title: { text: chart.axis_title || AXES[axis], standoff: 6 } },
      yaxis: { ...grid, tickformat: chart.percent ? ".2~%" : undefined, nticks: 5, rangemode: chart.percent ? "tozero" : "normal", ...(chart.series.some((s) => s.stacked) ? { range: [0, 1] } : {}) },
      showlegend: legend, legend: { orientation: "h", traceorder: "normal", y: 1.02, yanchor: "bottom", x: 0 },
      hovermode: "x unified",
      hoverlabel: { bgcolor: token("--panel"), bordercolor: token("--line"), font: { color: token("--ink") } },
    }, { displayModeBar: false, responsive: true });
  }

  function buildCharts() {
    if (!data.charts.length) return;
    if (axisChoice) {
      document.getElementById("axis-controls").hidden = false;
      if (data.runs.length > 1) axisChoice.value = "calls";
    }
    for (const chart of data.charts) {
      const card = make("div", "chart");
      card.append(make("h3", "", chart.title), make("div", "unit", chart.unit));
      const node = make("div", "plot");
      node.setAttribute("role", "img");
      node.setAttribute("aria-label", `${chart.title}, ${chart.unit}: ${chart.series.map((s) => s.name).join(", ")}`);
      card.append(node);
      if (chart.note) card.append(make("div", "note", chart.note));
      document.getElementById(chart.holder).append(card);
      plots.set(node, chart);
    }
    const draw = (node) => { loadPlotly(); drawn.add(node); drawChart(plots.get(node), node); };
    /* One drawing a turn of the event loop, so that a click never waits for a dozen of them. */
    const waiting = [];
    const next = () => {
      const node = waiting.shift();
      if (node && !drawn.has(node)) draw(node);
      if (waiting.length) setTimeout(next, 0);
    };
    const watch = (rootMargin) => {
      const watcher = new IntersectionObserver((entries) => {
        for (const entry of entries.filter((item) => item.isIntersecting)) {
          watcher.unobserve(entry.target);
          if (waiting.push(entry.target) === 1) setTimeout(next, 0);
        }
      }, { rootMargin });
      plots.forEach((_, node) => { if (!drawn.has(node)) watcher.observe(node); });
      return watcher;
    };
    const visible = watch("0px");
    addEventListener("scroll", () => { visible.disconnect(); watch("300px"); }, { once: true, passive: true });
    const redraw = () => drawn.forEach((node) => drawChart(plots.get(node), node));
    addEventListener("beforeprint", () => plots.forEach((_, node) => { if (!drawn.has(node)) draw(node); }));
    axisChoice?.addEventListener("change", redraw);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    document.getElementById("theme").addEventListener("click", redraw);
  }

  buildCharts();
})();
