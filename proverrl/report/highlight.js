/* Words of Dafny and Lean as coloured spans. Flows in: an element that holds lines of code, each in
   a code element. Flows out: the same text, its tokens wrapped. Colours only: nothing is judged here. */
const Highlight = (() => {
  const words = (text) => new Set(text.split(" "));
  const KEYWORDS = {
    dafny: words("abstract assert assume axiom break by calc case class codatatype colemma const constructor copredicate datatype decreases else ensures exists expect export extends false forall fresh function ghost if import in include inductive invariant is iterator label lemma map match method modifies modify module multiset new null old opened predicate print provides reads refines requires return returns reveal reveals seq set static then this trait true twostate type unchanged var where while witness yield yields"),
    lean: words("abbrev alias at attribute axiom by calc case cases class constructor def deriving do else end example exact export extends forall fun generalizing have if import in inductive infix instance intro intros lemma let local macro match mutual namespace noncomputable notation obtain omit opaque open private protected rcases refine return rfl rintro rw section set_option show simp simp_all simpa structure suffices syntax tactic termination_by then theorem universe unless using variable where with decide omega linarith nlinarith norm_num ring ring_nf positivity aesop induction apply at this field_simp push_cast constructor exists use left right exfalso contradiction sorry"),
  };
  const TYPES = words("int nat bool real char string array object iset imap ORDINAL Nat Int Bool Prop Type Sort List Option String Array Fin Set Finset True False Real ℕ ℤ ℚ ℝ");
  const TOKENS = {
    dafny: /(\/\*[\s\S]*?(?:\*\/|$)|\/\/[^\n]*)|("(?:[^"\\\n]|\\.)*"?)|(\b\d[\d_]*(?:\.\d+)?\b|\b0x[\da-fA-F_]+\b)|([A-Za-z_][\w'?]*)/g,
    lean: /(\/-[\s\S]*?(?:-\/|$)|--[^\n]*)|("(?:[^"\\\n]|\\.)*"?)|(\b\d[\d_]*(?:\.\d+)?\b)|([A-Za-z_ℕℤℚℝ][\w'!?₀-₉]*)/g,
  };
  const guess = (text) => /:=\s*by\b|^\s*(theorem|import Mathlib|example)\b/m.test(text) ? "lean" : "dafny";

  /* [start, end, class] of every token that has a colour. */
  function tokens(text, language) {
    const kind = TOKENS[language] ? language : guess(text);
    const found = [];
    for (const match of text.matchAll(TOKENS[kind])) {
      const word = match[4];
      const css = match[1] !== undefined ? "hl-c" : match[2] !== undefined ? "hl-s" : match[3] !== undefined ? "hl-n"
        : KEYWORDS[kind].has(word) ? "hl-k" : TYPES.has(word) ? "hl-t" : "";
      if (css) found.push([match.index, match.index + match[0].length, css]);
    }
    return found;
  }

  /* Wraps the tokens of all code elements inside, as if a newline stood between them. */
  function decorate(holder, language) {
    if (holder.dataset.coloured) return;
    holder.dataset.coloured = "yes";
    const lines = [...holder.querySelectorAll(".ln code")];
    const found = tokens(lines.map((line) => line.textContent).join("\n"), language);
    let offset = 0, next = 0;
    for (const line of lines) {
      const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
      const texts = [];
      while (walker.nextNode()) texts.push(walker.currentNode);
      for (const node of texts) {
        const text = node.data, end = offset + text.length, parts = [];
        let done = offset;
        while (next < found.length && found[next][1] <= offset) next += 1;
        for (let place = next; place < found.length && found[place][0] < end; place += 1) {
          const from = Math.max(found[place][0], offset), to = Math.min(found[place][1], end);
          if (to <= from) continue;
          if (from > done) parts.push(text.slice(done - offset, from - offset));
          const span = document.createElement("span");
          span.className = found[place][2];
          span.textContent = text.slice(from - offset, to - offset);
          parts.push(span);
          done = to;
        }
        if (parts.length) node.replaceWith(...parts, text.slice(done - offset));
        offset = end;
      }
      offset += 1;
    }
  }

  return { decorate, tokens };
})();
