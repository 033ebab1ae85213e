"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const PAGE_SIZE = 20;
  const HOLE = "/*{HOLE}*/";
  const COLORS = {
    runs: { light: ["#2458c5", "#c2560c", "#1a7f5a", "#8b3fb0"], dark: ["#8ab0ff", "#ffab6b", "#6fd3ab", "#d59cf0"] },
    groups: { light: ["#2f8f57", "#2458c5", "#b9bec6"], dark: ["#5cc98a", "#8ab0ff", "#59626e"] },
    levels: { light: ["#17733a", "#2458c5", "#8b3fb0", "#c2560c", "#b3261e", "#5b6470"], dark: ["#7fd69b", "#8ab0ff", "#d59cf0", "#ffab6b", "#ff9c93", "#9aa4b1"] },
  };

  const make = (tag, css, text) => {
    const node = document.createElement(tag);
    if (css) node.className = css;
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const isDark = () => root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const token = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  /* Stored choices are a comfort: a page opened from a file may have no storage. */
  const recall = () => { try { return localStorage.getItem("proverrl-theme"); } catch { return null; } };
  const remember = (value) => { try { localStorage.setItem("proverrl-theme", value); } catch { return; } };

  /* Curves */
  const axisChoice = document.getElementById("axis");
  const AXES = { step: "step", calls: "verifier calls", minutes: "minutes" };
  const plots = [];

  function drawChart({ chart, node }) {
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
      plots.push({ chart, node });
    }
    const redraw = () => plots.forEach(drawChart);
    redraw();
    axisChoice.addEventListener("change", redraw);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    document.getElementById("theme").addEventListener("click", redraw);
  }

  /* Rollouts */
  const filters = {};
  let page = 0;

  function addFilter(name, label, values) {
    if (values.length < 2) return;
    const holder = make("label", "", label + " ");
    const select = make("select");
    select.append(new Option("all", ""));
    for (const [value, text] of values) select.append(new Option(text, value));
    select.id = "filter-" + name;
    select.addEventListener("change", () => { filters[name] = select.value; page = 0; showRollouts(); });
    holder.append(select);
    document.getElementById("filters").append(holder);
  }
  const distinct = (values) => [...new Set(values.map(String))]
    .sort((a, b) => a.localeCompare(b, "en", { numeric: true })).map((v) => [v, v]);
  const levelOf = (row) => String(data.problems[row.problem].level ?? "?");
  const figure = (value, digits) => typeof value === "number" ? value.toFixed(digits).replace("-", "−") : "–";

  function matching() {
    return data.rollouts.filter((row) =>
      (!filters.run || String(row.run) === filters.run) &&
      (!filters.step || String(row.step) === filters.step) &&
      (!filters.level || levelOf(row) === filters.level) &&
      (!filters.status || row.status === filters.status));
  }

  function message(item) {
    const severity = ["error", "warning", "info"].includes(item.severity) ? item.severity : "info";
    const node = make("div", "msg " + severity);
    const where = item.line ? `line ${item.line}, column ${item.column ?? 0}` : "whole file";
    node.append(make("span", "sev", severity), " ", String(item.message ?? ""), " ", make("span", "at", where));
    return node;
  }

  function listing(row) {
    const problem = data.problems[row.problem];
    const parts = String(problem.statement ?? HOLE).split(HOLE);
    const head = String(problem.preamble ?? "") + parts[0];
    const body = row.is_body ? row.body : "";
    const lines = (head + body + (parts[1] ?? "")).split("\n");
    if (lines.length > 1 && lines.at(-1) === "") lines.pop();
    const node = make("div", "code");
    const outside = row.messages.filter((m) => !(m.line >= 1 && m.line <= lines.length));
    outside.forEach((m) => node.append(message(m)));
    if (!row.is_body) node.append(message({ severity: "info", message: "No body could be read from this completion:\n" + row.body }));
    if (row.cut) node.append(message({ severity: "info", message: `${row.cut} more characters are not shown.` }));
    let offset = 0;
    lines.forEach((line, index) => {
      const from = Math.min(Math.max(head.length - offset, 0), line.length);
      const to = Math.min(Math.max(head.length + body.length - offset, 0), line.length);
      const blank = line === "" && offset > head.length && offset < head.length + body.length;
      const holder = make("div", to > from || blank ? "ln body" : "ln");
      const code = make("code");
      code.append(line.slice(0, from));
      if (to > from) code.append(make("mark", "", line.slice(from, to)));
      code.append(line.slice(to) || (line ? "" : " "));
      holder.append(make("span", "no", String(index + 1)), code);
      node.append(holder);
      row.messages.filter((m) => m.line === index + 1).forEach((m) => node.append(message(m)));
      offset += line.length + 1;
    });
    return node;
  }

  const STATUSES = ["proved", "rejected", "incomplete", "unsound", "exhausted", "timeout", "crashed"];
  function rolloutCard(row) {
    const problem = data.problems[row.problem];
    const card = make("details", "card");
    const summary = make("summary");
    summary.append(
      make("span", "badge " + (STATUSES.includes(row.status) ? row.status : "unknown"), row.status),
      make("span", "id", String(problem.id)),
      make("span", "dim", `level ${levelOf(row)} · ${problem.family ?? ""}`),
      make("span", "tally", `${data.runs.length > 1 ? data.runs[row.run] + " · " : ""}step ${row.step} · reward ${figure(row.reward, 2)} · advantage ${figure(row.advantage, 3)} · ${row.tokens ?? "–"} tokens · ${figure(row.seconds, 2)} s`),
    );
    card.append(summary);
    card.addEventListener("toggle", () => { if (card.open && card.children.length === 1) card.append(listing(row)); });
    return card;
  }

  function showRollouts() {
    const rows = matching();
    const pages = Math.max(1, Math.ceil(rows.length / PAGE_SIZE));
    page = Math.min(page, pages - 1);
    const list = document.getElementById("rollout-list");
    list.replaceChildren(...rows.slice(page * PAGE_SIZE, (page + 1) * PAGE_SIZE).map(rolloutCard));
    if (!rows.length) list.append(make("p", "empty", "No rollout shown here has these properties."));
    const pager = document.getElementById("pager");
    pager.hidden = pages < 2;
    const button = (text, to, on) => {
      const node = make("button", "", text);
      node.type = "button";
      node.disabled = !on;
      node.addEventListener("click", () => { page = to; showRollouts(); });
      return node;
    };
    pager.replaceChildren(button("Previous", page - 1, page > 0),
      make("span", "", `${page + 1} of ${pages} pages, ${rows.length} rollouts`), button("Next", page + 1, page < pages - 1));
  }

  function buildRollouts() {
    const count = document.getElementById("rollout-count");
    if (!data.rollouts.length) {
      count.remove();
      document.getElementById("rollout-list").append(make("p", "empty", "No rollout has been written yet."));
      return;
    }
    const number = (n) => n.toLocaleString("en");
    count.textContent = data.rollout_counts.map((c, i) =>
      (data.runs.length > 1 ? data.runs[i] + ": " : "") + `${number(c.shown)} of ${number(c.total)} rollouts are shown, newest steps first`).join("; ") + ".";
    document.getElementById("filters").hidden = false;
    addFilter("run", "Run", data.runs.map((name, index) => [String(index), name]));
    addFilter("step", "Step", distinct(data.rollouts.map((row) => row.step)));
    addFilter("level", "Level", distinct(data.rollouts.map(levelOf)));
    addFilter("status", "Status", distinct(data.rollouts.map((row) => row.status)));
    showRollouts();
  }

  const stored = recall();
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remember(root.dataset.theme);
  });
  buildCharts();
  buildRollouts();
})();
