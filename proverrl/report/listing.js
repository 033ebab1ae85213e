/* A problem with a proposed body, numbered, the verifier's messages under the lines they point at. */
const Listing = (() => {
  const { make } = Page;
  const HOLE = "/*{HOLE}*/";
  const STATUSES = ["proved", "rejected", "incomplete", "unconfirmed", "unsound", "exhausted", "timeout", "crashed"];

  const badge = (status) => make("span", "badge " + (STATUSES.includes(status) ? status : "unknown"), status);

  function message(item) {
    const severity = ["error", "warning", "info"].includes(item.severity) ? item.severity : "info";
    const node = make("div", "msg " + severity);
    const where = item.line ? `line ${item.line}, column ${item.column ?? 0}` : "whole file";
    node.append(make("span", "sev", severity), " ", String(item.message ?? ""), " ", make("span", "at", where));
    return node;
  }
  const note = (text) => {
    const node = make("div", "msg info");
    node.textContent = text;
    return node;
  };

  /* attempt: { body, cut, is_body, messages }; is_body left out means that it is one. */
  function build(problem, attempt) {
    const parts = String(problem.statement ?? HOLE).split(HOLE);
    const head = String(problem.preamble ?? "") + parts[0];
    const isBody = attempt.is_body !== false;
    const body = isBody ? attempt.body : "";
    const lines = (head + body + (parts[1] ?? "")).split("\n");
    if (lines.length > 1 && lines.at(-1) === "") lines.pop();
    const node = make("div", "code");
    node.tabIndex = 0;
    const outside = attempt.messages.filter((m) => !(m.line >= 1 && m.line <= lines.length));
    outside.forEach((m) => node.append(message(m)));
    if (!isBody) node.append(note("No body could be read from this completion:\n" + attempt.body));
    if (attempt.cut) node.append(note(`${attempt.cut} more characters are not shown.`));
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
      attempt.messages.filter((m) => m.line === index + 1).forEach((m) => node.append(message(m)));
      offset += line.length + 1;
    });
    Highlight.decorate(node, problem.language);
    return node;
  }

  return { badge, build };
})();
