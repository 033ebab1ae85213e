"use strict";
/* Shared by the sections: the data, elements, the theme, packed pieces, filters and pagers. */
const Page = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;

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
  const stored = recall();
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remember(root.dataset.theme);
  });

  const number = (n) => n.toLocaleString("en");
  const figure = (value, digits) => typeof value === "number" ? value.toFixed(digits).replace("-", "−") : "–";
  const signed = (value, digits) => (value > 0 ? "+" : "") + figure(value, digits);

  /* Packed pieces: gzip in base64. Each is unpacked once. */
  const unpacked = new Map();
  async function decompress(name) {
    if (!("DecompressionStream" in window)) {
      throw new Error("This browser cannot unpack the data of this section: it lacks DecompressionStream, which Chrome 80, Firefox 113, Safari 16.4 and later have. Open the page in one of them.");
    }
    const bytes = Uint8Array.from(atob(document.getElementById(name).textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }
  function unpack(name) {
    if (!unpacked.has(name)) unpacked.set(name, decompress(name));
    return unpacked.get(name);
  }
  /* Fills a node with what a piece gives, or with the reason why it gives nothing. */
  async function fillFrom(node, name, fill, remedy = "") {
    let value;
    try {
      value = await unpack(name);
    } catch (error) {
      node.replaceChildren(make("p", "warn", `${error.message} ${remedy}`));
      return;
    }
    fill(value);
  }

  function addSelect(holder, id, label, options, change) {
    const box = make("label", "", label + " ");
    const select = make("select");
    select.id = id;
    for (const [value, text] of options) select.append(new Option(text, value));
    select.addEventListener("change", change);
    box.append(select);
    holder.append(box);
    return select;
  }
  const everyOf = (values) => [["", "all"], ...[...new Set(values.map(String))]
    .sort((a, b) => a.localeCompare(b, "en", { numeric: true })).map((v) => [v, v])];

  function button(text, on, click) {
    const node = make("button", "", text);
    node.type = "button";
    node.disabled = !on;
    node.addEventListener("click", click);
    return node;
  }
  function showPager(pager, page, pages, text, turn) {
    pager.hidden = pages < 2;
    pager.replaceChildren(button("Previous", page > 0, () => turn(page - 1)),
      make("span", "", `${page + 1} of ${pages} pages, ${text}`),
      button("Next", page < pages - 1, () => turn(page + 1)));
  }

  /* Calls once when the node comes near the window: what is far costs nothing to open the page. */
  function whenNear(node, call) {
    const watcher = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      watcher.disconnect();
      call();
    }, { rootMargin: "500px" });
    watcher.observe(node);
  }

  /* A card whose contents are made when it is first opened. */
  function lazyCard(css, summary, fill) {
    const card = make("details", css);
    const head = make("summary");
    head.append(...summary);
    card.append(head);
    card.addEventListener("toggle", () => { if (card.open && card.children.length === 1) fill(card); });
    return card;
  }

  return { data, make, isDark, token, number, figure, signed, unpack, fillFrom, addSelect, everyOf, button, showPager, lazyCard, whenNear };
})();
