// Columns of a table: header, order, widths, wrapping, and a small distribution of the rows shown
// under each name.

// Least pixels of a column, and its share of the rest.
const WIDTHS = { segment_id: [112, 0.3], text: [170, 3], facts: [86, 1], note: [90, 1] };
const NUMBER_WIDTH = [52, 0];
const TEXT_WIDTH = [100, 0.4];
const TEXT_SHARE = 0.46; // least share of the width that default columns leave to the transcript
const BESIDE_PX = 1150; // from this width on, the hypothesis stands beside the transcript
const CHARACTER_PX = 7.5;
const CELL_PADDING_PX = 17; // with the line between cells
const LEAST_PX = 40;
const MOST_PX = 1600;
const STEP_PX = 20;
const MOST_NAME_PX = 200;

/**
 * Create header and column menu; `changed()` is called after every change of the columns, `idle()`
 * is a promise that no rows are being requested.
 */
function createColumns({ grid, head, request, order, sortBy, changed, idle, plain }) {
  // Without a choice of columns (`fitted`), those that do not fit are left out; `stacked`: the
  // hypothesis stands below the transcript.
  const layout = {
    shown: [],
    widths: {},
    wrap: false,
    charts: true,
    stacked: false,
    fitted: false,
  };
  let columns = [];
  let hypothesis = null; // the column that may stand below the transcript
  let characters = {}; // of the longest value, by name, of columns that are never cut
  let width = 0; // of the rows, in pixels
  let drawn = []; // the columns that have a place of their own, in order
  let below = null; // the column that stands below the transcript now
  let charts = {}; // distribution of each column by name
  let described = 0; // number of the last description that was requested
  const { menu, choose } = createMenu("columns", "choose columns", {
    role: "group",
    "aria-label": "columns",
  });

  const kind = (key) => columns.find((column) => column.name === key)?.kind;
  const isNumber = (key) => kind(key) !== "text";
  const isFloat = (key) => kind(key) === "float";

  function open(result) {
    ({ columns, hypothesis, characters } = result);
    for (const key of Object.keys(layout)) layout[key] = result[key];
    arrange();
    drawMenu();
  }

  /** Say which width the rows have; return whether other columns are drawn now. */
  function fit(pixels) {
    const before = [...drawn, below].join();
    width = pixels || width;
    arrange();
    const differs = [...drawn, below].join() !== before;
    if (differs) drawMenu();
    return differs;
  }

  /** Choose the columns that are drawn: of default ones, those that fit into the width. */
  function arrange() {
    const isStacked =
      layout.stacked &&
      width < BESIDE_PX &&
      ["text", hypothesis].every((key) => layout.shown.includes(key));
    below = isStacked ? hypothesis : null;
    const single = layout.shown.filter((key) => key !== below);
    if (!layout.fitted || !width) {
      drawn = single;
      return;
    }
    const needed = (key) => key === "text" || key === single[0] || key === "verdict";
    let room = width;
    for (const key of single.filter(needed)) room -= widthOf(key)[0];
    drawn = single.filter((key) => {
      if (needed(key)) return true;
      const [least] = widthOf(key);
      if (least > room) return false;
      room -= least;
      return true;
    });
  }

  async function save() {
    arrange();
    drawMenu();
    changed();
    const { result } = await request("table.layout", layout);
    characters = result;
    if (fit(width)) changed();
    else setWidths();
  }

  /** Move a column to a place among those drawn, or show it there; null hides it. */
  function place(key, at) {
    const names = drawn.filter((other) => other !== key);
    if (at !== null) names.splice(Math.max(0, at), 0, key);
    if (below && below !== key && names.includes("text"))
      names.splice(names.indexOf("text") + 1, 0, below);
    layout.shown = names;
    layout.fitted = false;
    save();
  }

  function resize(key, width) {
    layout.widths = {
      ...layout.widths,
      [key]: Math.round(Math.max(LEAST_PX, Math.min(MOST_PX, width))),
    };
    setWidths();
  }

  /**
   * Return the least pixels of a column, in which neither its name nor a short value is cut, and
   * its share of the rest.
   */
  function widthOf(key) {
    if (layout.widths[key]) return [layout.widths[key], 0];
    if (key === "text" && layout.fitted)
      return [Math.max(WIDTHS.text[0], TEXT_SHARE * width), WIDTHS.text[1]];
    const [least, share] =
      WIDTHS[key] ?? (key === hypothesis ? WIDTHS.text : isNumber(key) ? NUMBER_WIDTH : TEXT_WIDTH);
    const value = characters[key] ? characters[key] * CHARACTER_PX + CELL_PADDING_PX : 0;
    if (value)
      return [Math.ceil(Math.max(nameWidth(key), value, isNumber(key) ? least : 0)), share];
    return [Math.ceil(Math.max(nameWidth(key), least)), share];
  }

  const pen = document.createElement("canvas").getContext("2d");

  function nameWidth(key) {
    pen.font = `12px ${getComputedStyle(grid).fontFamily || "sans-serif"}`;
    return Math.min(MOST_NAME_PX, pen.measureText(visible(key)).width + CELL_PADDING_PX);
  }

  function setWidths() {
    const widths = drawn.map(widthOf);
    grid.style.setProperty(
      "--columns",
      widths
        .map(([least, share]) => (share ? `minmax(${least}px, ${share}fr)` : `${least}px`))
        .join(" "),
    );
    grid.style.setProperty("--least", `${widths.reduce((sum, [least]) => sum + least, 0)}px`);
  }

  function draw() {
    setWidths();
    grid.setAttribute("aria-colcount", drawn.length);
    grid.classList.toggle("nba-wrap", layout.wrap);
    grid.classList.toggle("nba-stacked", below !== null);
    head.replaceChildren(...drawn.map(drawHeader));
  }

  function drawHeader(key, i) {
    const sorted =
      order().sort === key ? (order().descending ? "descending" : "ascending") : "none";
    const arrow = { ascending: "↑ ", descending: "↓ ", none: "" }[sorted];
    let over = null; // the place that the column is dragged to
    const sort = button(
      arrow + visible(key),
      `sort by ${visible(key)}`,
      () => over === null && sortBy(key),
    );
    const grip = make("span", {
      class: "nba-grip",
      "aria-hidden": "true",
      title: "drag to change the width; a double click resets it",
    });
    const cell = make(
      "div",
      {
        class: `nba-cell${isNumber(key) ? " nba-number" : ""}`,
        role: "columnheader",
        "aria-sort": sorted,
        "aria-colindex": i + 1,
      },
      sort,
      grip,
    );
    if (layout.charts) cell.append(drawChart(charts[key]));
    sort.setAttribute(
      "aria-keyshortcuts",
      "Shift+ArrowLeft Shift+ArrowRight Alt+ArrowLeft Alt+ArrowRight",
    );
    sort.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || event.shiftKey === event.altKey) return;
      event.preventDefault();
      event.stopPropagation();
      if (event.shiftKey) resize(key, cell.offsetWidth + step * STEP_PX);
      else place(key, i + step);
      if (event.shiftKey) request("table.layout", layout);
      else head.children[drawn.indexOf(key)].querySelector("button").focus();
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
    const placeAt = (x) =>
      [...head.children].findIndex((other) => x < other.getBoundingClientRect().right);
    onDrag(sort, {
      onMove(event) {
        over = (placeAt(event.clientX) + drawn.length) % drawn.length;
        [...head.children].forEach((other, j) => other.classList.toggle("nba-drop", j === over));
      },
      onUp: (moved) => moved && setTimeout(() => place(key, over)), // after the click
    });
    return cell;
  }

  function drawMenu() {
    const option = (text, key) => checkbox(text, layout[key], (on) => ((layout[key] = on), save()));
    const item = (name) => {
      const at = drawn.indexOf(name);
      const label = checkbox(name, at >= 0 || name === below, (on) =>
        place(name, on ? drawn.length : null),
      );
      if (at < 0) return make("div", { class: "nba-choice" }, label);
      const up = button(
        "↑",
        `move ${visible(name)} to the left`,
        () => (
          place(name, at - 1),
          menu.querySelectorAll(".nba-choice button")[2 * Math.max(0, at - 1)]?.focus()
        ),
      );
      const down = button(
        "↓",
        `move ${visible(name)} to the right`,
        () => (
          place(name, at + 1),
          menu
            .querySelectorAll(".nba-choice button")
            [2 * Math.min(drawn.length - 1, at + 1) + 1]?.focus()
        ),
      );
      return make("div", { class: "nba-choice" }, label, up, down);
    };
    const hidden = columns.map((column) => column.name).filter((name) => !drawn.includes(name));
    const charted = plain ? [] : [option("distributions", "charts")];
    const stacked = hypothesis ? [option("hypothesis below transcript", "stacked")] : [];
    menu.replaceChildren(
      option("wrap long texts", "wrap"),
      ...charted,
      ...stacked,
      make("hr", {}),
      ...[...drawn, ...hidden].map(item),
    );
  }

  /**
   * Request what the headers show of the present rows, a column at a time, so that rows are never
   * delayed by more than one.
   */
  async function describe({ again = false } = {}) {
    const mine = ++described;
    if (again) charts = {};
    if (!layout.charts) return;
    for (const key of drawn) {
      if (charts[key]) continue;
      await idle();
      if (mine !== described) return;
      const { result } = await request("table.distribution", { column: key });
      if (mine !== described) return;
      charts[key] = result;
      const cell = head.children[drawn.indexOf(key)];
      cell?.querySelector(".nba-chart")?.replaceWith(drawChart(result));
    }
  }

  return {
    menu,
    choose,
    open,
    fit,
    draw,
    describe,
    layout,
    isNumber,
    isFloat,
    drawn: () => drawn,
    below: () => below,
    requested: () => (below ? [...drawn, below] : drawn), // the columns whose values are drawn
  };
}

/**
 * Draw a distribution: bars of a histogram, or shares of the most frequent values; its label says
 * it in words.
 */
function drawChart(distribution) {
  if (!distribution) return make("div", { class: "nba-chart" });
  const share = (count) => `${number((100 * count) / Math.max(1, distribution.rows), 1)} %`;
  const facts = [];
  let bars = make("span", { class: "nba-bars" });
  let caption = "";
  const none = distribution.missing ? " or none" : "";
  if (distribution.counts?.length === 1) {
    caption = `all: ${Number(distribution.median.toPrecision(6))}${none}`;
    facts.push(caption);
  } else if (distribution.top && distribution.distinct === 1) {
    caption = `all: ${visible(distribution.top[0][0]).slice(0, 60)}${none}`;
    facts.push(caption);
  } else if (distribution.counts) {
    facts.push(
      `min ${number(distribution.min)}`,
      `median ${number(distribution.median)}`,
      `max ${number(distribution.max)}`,
    );
    bars = drawBars(distribution.counts, Math.max(...distribution.counts), 8);
  } else if (distribution.top) {
    facts.push(
      `${number(distribution.distinct)} different`,
      ...distribution.top.map(([value, count]) => `${visible(value).slice(0, 60)} ${share(count)}`),
    );
    caption = `${number(distribution.distinct)} different`;
    bars.classList.add("nba-shares");
    for (const [, count] of distribution.top)
      bars.append(
        make("span", { style: `width: ${(100 * count) / Math.max(1, distribution.rows)}%` }),
      );
  } else if (distribution.distinct === null) facts.push((caption = "most occur once"));
  if (!distribution.rows) facts.push((caption = "no rows"));
  else if (distribution.missing === distribution.rows) caption = "all missing";
  if (distribution.rows) facts.push(`${share(distribution.missing)} missing`);
  if (distribution.step > 1) facts.push(`from one of ${distribution.step} rows`);
  return make(
    "div",
    { class: "nba-chart", role: "img", title: facts.join("\n"), "aria-label": facts.join(", ") },
    bars,
    make("span", { class: "nba-caption", text: caption }),
  );
}
