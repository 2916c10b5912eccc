// Virtual table: only visible rows exist in the page, and rows are requested in pages.

const ROW_PX = 26;
const PAGE_ROWS = 100;
// Browsers limit the height of elements; beyond it, a pixel of the scroll bar is more than a pixel of rows.
const TALLEST_PX = 12e6;
// Least pixels of a column, and its share of the rest.
const WIDTHS = { segment_id: [210, 0.6], text: [170, 3], asr_text: [170, 3], verdict: [112, 0] };
const NUMBER_WIDTH = [86, 0];
const TEXT_WIDTH = [86, 0.4];

let tableCount = 0;

/**
 * Create a table in `host`. The cursor calls `onMove(row)`, Enter and double clicks `onOpen(row)`; a row is
 * `{ number, position, marked, cells }`. Returns `{ ready, move, refresh, loadedRow, key, position }`.
 */
function createTable(host, { request, onMove = () => {}, onOpen = () => {}, height = 340 }) {
  const name = `nba-table-${++tableCount}`;
  let columns = [];
  let shown = [];
  let total = 0;
  let version = 0; // of the arrangement in Python
  let generation = 0; // of the cached pages
  let cursor = 0;
  let order = { where: "", find: "", sort: "", descending: false };
  let pages = new Map();
  let requested = new Set();
  let pool = [];

  const where = make("input", {
    class: "nba-where", type: "text", spellcheck: "false", "aria-label": "filter by a condition",
    placeholder: "filter   similarity < 0.5 and speaker_id = 'spk7'",
  });
  const find = make("input", { class: "nba-find", type: "search", spellcheck: "false", "aria-label": "find text", placeholder: "find text   /" });
  const count = make("span", { class: "nba-count", role: "status" });
  const menu = make("div", { class: "nba-menu", hidden: true });
  const choose = button("columns", "choose columns", () => (menu.hidden = !menu.hidden));
  const head = make("div", { class: "nba-head", role: "row" });
  const spacer = make("div", { class: "nba-spacer", role: "presentation" });
  const scroller = make("div", { class: "nba-scroller", role: "presentation" }, head, spacer);
  const grid = make("div", { class: "nba-grid", role: "grid", tabindex: "0", "aria-label": "segments", "aria-multiselectable": "true" }, scroller);
  scroller.style.height = `${height}px`;
  host.append(make("div", { class: "nba-bar" }, where, find, count, choose, menu), grid);

  const isNumber = (key) => columns.find((column) => column.name === key)?.kind !== "text";
  const isFloat = (key) => columns.find((column) => column.name === key)?.kind === "float";
  const rowsInView = () => Math.max(1, Math.floor((scroller.clientHeight - head.offsetHeight) / ROW_PX));
  const spacerPx = () => Math.min(total * ROW_PX, TALLEST_PX);
  const viewPx = () => Math.max(1, scroller.clientHeight - head.offsetHeight);
  // Pixels of rows for each pixel of the scroll bar; more than 1 only for millions of rows.
  const ratio = () => (total * ROW_PX - viewPx()) / Math.max(1, spacerPx() - viewPx());
  const topPx = () => scroller.scrollTop * Math.max(1, ratio());

  function fetchPage(number, { again = false } = {}) {
    if ((!again && (pages.has(number) || requested.has(number))) || number < 0 || number * PAGE_ROWS >= total) return undefined;
    requested.add(number);
    const asked = generation;
    return request("table.rows", { first: number * PAGE_ROWS, last: (number + 1) * PAGE_ROWS, columns: shown })
      .then(({ result }) => {
        if (asked !== generation) return;
        requested.delete(number);
        pages.set(number, result.rows);
        if (pages.size > 60) pages.delete(pages.keys().next().value);
        draw();
      })
      .catch(() => requested.delete(number));
  }

  function row(position) {
    const found = pages.get(Math.floor(position / PAGE_ROWS))?.[position % PAGE_ROWS];
    return found && { number: found.number, marked: found.marked, position, cells: Object.fromEntries(shown.map((key, i) => [key, found.cells[i]])) };
  }

  function draw() {
    const first = Math.max(0, Math.min(Math.floor(topPx() / ROW_PX), total - 1));
    const number = Math.min(total, rowsInView() + 3);
    while (pool.length < number) {
      const element = make("div", { class: "nba-row", role: "row" });
      spacer.append(element);
      pool.push(element);
    }
    const start = Math.max(0, Math.min(first - 1, total - number));
    pool.forEach((element, i) => {
      const position = start + i;
      element.hidden = i >= number;
      if (element.hidden) return;
      element.style.transform = `translateY(${scroller.scrollTop + position * ROW_PX - topPx()}px)`;
      const found = pages.get(Math.floor(position / PAGE_ROWS))?.[position % PAGE_ROWS];
      fill(element, position, found);
    });
    for (const position of [start, start + number - 1]) fetchPage(Math.floor(position / PAGE_ROWS));
    grid.setAttribute("aria-activedescendant", `${name}-${cursor}`);
  }

  function fill(element, position, found) {
    element.id = `${name}-${position}`;
    element.setAttribute("aria-rowindex", position + 2);
    element.setAttribute("aria-selected", Boolean(found?.marked) || position === cursor);
    element.classList.toggle("nba-odd", position % 2 === 1);
    element.classList.toggle("nba-cursor", position === cursor);
    element.classList.toggle("nba-marked", Boolean(found?.marked));
    element.position = position;
    if (element.childElementCount !== shown.length) {
      element.replaceChildren(...shown.map((_, i) => make("div", { class: "nba-cell", role: "gridcell", dir: "auto", "aria-colindex": i + 1 })));
    }
    shown.forEach((key, i) => {
      const cell = element.children[i];
      const value = found ? found.cells[i] : "";
      const text = value === null ? "–" : typeof value !== "number" ? visible(value) : isFloat(key) ? value.toFixed(3) : number(value);
      if (cell.textContent !== text) cell.textContent = text;
      cell.classList.toggle("nba-number", isNumber(key));
      cell.title = found && String(value).length > 24 ? visible(value).slice(0, 400) : "";
    });
  }

  function drawHead() {
    const widths = shown.map((key) => WIDTHS[key] ?? (isNumber(key) ? NUMBER_WIDTH : TEXT_WIDTH));
    grid.style.setProperty("--columns", widths.map(([least, share]) => (share ? `minmax(${least}px, ${share}fr)` : `${least}px`)).join(" "));
    grid.style.setProperty("--least", `${widths.reduce((sum, [least]) => sum + least, 0)}px`);
    grid.setAttribute("aria-colcount", shown.length);
    head.replaceChildren(
      ...shown.map((key, i) => {
        const sorted = order.sort === key ? (order.descending ? "descending" : "ascending") : "none";
        const arrow = { ascending: "↑ ", descending: "↓ ", none: "" }[sorted];
        const sort = button(arrow + key, `sort by ${key}`, () => sortBy(key));
        return make("div", { class: `nba-cell${isNumber(key) ? " nba-number" : ""}`, role: "columnheader", "aria-sort": sorted, "aria-colindex": i + 1 }, sort);
      }),
    );
    pool.forEach((element) => element.replaceChildren());
  }

  function drawMenu() {
    menu.replaceChildren(
      ...columns.map((column) => {
        const box = make("input", { type: "checkbox", on: { change: () => toggle(column.name, box.checked) } });
        box.checked = shown.includes(column.name);
        return make("label", {}, box, make("span", { text: column.name }));
      }),
    );
  }

  function toggle(key, on) {
    shown = columns.map((column) => column.name).filter((other) => (other === key ? on : shown.includes(other)));
    request("table.columns", { columns: shown });
    clearPages();
    drawHead();
    draw();
  }

  function clearPages() {
    generation += 1;
    pages = new Map();
    requested = new Set();
  }

  async function arrange(changes, { silent = false } = {}) {
    const { result } = await request("table.arrange", { ...order, ...changes });
    order = { ...order, ...changes };
    count.classList.remove("nba-bad");
    clearPages();
    take(result);
    drawHead();
    scroller.scrollTop = 0;
    await move(0, { silent });
  }

  function take(result) {
    total = result.total;
    version = result.version;
    const shownOf = total === result.all ? `${number(total)}` : `${number(total)} of ${number(result.all)}`;
    count.textContent = result.note ? `${shownOf}: ${visible(result.note)}` : shownOf;
    grid.setAttribute("aria-rowcount", total + 1);
    spacer.style.height = `${spacerPx()}px`;
  }

  function sortBy(key) {
    if (order.sort !== key) arrange({ sort: key, descending: false });
    else if (!order.descending) arrange({ descending: true });
    else arrange({ sort: "", descending: false });
    grid.focus();
  }

  const filter = () => {
    arrange({ where: where.value, find: find.value }).catch(() => count.classList.add("nba-bad"));
  };
  const soon = debounce(filter, 250);
  find.addEventListener("input", soon);
  for (const field of [where, find]) {
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") filter();
      if (event.key === "ArrowDown") grid.focus();
    });
  }

  const reportCursor = debounce((position) => {
    const found = row(position);
    request("table.cursor", { position, version });
    if (found) onMove(found);
  }, 40);

  /** Move the cursor to a position and scroll it into view; `silent` does not report it. */
  async function move(position, { silent = false } = {}) {
    cursor = Math.max(0, Math.min(position, total - 1));
    const top = cursor * ROW_PX;
    const scale = Math.max(1, ratio());
    if (top < topPx()) scroller.scrollTop = top / scale;
    else if (top + ROW_PX > topPx() + viewPx()) scroller.scrollTop = (top + ROW_PX - viewPx()) / scale;
    draw();
    if (total && !silent) reportCursor(cursor);
  }

  async function mark(first, last, on) {
    await request("table.mark", { first, last, on, version });
    for (let position = first; position < last; position += 1) {
      const found = pages.get(Math.floor(position / PAGE_ROWS))?.[position % PAGE_ROWS];
      if (found) found.marked = on;
    }
    draw();
  }

  /** Request the rows in view again, showing the old ones until the new ones are there. */
  function refresh() {
    const first = Math.floor(topPx() / ROW_PX / PAGE_ROWS);
    const last = Math.floor((topPx() / ROW_PX + rowsInView()) / PAGE_ROWS);
    for (const page of [...pages.keys()]) if (page < first || page > last) pages.delete(page);
    for (let page = first; page <= last; page += 1) fetchPage(page, { again: true });
  }

  /** Return the row under the cursor once it is loaded; null without rows. */
  async function loadedRow() {
    if (total) await fetchPage(Math.floor(cursor / PAGE_ROWS), { again: true });
    return row(cursor) ?? null;
  }

  function key(event) {
    const jumps = {
      ArrowDown: cursor + 1, ArrowUp: cursor - 1, PageDown: cursor + rowsInView(), PageUp: cursor - rowsInView(),
      Home: 0, End: total - 1,
    };
    if (event.key in jumps) {
      if (event.shiftKey && total) mark(Math.min(cursor, jumps[event.key]), Math.max(cursor, jumps[event.key]) + 1, true);
      move(jumps[event.key]);
    } else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      scroller.scrollLeft += event.key === "ArrowRight" ? 120 : -120;
    } else if (event.key === "Enter" && row(cursor)) onOpen(row(cursor));
    else if (event.key === " " && row(cursor)) mark(cursor, cursor + 1, !row(cursor).marked);
    else if (event.key === "/") find.focus();
    else return false;
    return true;
  }

  spacer.addEventListener("click", (event) => {
    const element = event.target.closest(".nba-row");
    if (!element) return;
    const { position } = element;
    if (event.shiftKey) mark(Math.min(cursor, position), Math.max(cursor, position) + 1, true);
    else if (event.ctrlKey || event.metaKey) mark(position, position + 1, !row(position)?.marked);
    move(position);
  });
  spacer.addEventListener("dblclick", () => row(cursor) && onOpen(row(cursor)));
  scroller.addEventListener("scroll", () => requestAnimationFrame(draw));
  new ResizeObserver(() => draw()).observe(scroller);

  const ready = request("table.open").then(({ result }) => {
    columns = result.columns;
    shown = result.shown;
    order = result.order;
    where.value = order.where;
    find.value = order.find;
    take(result);
    drawHead();
    drawMenu();
    cursor = result.cursor;
    draw();
    return move(cursor, { silent: true });
  });

  return { ready, move, refresh, loadedRow, key, position: () => cursor };
}
