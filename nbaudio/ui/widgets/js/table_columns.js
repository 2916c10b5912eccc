// Columns of a table: header, order, widths, wrapping, and a small distribution of the rows shown under each name.

// Least pixels of a column, and its share of the rest.
const WIDTHS = { segment_id: [210, 0.6], text: [170, 3], asr_text: [170, 3], verdict: [112, 0], facts: [86, 1] };
const NUMBER_WIDTH = [86, 0];
const TEXT_WIDTH = [86, 0.4];
const LEAST_PX = 40;
const MOST_PX = 1600;
const STEP_PX = 20;

/** Create header and column menu; `changed()` is called after every change of the columns, `idle()` is a promise that no rows are being requested. */
function createColumns({ grid, head, request, order, sortBy, changed, idle, plain }) {
  const layout = { shown: [], widths: {}, wrap: false, charts: true };
  let columns = [];
  let charts = {}; // distribution of each column by name
  let described = 0; // number of the last description that was requested
  const { menu, choose } = createMenu("columns", "choose columns", { role: "group", "aria-label": "columns" });

  const kind = (key) => columns.find((column) => column.name === key)?.kind;
  const isNumber = (key) => kind(key) !== "text";
  const isFloat = (key) => kind(key) === "float";

  function open(result) {
    columns = result.columns;
    for (const key of Object.keys(layout)) layout[key] = result[key];
    drawMenu();
  }

  function save() {
    request("table.layout", layout);
    drawMenu();
    changed();
  }

  /** Move a column to a place, or show it there; null hides it. */
  function place(key, at) {
    layout.shown = layout.shown.filter((other) => other !== key);
    if (at !== null) layout.shown.splice(Math.max(0, at), 0, key);
    save();
  }

  function resize(key, width) {
    layout.widths = { ...layout.widths, [key]: Math.round(Math.max(LEAST_PX, Math.min(MOST_PX, width))) };
    setWidths();
  }

  function setWidths() {
    const widths = layout.shown.map((key) => (layout.widths[key] ? [layout.widths[key], 0] : WIDTHS[key] ?? (isNumber(key) ? NUMBER_WIDTH : TEXT_WIDTH)));
    grid.style.setProperty("--columns", widths.map(([least, share]) => (share ? `minmax(${least}px, ${share}fr)` : `${least}px`)).join(" "));
    grid.style.setProperty("--least", `${widths.reduce((sum, [least]) => sum + least, 0)}px`);
  }

  function draw() {
    setWidths();
    grid.setAttribute("aria-colcount", layout.shown.length);
    grid.classList.toggle("nba-wrap", layout.wrap);
    head.replaceChildren(...layout.shown.map(drawHeader));
  }

  function drawHeader(key, i) {
    const sorted = order().sort === key ? (order().descending ? "descending" : "ascending") : "none";
    const arrow = { ascending: "↑ ", descending: "↓ ", none: "" }[sorted];
    let over = null; // the place that the column is dragged to
    const sort = button(arrow + visible(key), `sort by ${visible(key)}`, () => over === null && sortBy(key));
    const grip = make("span", { class: "nba-grip", "aria-hidden": "true", title: "drag to change the width; a double click resets it" });
    const cell = make("div", { class: `nba-cell${isNumber(key) ? " nba-number" : ""}`, role: "columnheader", "aria-sort": sorted, "aria-colindex": i + 1 }, sort, grip);
    if (layout.charts) cell.append(drawChart(charts[key]));
    sort.setAttribute("aria-keyshortcuts", "Shift+ArrowLeft Shift+ArrowRight Alt+ArrowLeft Alt+ArrowRight");
    sort.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || event.shiftKey === event.altKey) return;
      event.preventDefault();
      event.stopPropagation();
      if (event.shiftKey) resize(key, cell.offsetWidth + step * STEP_PX);
      else place(key, i + step);
      if (event.shiftKey) request("table.layout", layout);
      else head.children[layout.shown.indexOf(key)].querySelector("button").focus();
    });
    let start = 0;
    onDrag(grip, {
      onDown: (event) => (start = cell.offsetWidth - event.clientX),
      onMove: (event) => resize(key, start + event.clientX),
      onUp: () => request("table.layout", layout),
    });
    grip.addEventListener("dblclick", () => {
      delete layout.widths[key];
      save();
    });
    const placeAt = (x) => [...head.children].findIndex((other) => x < other.getBoundingClientRect().right);
    onDrag(sort, {
      onMove(event) {
        over = (placeAt(event.clientX) + layout.shown.length) % layout.shown.length;
        [...head.children].forEach((other, j) => other.classList.toggle("nba-drop", j === over));
      },
      onUp: (moved) => moved && setTimeout(() => place(key, over)), // after the click
    });
    return cell;
  }

  function drawMenu() {
    const option = (text, key) => checkbox(text, layout[key], (on) => ((layout[key] = on), save()));
    const item = (name) => {
      const at = layout.shown.indexOf(name);
      const label = checkbox(name, at >= 0, (on) => place(name, on ? layout.shown.length : null));
      if (at < 0) return make("div", { class: "nba-choice" }, label);
      const up = button("↑", `move ${visible(name)} to the left`, () => (place(name, at - 1), menu.querySelectorAll(".nba-choice button")[2 * Math.max(0, at - 1)]?.focus()));
      const down = button("↓", `move ${visible(name)} to the right`, () => (place(name, at + 1), menu.querySelectorAll(".nba-choice button")[2 * Math.min(layout.shown.length - 1, at + 1) + 1]?.focus()));
      return make("div", { class: "nba-choice" }, label, up, down);
    };
    const hidden = columns.map((column) => column.name).filter((name) => !layout.shown.includes(name));
    const charted = plain ? [] : [option("distributions", "charts")];
    menu.replaceChildren(option("wrap long texts", "wrap"), ...charted, make("hr", {}), ...[...layout.shown, ...hidden].map(item));
  }

  /** Request what the headers show of the present rows, a column at a time, so that rows are never delayed by more than one. */
  async function describe({ again = false } = {}) {
    const mine = ++described;
    if (again) charts = {};
    if (!layout.charts) return;
    for (const key of layout.shown) {
      if (charts[key]) continue;
      await idle();
      if (mine !== described) return;
      const { result } = await request("table.distribution", { column: key });
      if (mine !== described) return;
      charts[key] = result;
      const cell = head.children[layout.shown.indexOf(key)];
      cell?.querySelector(".nba-chart")?.replaceWith(drawChart(result));
    }
  }

  return { menu, choose, open, draw, describe, layout, isNumber, isFloat };
}

/** Draw a distribution: bars of a histogram, or shares of the most frequent values; its label says it in words. */
function drawChart(found) {
  if (!found) return make("div", { class: "nba-chart" });
  const share = (count) => `${number((100 * count) / Math.max(1, found.rows), 1)} %`;
  const facts = [];
  let bars = make("span", { class: "nba-bars" });
  let caption = "";
  if (found.counts) {
    facts.push(`min ${number(found.min)}`, `median ${number(found.median)}`, `max ${number(found.max)}`);
    bars = drawBars(found.counts, Math.max(...found.counts), 8);
  } else if (found.top) {
    facts.push(`${number(found.distinct)} different`, ...found.top.map(([value, count]) => `${visible(value).slice(0, 60)} ${share(count)}`));
    caption = `${number(found.distinct)} different`;
    bars.classList.add("nba-shares");
    for (const [, count] of found.top) bars.append(make("span", { style: `width: ${(100 * count) / Math.max(1, found.rows)}%` }));
  } else if (found.distinct === null) facts.push((caption = "most occur once"));
  if (!found.rows) facts.push((caption = "no rows"));
  else if (found.missing === found.rows) caption = "all missing";
  if (found.rows) facts.push(`${share(found.missing)} missing`);
  if (found.step > 1) facts.push(`from one of ${found.step} rows`);
  return make("div", { class: "nba-chart", role: "img", title: facts.join("\n"), "aria-label": facts.join(", ") }, bars, make("span", { class: "nba-caption", text: caption }));
}
