/* Rollouts by step and group; an open rollout shows its turns token by token. */
(() => {
  const { data, make, number, figure, signed, addSelect, everyOf, button, showPager, lazyCard, fillFrom, whenNear } = Page;
  const PAGE_SIZE = 20;
  const PROMPT_TOKENS_OPEN = 400;
  const list = document.getElementById("rollout-list");
  const controls = document.getElementById("rollout-filters");
  const state = { run: 0, entry: null, step: null, page: 0 };
  const selects = {};
  const command = (id) => `proverrl inspect ${data.rollouts.totals[state.run].run} ${state.entry.step}${id ? ` --rollout ${id}` : ""}`;

  /* One token: its text with white space visible, coloured by advantage, or grey when masked. */
  function tokenNode(token, largest) {
    const text = token.text === undefined || token.text === "" ? `‹${token.id}›` : token.text;
    const node = make("span", "t", text.replaceAll("\n", "⏎\n").replaceAll("\t", "⇥\t"));
    node.token = token;
    if (token.mask && token.advantage) {
      node.classList.add(token.advantage > 0 ? "pos" : "neg");
      node.style.setProperty("--a", `${Math.round(10 + 35 * Math.abs(token.advantage) / largest)}%`);
    } else if (!token.mask) {
      node.classList.add("masked");
    }
    return node;
  }

  function describe(token) {
    const parts = [`token ${token.place + 1} of ${number(token.of)}`, `id ${token.id}`];
    if (typeof token.logprob === "number") parts.push(`log-prob ${figure(token.logprob, 3)} (${figure(100 * Math.exp(token.logprob), 1)} %)`);
    if (typeof token.advantage === "number") parts.push(`advantage ${signed(token.advantage, 3)}`);
    parts.push(`mask ${token.mask}`);
    return parts.join(" · ");
  }

  /* Hover, tap, or the arrow keys inside the box choose the token that the readout tells about. */
  function tokenBox(label, tokens, readout, largest) {
    const box = make("div", "tokens");
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", `${label}. Arrow keys go from token to token.`);
    box.append(...tokens.map((token) => tokenNode(token, largest)));
    const choose = (node) => {
      if (!node) return;
      node.closest(".rollout").querySelectorAll(".t.now").forEach((other) => other.classList.remove("now"));
      node.classList.add("now");
      readout.replaceChildren(make("b", "", JSON.stringify(node.token.text ?? "")), " ", describe(node.token));
    };
    const at = (event) => choose(event.target.closest(".t"));
    box.addEventListener("pointerover", at);
    box.addEventListener("click", at);
    box.addEventListener("keydown", (event) => {
      const now = box.querySelector(".t.now");
      const steps = { ArrowRight: now?.nextElementSibling, ArrowLeft: now?.previousElementSibling, Home: box.firstElementChild, End: box.lastElementChild };
      if (!(event.key in steps)) return;
      event.preventDefault();
      const next = now || event.key === "Home" || event.key === "End" ? steps[event.key] : box.firstElementChild;
      choose(next);
      next?.scrollIntoView({ block: "nearest" });
    });
    return box;
  }

  function tokensOf(ids, values) {
    const texts = state.step.texts;
    return ids.map((id, place) => ({ id, place, of: ids.length, text: texts?.[id], ...values(place) }));
  }

  function contextPart(turn, index, readout) {
    const ids = state.step.contexts[turn.context];
    const name = turn.restarts ? "Prompt, with the oldest turns cut" : index === 0 ? "Prompt" : "Feedback";
    const cut = turn.context_cut ? `, the first ${number(turn.context_cut)} not shown` : "";
    const title = `${name}: ${number(ids.length + turn.context_cut)} tokens${cut}, masked from the loss`;
    const part = make("details", index === 0 ? "context prompt" : "context");
    part.append(make("summary", "", title));
    const fill = () => {
      if (part.children.length === 1) part.append(tokenBox(title, tokensOf(ids, () => ({ mask: 0 })), readout, 1));
    };
    part.addEventListener("toggle", () => { if (part.open) fill(); });
    if (ids.length <= PROMPT_TOKENS_OPEN) { part.open = true; fill(); }
    return part;
  }

  function completionPart(turn, readout, largest) {
    if (!turn.ids.length) {
      const part = make("div", "tokens", turn.text);
      part.append(make("p", "dim", "The policy’s server gave no token ids, so that nothing was learned from this turn."));
      return part;
    }
    const advantage = (place) => Array.isArray(turn.advantages) ? turn.advantages[place] : turn.advantages;
    const tokens = tokensOf(turn.ids, (place) => ({ logprob: turn.logprobs[place], advantage: advantage(place), mask: turn.learned ? 1 : 0 }));
    return tokenBox(`Completion, ${turn.ids.length} tokens`, tokens, readout, largest);
  }

  function turnParts(turn, index, turns, readout, largest) {
    const count = number(turn.ids.length + turn.cut);
    const title = `Turn ${index + 1} of ${turns.length}`;
    const facts = `${count} tokens · policy ${turn.version} · ${turn.finish ?? "–"}${turn.learned ? "" : " · in no group, so that nothing was learned"}`;
    const head = make("h5", "", title);
    head.append(" ", make("span", "dim", facts));
    const parts = [head];
    if (state.step.contexts[turn.context].length) parts.push(contextPart(turn, index, readout));
    parts.push(completionPart(turn, readout, largest));
    if (turn.cut) parts.push(make("p", "dim", `${number(turn.cut)} more tokens are not in this page.`));
    const verdict = make("div", "verdict");
    verdict.append(Listing.badge(turn.status), " ", turn.reason);
    turn.messages.forEach((text) => verdict.append(make("div", "msg error", text)));
    if (turn.feedback && !turns[index + 1]?.ids.length) verdict.append(make("div", "msg info", turn.feedback));
    parts.push(verdict);
    return parts;
  }

  const largestOf = (turns) => Math.max(1e-9, ...turns.flatMap((turn) => turn.advantages ?? []).map(Math.abs));

  function fillRollout(card, rollout, problem) {
    if (rollout.body === undefined) {
      const note = make("p", "dim", "Its text and tokens are not in this page, for its size. They are shown by ");
      note.append(make("code", "", command(rollout.id)));
      card.append(note);
      return;
    }
    const readout = make("div", "readout", "Point at a token, tap it, or use the arrow keys.");
    readout.setAttribute("aria-live", "polite");
    const largest = largestOf(rollout.turns);
    const body = make("div", "turns");
    rollout.turns.forEach((turn, index) => body.append(...turnParts(turn, index, rollout.turns, readout, largest)));
    body.append(readout);
    card.append(body);
    card.append(make("p", "dim", "The file that was judged last, with the verifier’s messages at their lines:"));
    card.append(Listing.build(problem, rollout));
  }

  function rolloutCard(rollout, problem) {
    const facts = [`reward ${figure(rollout.reward, 2)}`, `advantage ${typeof rollout.advantage === "number" ? signed(rollout.advantage, 3) : "–"}`];
    if (rollout.num_turns > 1) facts.push(`${rollout.num_turns} turns`);
    facts.push(`${typeof rollout.tokens === "number" ? number(rollout.tokens) : "–"} tokens`, `${figure(rollout.seconds, 2)} s`);
    const summary = [Listing.badge(rollout.status), make("span", "id", rollout.id), make("span", "tally", facts.join(" · "))];
    return lazyCard("card rollout", summary, (card) => fillRollout(card, rollout, problem));
  }

  function groupOutcome(rollouts) {
    if (rollouts.some((r) => r.advantage)) return "learned from";
    return rollouts.every((r) => r.advantage === null) ? "not in the update: no reward" : "nothing to learn: advantages are zero";
  }

  function groupCard(group) {
    const problem = state.step.problems[group.problem];
    const proved = group.rollouts.filter((r) => r.status === "proved").length;
    const rewards = group.rollouts.map((r) => r.reward).filter((r) => typeof r === "number");
    const mean = rewards.length ? figure(rewards.reduce((a, b) => a + b, 0) / rewards.length, 2) : "–";
    const summary = [
      make("span", "id", String(problem.id)),
      make("span", "dim", `level ${problem.level ?? "?"} · ${problem.family ?? ""}`),
      make("span", "tally", `${proved} of ${group.rollouts.length} proved · mean reward ${mean} · ${groupOutcome(group.rollouts)}`),
    ];
    return lazyCard("card group", summary, (card) => {
      const body = make("div", "members");
      body.append(...group.rollouts.map((rollout) => rolloutCard(rollout, problem)));
      card.append(body);
    });
  }

  function show() {
    const level = selects.level.value, status = selects.status.value;
    const learned = { yes: true, no: false }[selects.learned.value];
    const groups = state.step.groups.filter((group) =>
      (learned === undefined || group.rollouts.some((rollout) => rollout.advantage) === learned) &&
      (!level || String(state.step.problems[group.problem].level) === level) &&
      (!status || group.rollouts.some((rollout) => rollout.status === status)));
    const pages = Math.max(1, Math.ceil(groups.length / PAGE_SIZE));
    state.page = Math.min(state.page, pages - 1);
    list.replaceChildren(...groups.slice(state.page * PAGE_SIZE, (state.page + 1) * PAGE_SIZE).map(groupCard));
    if (!groups.length) list.append(make("p", "empty", "No group of this step has these properties."));
    showPager(document.getElementById("rollout-pager"), state.page, pages, `${number(groups.length)} groups`, (to) => { state.page = to; show(); });
  }

  const stepsOf = (run) => data.rollouts.steps.filter((entry) => entry.run === run);

  function openStep(entry) {
    state.entry = entry;
    state.page = 0;
    selects.step.value = String(entry.step);
    const steps = stepsOf(state.run);
    const place = steps.indexOf(entry);
    selects.earlier.disabled = place === 0;
    selects.later.disabled = place === steps.length - 1;
    const without = entry.rollouts - entry.detailed;
    document.getElementById("step-count").textContent =
      `Step ${entry.step}: ${number(entry.rollouts)} rollouts in ${number(entry.groups)} groups, ${number(entry.proved)} proved.` +
      (without ? ` For their size, ${number(without)} of them are listed without text and tokens; ${command("")} shows all.` : "");
    fillFrom(list, entry.piece, (step) => {
      if (state.entry !== entry) return;
      state.step = step;
      fillFilters(step);
      show();
    }, `In a terminal, ${command("")} shows the same.`);
  }

  /* The filters keep their choice from step to step where the new step has it too. */
  function fillFilters(step) {
    const values = {
      level: Object.values(step.problems).map((problem) => problem.level ?? "?"),
      status: step.groups.flatMap((group) => group.rollouts.map((rollout) => rollout.status)),
    };
    for (const [name, found] of Object.entries(values)) {
      const kept = selects[name].value;
      selects[name].replaceChildren(...everyOf(found).map(([value, text]) => new Option(text, value)));
      selects[name].value = found.map(String).includes(kept) ? kept : "";
    }
  }

  function openRun(run) {
    state.run = run;
    const steps = stepsOf(run);
    const total = data.rollouts.totals[run];
    const all = total.rollouts === null ? "" : ` (${number(total.rollouts)} rollouts)`;
    const more = total.steps > steps.length ? ` The newest, the oldest and a spread of the others; any step is shown by proverrl inspect ${total.run} STEP.` : "";
    document.getElementById("rollout-count").textContent =
      `${number(steps.length)} of ${number(total.steps)} steps${all} are in this page.${more} ${total.note}`;
    list.replaceChildren();
    document.getElementById("step-count").textContent = "";
    selects.step.replaceChildren(...steps.map((entry) => new Option(`${entry.step}: ${entry.proved} of ${entry.rollouts} proved`, String(entry.step))));
    if (steps.length) openStep(steps.at(-1));
  }

  function move(by) {
    const steps = stepsOf(state.run);
    const entry = steps[steps.indexOf(state.entry) + by];
    if (entry) openStep(entry);
  }

  if (!data.rollouts.steps.length) return;
  const withSteps = data.runs.map((name, run) => [String(run), name]).filter(([run]) => stepsOf(Number(run)).length);
  if (withSteps.length > 1) {
    selects.run = addSelect(controls, "rollout-run", "Run", withSteps, () => openRun(Number(selects.run.value)));
  }
  const again = () => { state.page = 0; show(); };
  selects.step = addSelect(controls, "rollout-step", "Step", [], () => openStep(stepsOf(state.run).find((entry) => String(entry.step) === selects.step.value)));
  selects.earlier = button("Earlier", true, () => move(-1));
  selects.later = button("Later", true, () => move(1));
  const steppers = make("span", "steppers");
  steppers.append(selects.earlier, " ", selects.later);
  controls.append(steppers);
  selects.level = addSelect(controls, "rollout-level", "Level", [["", "all"]], again);
  selects.status = addSelect(controls, "rollout-status", "Status", [["", "all"]], again);
  selects.learned = addSelect(controls, "rollout-learned", "Learned from", [["", "all"], ["yes", "yes"], ["no", "no"]], again);
  controls.hidden = false;
  whenNear(document.getElementById("rollouts"), () => openRun(Number(withSteps[0][0])));
})();
