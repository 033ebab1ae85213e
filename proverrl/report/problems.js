/* The problems of each benchmark: filter, sort, open one to see the attempts of every evaluation.
   #problem=ID opens one; the matrix above chooses who solved and who did not. */
(() => {
  const { data, make, number, addSelect, everyOf, button, showPager, lazyCard, fillFrom, unpack, whenNear } = Page;
  const PAGE_SIZE = 20;
  const LINK = "#problem=";
  const MARKS = { p: "proved", r: "rejected", i: "incomplete", n: "unconfirmed", u: "unsound", e: "exhausted", t: "timeout", c: "crashed" };
  const byId = (id) => document.getElementById(id);
  const list = byId("problem-list"), controls = byId("problem-filters"), section = byId("problems");
  let entry = null, opening = null, rows = [], page = 0, pair = null, chosen = {}, pill = null;

  const several = () => entry.columns.length > 1;
  const total = (values) => values.reduce((a, b) => a + b, 0);
  const rateOf = (solved, judged) => judged ? solved / judged : null;
  const rateIn = (row, place) => rateOf(row.solved[place], row.judged[place]);
  const rate = (row) => rateOf(total(row.solved), total(row.judged));
  const spread = (row) => { const all = row.solved.map((_, place) => rateIn(row, place)).filter((r) => r !== null); return all.length ? Math.max(...all) - Math.min(...all) : null; };
  /* A problem without a judged attempt comes last in either order. */
  const by = (value, sign) => (a, b) => {
    const one = value(a), other = value(b);
    if (one === null || other === null) return (one === null) - (other === null) || a.place - b.place;
    return sign * (one - other) || a.place - b.place;
  };
  function orders() {
    const found = [["file", "as in the benchmark", (a, b) => a.place - b.place],
      ["hardest", "hardest first", by(rate, 1)], ["easiest", "easiest first", by(rate, -1)],
      ["id", "by name", (a, b) => a.id.localeCompare(b.id, "en", { numeric: true })]];
    if (!several()) return found;
    found.push(["spread", "largest difference first", by(spread, -1)]);
    entry.columns.forEach((column, place) => found.push(
      [`down-${place}`, `${column.title}: best first`, by((row) => rateIn(row, place), -1)],
      [`up-${place}`, `${column.title}: worst first`, by((row) => rateIn(row, place), 1)]));
    return found;
  }
  function outcomes() {
    const found = [["", "all", () => true],
      ["solved", several() ? "solved by some" : "solved", (r) => r.solved.some((n) => n > 0)],
      ["unsolved", several() ? "solved by none" : "unsolved", (r) => total(r.judged) > 0 && !total(r.solved)],
      ["unjudged", "with unjudged attempts", (r) => total(r.judged) < total(r.attempts)]];
    if (several()) {
      found.splice(2, 0, ["every", "solved by all", (r) => r.solved.every((n) => n > 0)], ["split", "solved by some, not by all", (r) => total(r.solved) > 0 && r.solved.some((n, i) => !n && r.judged[i])]);
      entry.columns.forEach((column, place) => found.push([`only-${place}`, `solved by ${column.title} alone`, (r) => r.solved.every((n, i) => (n > 0) === (i === place))]));
    }
    return found;
  }
  const inPair = (row) => {
    if (!pair) return true;
    const [one, other] = pair;
    return row.solved[one] > 0 && (one === other || (row.judged[other] > 0 && !row.solved[other]));
  };

  function exampleParts(problem, example) {
    const how = example.messages.length ? "with this first message" : "without a message";
    const times = example.count > 1 ? `${number(example.count)} attempts failed ${how}; shown: ` : "";
    const head = make("p", "example");
    head.append(Listing.badge(example.status), " ", `${times}attempt ${example.attempt ?? "–"}`);
    return [head, Listing.build(problem, example)];
  }

  function columnParts(problem, place, attempts) {
    const column = problem.columns[place];
    const head = make("h4", "attempts-of", entry.columns[place].title);
    if (!column) return [head, make("p", "example", "Not attempted.")];
    const statuses = Object.entries(column.statuses).map(([name, n]) => `${number(n)} ${name}`).join(", ");
    const marks = make("div", "marks");
    marks.setAttribute("role", "img");
    marks.setAttribute("aria-label", `attempts in order: ${statuses}`);
    [...column.marks].forEach((letter, place) => {
      const status = MARKS[letter] ?? "unknown";
      const mark = make("i", status);
      mark.title = `attempt ${place + 1}: ${status}`;
      marks.append(mark);
    });
    const more = attempts > column.marks.length ? `; the first ${number(column.marks.length)} are drawn` : "";
    const parts = [head, make("p", "example", `${statuses}${more}.`), marks];
    column.examples.forEach((example) => parts.push(...exampleParts(problem, example)));
    if (!column.examples.length) parts.push(make("p", "example", "None of its attempts was judged."));
    return parts;
  }

  function linkTo(row) { return location.href.split("#")[0] + LINK + encodeURIComponent(row.id); }
  function copyButton(row) {
    const node = button("Copy link", true, async () => {
      history.replaceState(null, "", LINK + encodeURIComponent(row.id));
      try {
        await navigator.clipboard.writeText(linkTo(row));
        node.textContent = "Copied";
      } catch {
        node.textContent = "It is in the address bar";
      }
    });
    node.className = "copy";
    return node;
  }

  function fillProblem(card, row) {
    card.append(copyButton(row));
    if (row.place >= entry.detailed) {
      card.append(make("p", "example", `Its attempts are not in this page, for its size; they are in ${entry.columns.map((c) => c.file).join(", ")}.`));
      return;
    }
    const body = make("div");
    card.append(body);
    const own = entry;
    fillFrom(body, `${own.piece}-${Math.floor(row.place / own.per_piece)}`, (problems) => {
      const problem = problems[row.place % own.per_piece];
      body.append(make("p", "example", "Shown: the shortest proofs and the most frequent failures."));
      if (problem.statement === null) body.append(make("p", "example", "The problem’s text was not found; bodies alone."));
      own.columns.forEach((_, place) => body.append(...columnParts(problem, place, row.attempts[place])));
    });
  }

  function rateChip(row, place) {
    const lost = row.attempts[place] - row.judged[place];
    const chip = make("span", row.judged[place] ? "rate" : "rate none");
    const name = several() ? `${entry.columns[place].title} ` : "";
    chip.append(make("span", "dim", name), `${number(row.solved[place])}/${number(row.judged[place])}`);
    if (!several()) chip.append(make("span", "dim", " proved"));
    if (lost) chip.append(make("span", "dim", `, ${number(lost)} unjudged`));
    chip.style.setProperty("--r", `${Math.round(45 * (rateIn(row, place) ?? 0))}%`);
    return chip;
  }

  function problemCard(row) {
    const rates = make("span", "rates");
    rates.append(...entry.columns.map((_, place) => rateChip(row, place)));
    const summary = [make("span", "id", row.id), make("span", "dim", `level ${row.level} · ${row.family}`), rates];
    const card = lazyCard("card", summary, () => fillProblem(card, row));
    card.dataset.problem = row.id;
    return card;
  }

  function found() {
    const test = outcomes().find(([value]) => value === chosen.outcome.value)[2];
    const order = orders().find(([value]) => value === chosen.order.value)[2];
    const level = chosen.level.value, text = chosen.search.value.trim().toLowerCase();
    return rows.filter((row) => test(row) && inPair(row) && (!level || row.level === level) &&
      (!text || `${row.id} ${row.family}`.toLowerCase().includes(text))).sort(order);
  }

  function show() {
    const shown = found();
    const pages = Math.max(1, Math.ceil(shown.length / PAGE_SIZE));
    page = Math.min(page, pages - 1);
    list.replaceChildren(...shown.slice(page * PAGE_SIZE, (page + 1) * PAGE_SIZE).map(problemCard));
    if (!shown.length) list.append(make("p", "empty", "No problem has these properties."));
    const lost = total(shown.map((row) => total(row.attempts) - total(row.judged)));
    byId("problem-found").textContent = `${number(shown.length)} of ${number(rows.length)} problems` + (lost ? `; ${number(lost)} of their attempts are unjudged and in no rate` : "") + ".";
    showPager(byId("problem-pager"), page, pages, `${number(shown.length)} problems`, (to) => { page = to; show(); });
  }

  function setPair(next) {
    pair = next;
    document.querySelectorAll(".count").forEach((node) => node.setAttribute("aria-pressed",
      String(Boolean(pair) && data.problems.indexOf(entry) === Number(node.dataset.shelf) && node.dataset.pair === pair.join(" "))));
    pill.hidden = !pair;
    if (pair) {
      const [one, other] = pair.map((place) => entry.columns[place].title);
      pill.textContent = (pair[0] === pair[1] ? `solved by ${one}` : `solved by ${one}, not by ${other}`) + "  ✕";
    }
    page = 0;
    show();
  }

  function buildControls(levels) {
    const again = () => { page = 0; show(); };
    controls.querySelectorAll(".of-shelf").forEach((node) => node.remove());
    const box = make("label", "", "Search ");
    const search = make("input");
    search.type = "search";
    search.id = "problem-search";
    search.placeholder = "name or family";
    search.addEventListener("input", again);
    box.append(search);
    controls.append(box);
    const options = (items) => items.map(([value, text]) => [value, text]);
    chosen = {
      search,
      level: addSelect(controls, "problem-level", "Level", everyOf(levels), again),
      outcome: addSelect(controls, "problem-outcome", "Outcome", options(outcomes()), again),
      order: addSelect(controls, "problem-order", "Order", options(orders()), again),
    };
    pill = button("", true, () => setPair(null));
    pill.className = "pill";
    pill.hidden = true;
    pill.setAttribute("aria-label", "Stop showing only these");
    Object.values(chosen).forEach((node) => node.parentNode.classList.add("of-shelf"));
    const holder = make("span", "of-shelf");
    holder.append(pill);
    controls.append(holder);
    controls.hidden = false;
  }

  /* Opens a benchmark's list; the promise is kept when it stands there. */
  function open(next) {
    if (entry === next && opening) return opening;
    entry = next;
    page = 0;
    const select = byId("problem-shelf");
    if (select) select.value = String(data.problems.indexOf(entry));
    const left = entry.problems - entry.listed;
    const attempts = entry.columns.map((column) => `${number(column.attempts)} ${several() ? `of “${column.title}”` : "attempts"}`).join(", ");
    byId("problem-count").textContent = `${number(entry.problems)} problems of ${entry.benchmark}, ${several() ? "attempts: " : ""}${attempts}.` +
      (left ? ` The first ${number(entry.listed)} are listed.` : "") +
      (entry.detailed < entry.listed ? ` Proofs and failures of the first ${number(entry.detailed)} are in this page; the others are in ${entry.columns.map((c) => c.file).join(", ")}.` : "");
    opening = fillFrom(list, entry.piece, (index) => {
      const at = (columns, place) => columns.map((column) => column[place]);
      rows = index.ids.map((id, place) => ({
        id, place, level: index.levels[place], family: index.families[place],
        attempts: at(index.attempts, place), judged: at(index.judged, place), solved: at(index.solved, place),
      }));
      pair = null;
      buildControls(index.levels);
      show();
    });
    return opening;
  }

  async function follow() {
    if (!location.hash.startsWith(LINK)) return;
    const id = decodeURIComponent(location.hash.slice(LINK.length));
    for (const shelf of [entry ?? data.problems[0], ...data.problems]) {
      const index = await unpack(shelf.piece).catch(() => null);
      if (!index?.ids.includes(id)) continue;
      await open(shelf);
      [chosen.search.value, chosen.level.value, chosen.outcome.value] = ["", "", ""];
      setPair(null);
      page = Math.floor(found().findIndex((row) => row.id === id) / PAGE_SIZE);
      show();
      const card = [...list.children].find((node) => node.dataset.problem === id);
      card.open = true;
      card.scrollIntoView();
      card.querySelector("summary").focus({ preventScroll: true });
      return;
    }
    section.scrollIntoView();
    list.prepend(make("p", "warn", `This page lists no problem ${id}.`));
  }

  if (!data.problems.length) return;
  if (data.problems.length > 1) {
    const options = data.problems.map((item, place) => [String(place), item.benchmark]);
    const select = addSelect(controls, "problem-shelf", "Benchmark", options, () => open(data.problems[Number(select.value)]));
  }
  document.querySelectorAll(".count").forEach((node) => node.addEventListener("click", async () => {
    await open(data.problems[Number(node.dataset.shelf)]);
    const next = node.dataset.pair.split(" ").map(Number);
    setPair(node.getAttribute("aria-pressed") === "true" ? null : next);
    controls.scrollIntoView({ block: "start" });
  }));
  addEventListener("hashchange", follow);
  whenNear(list, () => { if (!entry) open(data.problems[0]); });
  follow();
})();
