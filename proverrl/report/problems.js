/* The problems of the latest evaluation: filter, sort, open one to see proofs and failures. */
(() => {
  const { data, make, number, addSelect, everyOf, showPager, lazyCard, fillFrom } = Page;
  const PAGE_SIZE = 20;
  const list = document.getElementById("problem-list");
  const count = document.getElementById("problem-count");
  const controls = document.getElementById("problem-filters");
  const OUTCOMES = { solved: (p) => p.solved > 0, unsolved: (p) => p.judged > 0 && p.solved === 0, unjudged: (p) => p.judged < p.attempts };
  const rate = (p, unknown) => p.judged ? p.solved / p.judged : unknown;
  /* A problem without a judged attempt comes last in either order. */
  const ORDERS = {
    file: (a, b) => a.place - b.place,
    hardest: (a, b) => rate(a, 2) - rate(b, 2) || a.place - b.place,
    easiest: (a, b) => rate(b, -1) - rate(a, -1) || a.place - b.place,
  };
  let rows = [], entry = null, page = 0, chosen = {};

  function exampleCard(problem, example) {
    const times = example.count > 1 ? `${number(example.count)} attempts failed with this first message; shown: ` : "";
    const head = make("p", "example");
    head.append(Listing.badge(example.status), " ", `${times}attempt ${example.attempt ?? "–"}`);
    return [head, Listing.build(problem, example)];
  }

  function problemCard(row) {
    const lost = row.attempts - row.judged;
    const tally = `${number(row.solved)} of ${number(row.judged)} attempts proved` + (lost ? `, ${number(lost)} unjudged` : "");
    const summary = [make("span", "id", row.id), make("span", "dim", `level ${row.level} · ${row.family}`), make("span", "tally", tally)];
    return lazyCard("card", summary, (card) => {
      if (row.place >= entry.detailed) {
        card.append(make("p", "example", `Its attempts are not in this page, for its size; they are in ${entry.file}.`));
        return;
      }
      const body = make("div");
      card.append(body);
      const piece = `${entry.piece}-${Math.floor(row.place / entry.per_piece)}`;
      fillFrom(body, piece, (problems) => {
        const problem = problems[row.place % entry.per_piece];
        const statuses = Object.entries(problem.statuses).map(([name, n]) => `${number(n)} ${name}`).join(", ");
        body.append(make("p", "example", `${statuses}. Shown: the shortest proofs and the most frequent failures.`));
        if (problem.statement === null) body.append(make("p", "example", "The problem’s text was not found; bodies alone."));
        problem.examples.forEach((example) => body.append(...exampleCard(problem, example)));
        if (!problem.examples.length) body.append(make("p", "example", "None of its attempts was judged."));
      });
    });
  }

  function show() {
    const test = OUTCOMES[chosen.outcome?.value] ?? (() => true);
    const level = chosen.level?.value ?? "";
    const found = rows.filter((p) => test(p) && (!level || p.level === level)).sort(ORDERS[chosen.order.value]);
    const pages = Math.max(1, Math.ceil(found.length / PAGE_SIZE));
    page = Math.min(page, pages - 1);
    list.replaceChildren(...found.slice(page * PAGE_SIZE, (page + 1) * PAGE_SIZE).map(problemCard));
    if (!found.length) list.append(make("p", "empty", "No problem has these properties."));
    showPager(document.getElementById("problem-pager"), page, pages, `${number(found.length)} problems`, (to) => { page = to; show(); });
  }

  function open(next) {
    entry = next;
    page = 0;
    const left = entry.problems - entry.listed;
    const attempts = `From the evaluation “${entry.name}”: ${number(entry.problems)} problems, ${number(entry.attempts)} attempts.`;
    const limits = [
      left ? ` The first ${number(entry.listed)} are listed.` : "",
      entry.detailed < entry.listed ? ` Proofs and failures of the first ${number(entry.detailed)} are in this page; the others are in ${entry.file}.` : "",
    ];
    count.textContent = attempts + limits.join("");
    fillFrom(list, entry.piece, (index) => {
      rows = index.ids.map((id, place) => ({
        id, place, level: index.levels[place], family: index.families[place],
        attempts: index.attempts[place], judged: index.judged[place], solved: index.solved[place],
      }));
      const again = () => { page = 0; show(); };
      controls.querySelectorAll(".of-evaluation").forEach((node) => node.remove());
      chosen = {
        level: addSelect(controls, "problem-level", "Level", everyOf(index.levels), again),
        outcome: addSelect(controls, "problem-outcome", "Outcome", [["", "all"], ["solved", "solved"], ["unsolved", "unsolved"], ["unjudged", "with unjudged attempts"]], again),
        order: addSelect(controls, "problem-order", "Order", [["file", "as in the benchmark"], ["hardest", "hardest first"], ["easiest", "easiest first"]], again),
      };
      Object.values(chosen).forEach((select) => select.parentNode.classList.add("of-evaluation"));
      controls.hidden = false;
      show();
    });
  }

  if (!data.problems.length) {
    count.remove();
    list.append(make("p", "empty", "No evaluation has kept its attempts yet."));
    return;
  }
  if (data.problems.length > 1) {
    const options = data.problems.map((item, place) => [String(place), data.runs[item.run]]);
    const select = addSelect(controls, "problem-run", "Run", options, () => open(data.problems[Number(select.value)]));
  }
  open(data.problems[0]);
})();
