/* The picture of an archive: a click on a circle shows the problem below and draws its relatives'
   lines. Flows in: SVG whose circles carry data-id, and a packed piece with the problems by id. */
(() => {
  const { make, fillFrom, button, figure } = Page;
  const SVG = "http://www.w3.org/2000/svg";

  function facts(name, problem) {
    const parts = [problem.operator === "base" ? "a base problem" : `${problem.operator}, round ${problem.round}`];
    if (problem.negation_of) parts.push(`proved as the negation of ${problem.negation_of}`);
    if (problem.stopped_by) parts.push(`stopped by ${problem.stopped_by}: ${problem.reason ?? ""}`);
    if (problem.solve_rate !== undefined) parts.push(`p ${figure(problem.solve_rate, 2)}`);
    if (problem.modified) parts.push(`statement changed by ${figure(100 * problem.modified, 0)} % of the attempts`);
    if (problem.reward !== undefined) parts.push(`reward ${figure(problem.reward, 3)}`);
    return parts.join("; ");
  }

  function start(holder) {
    const shown = holder.nextElementSibling;
    const svg = holder.querySelector("svg");
    const circles = new Map([...svg.querySelectorAll("circle[data-id]")].map((c) => [c.dataset.id, c]));
    const lines = document.createElementNS(SVG, "path");
    lines.setAttribute("class", "kin");
    svg.append(lines);

    function show(name, problems) {
      const parents = problems[name].parents ?? [];
      const children = Object.keys(problems).filter((id) => problems[id].parents?.includes(name));
      const ends = (id) => `${circles.get(id).getAttribute("cx")} ${circles.get(id).getAttribute("cy")}`;
      const draw = (id, seen) => (problems[id].parents ?? []).map((parent) => {
        if (seen.has(id + " " + parent) || !circles.has(parent)) return "";
        seen.add(id + " " + parent);
        return `M${ends(parent)}L${ends(id)}` + draw(parent, seen);
      }).join("");
      lines.setAttribute("d", draw(name, new Set()) + children.map((child) => `M${ends(name)}L${ends(child)}`).join(""));
      circles.forEach((circle, id) => circle.classList.toggle("chosen", id === name));

      const card = make("div", "card");
      const head = make("p");
      head.append(make("span", "id", name), " ", make("span", "dim", facts(name, problems[name])));
      card.append(head);
      for (const [label, relatives] of [["Made of", parents], ["Parent of", children]]) {
        if (!relatives.length) continue;
        const line = make("p", "relatives", label);
        line.append(...relatives.map((id) => button(id, id in problems, () => show(id, problems))));
        card.append(line);
      }
      const problem = problems[name];
      if (problem.statement === undefined) card.append(make("p", "dim", "Its text is not in the run folder, and the training file was not found."));
      else card.append(Listing.build(problem, { body: "/*{HOLE}*/", cut: problem.cut ?? 0, messages: [] }));
      shown.replaceChildren(card);
    }

    svg.addEventListener("click", (event) => {
      const name = event.target.closest("circle[data-id]")?.dataset.id;
      if (name !== undefined) fillFrom(shown, holder.dataset.piece, (problems) => show(name, problems));
    });
  }

  document.querySelectorAll(".lineage").forEach(start);
})();
