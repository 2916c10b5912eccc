// Virtual table: only visible rows exist in the page, and rows are requested in pages.

const ROW_PX = 26;
const WRAPPED_PX = 68; // three lines
const STACKED_PX = 44; // a line of the transcript and one of the hypothesis
const STACKED_WRAPPED_PX = 88; // two lines of each
const PAGE_ROWS = 100;
const MOST_REQUESTED = 2; // pages at once, so that a drag over millions of rows requests only what it shows when it rests
// Browsers limit the height of elements; beyond it, a pixel of the scroll bar is more than a pixel
// of rows.
const TALLEST_PX = 12e6;
// Of a long value without blanks, such as an id, the end is always shown.
const LONG_WORD = 16;
const SHOWN_END = 10;
const IDLE_MS = 300; // without requests for rows, before headers are described
const CUT = / …$/;

let tableCount = 0;

/**
 * Create a table; Enter and double clicks call `onOpen(row, { double })`; a `plain` table has
 * neither conditions nor marks nor distributions.
 */
function createTable(
  host,
  {
    request,
    onMove = () => {},
    onOpen = () => {},
    onClick = () => {},
    saved = false,
    plain = false,
    height = 340,
  },
) {
  const name = `nba-table-${++tableCount}`;
  let total = 0;
  let version = null; // of the arrangement in Python
  let generation = 0; // of the cached pages
  let used = 0; // when rows were last requested, in ms
  let cursor = 0;
  let moves = 0; // of the cursor by the user
  let column = 0; // of the current cell
  let order = { where: "", find: "", sort: "", descending: false };
  let pages = new Map(); // rows by number of the page, null while they are requested
  let pageRows = PAGE_ROWS;
  let requested = 0; // pages
  let turn = 0; // of arranging; a new one ends the requests of the one before
  let pool = [];

  const where = make("input", {
    class: "nba-where",
    type: "text",
    spellcheck: "false",
    "aria-label": "filter by a condition",
    placeholder: "filter   similarity < 0.5 and speaker_id = 'spk7'",
    hidden: plain,
  });
  const find = make("input", {
    class: "nba-find",
    type: "search",
    spellcheck: "false",
    "aria-label": "find text",
    placeholder: "find text   /",
  });
  const count = make("span", { class: "nba-count", role: "status" });
  const head = make("div", { class: "nba-head", role: "row" });
  const spacer = make("div", { class: "nba-spacer", role: "presentation" });
  const scroller = make(
    "div",
    { class: "nba-scroller", role: "presentation", style: `height: ${height}px` },
    head,
    spacer,
  );
  const grid = make(
    "div",
    {
      class: "nba-grid",
      role: "grid",
      tabindex: "0",
      "aria-label": "segments",
      "aria-multiselectable": "true",
    },
    scroller,
  );
  const columns = createColumns({
    grid,
    head,
    request,
    order: () => order,
    sortBy,
    changed: columnsChanged,
    idle,
    plain,
  });
  const { layout, menu, choose } = columns;
  const filters = saved && createFilters({ request, apply });
  const current = make("div", { class: "nba-current nba-faint", hidden: true });
  const menus = filters ? [filters.choose, choose, filters.menu, menu] : [choose, menu];
  host.append(make("div", { class: "nba-bar" }, where, find, count, ...menus), grid, current);

  function rowPx() {
    if (columns.below()) return layout.wrap ? STACKED_WRAPPED_PX : STACKED_PX;
    return layout.wrap ? WRAPPED_PX : ROW_PX;
  }

  const rowsInView = () =>
    Math.max(1, Math.floor((scroller.clientHeight - head.offsetHeight) / rowPx()));
  const spacerPx = () => Math.min(total * rowPx(), TALLEST_PX);
  const viewPx = () => Math.max(1, scroller.clientHeight - head.offsetHeight);
  // Pixels of rows for each pixel of the scroll bar; more than 1 only for millions of rows.
  const ratio = () => (total * rowPx() - viewPx()) / Math.max(1, spacerPx() - viewPx());
  const topPx = () => scroller.scrollTop * Math.max(1, ratio());

  function fetchPage(number, { again = false } = {}) {
    const most = Math.min(pageRows, total - number * pageRows);
    if (number < 0 || most <= 0) return undefined;
    // More rows may be known than when a page was requested.
    if (
      !again &&
      (requested >= MOST_REQUESTED ||
        pages.get(number) === null ||
        pages.get(number)?.length >= most)
    )
      return undefined;
    if (!pages.has(number)) pages.set(number, null);
    used = performance.now();
    requested += 1;
    const asked = generation;
    return request("table.rows", {
      first: number * pageRows,
      last: (number + 1) * pageRows,
      columns: columns.requested(),
    })
      .finally(() => (requested -= 1))
      .then(({ result }) => {
        if (asked !== generation) return draw();
        if (result.version !== version) return void reload(result.version); // another view or Python has arranged the rows
        pages.set(number, result.rows);
        if (pages.size > 60) pages.delete(pages.keys().next().value);
        draw();
        if (Math.floor(cursor / pageRows) === number) drawCurrent();
      })
      .catch(() => pages.get(number) === null && pages.delete(number));
  }

  // A row as Python sent it: `{ number, marked, cells }`.
  const fetchedRow = (position) =>
    pages.get(Math.floor(position / pageRows))?.[position % pageRows];

  function row(position) {
    const entry = fetchedRow(position);
    return (
      entry && {
        number: entry.number,
        marked: entry.marked,
        position,
        cells: Object.fromEntries(columns.requested().map((key, i) => [key, entry.cells[i]])),
      }
    );
  }

  function draw() {
    const first = Math.max(0, Math.min(Math.floor(topPx() / rowPx()), total - 1));
    const number = Math.min(total, rowsInView() + 3);
    while (pool.length < number) {
      pool.push(make("div", { class: "nba-row", role: "row" }));
      spacer.append(pool.at(-1));
    }
    const start = Math.max(0, Math.min(first - 1, total - number));
    pool.forEach((element, i) => {
      const position = start + i;
      element.hidden = i >= number;
      if (element.hidden) return;
      element.style.transform = `translateY(${scroller.scrollTop + position * rowPx() - topPx()}px)`;
      fill(element, position, fetchedRow(position));
    });
    for (const position of [start, start + number - 1]) fetchPage(Math.floor(position / pageRows));
    grid.setAttribute("aria-activedescendant", `${name}-${cursor}`);
  }

  function textOfCell(key, value) {
    if (typeof value !== "number") return textOf(value);
    return columns.isFloat(key) ? value.toFixed(3) : number(value);
  }

  function fill(element, position, entry) {
    const selected = String(Boolean(entry?.marked) || position === cursor);
    const drawn = columns.drawn();
    const below = columns.below();
    assign(element, {
      id: `${name}-${position}`,
      "aria-rowindex": position + 2,
      "aria-selected": selected,
    });
    element.classList.toggle("nba-cursor", position === cursor);
    element.classList.toggle("nba-marked", Boolean(entry?.marked));
    element.position = position;
    if (element.childElementCount !== drawn.length) {
      element.replaceChildren(
        ...drawn.map((_, i) =>
          make("div", { class: "nba-cell", role: "gridcell", dir: "auto", "aria-colindex": i + 1 }),
        ),
      );
    }
    drawn.forEach((key, i) => {
      const cell = element.children[i];
      const value = entry ? entry.cells[i] : "";
      const text = textOfCell(key, value);
      const heard = below && key === "text" ? textOf(entry?.cells[drawn.length]) : null;
      if (heard !== null) setLines(cell, text, heard);
      else if (cell.textContent !== text) setText(cell, text);
      cell.classList.toggle("nba-number", columns.isNumber(key));
      cell.classList.toggle("nba-here", position === cursor && i === column);
      const whole = heard === null ? visible(value) : `${visible(value)}\n${heard}`;
      cell.title = entry && whole.length > 24 ? whole.slice(0, 800) : "";
    });
  }

  const textOf = (value) => (value === null ? "–" : visible(value ?? ""));

  /** Set the two lines of a cell: the transcript, and the hypothesis below it. */
  function setLines(cell, text, heard) {
    if (cell.childElementCount !== 2)
      cell.replaceChildren(
        make("div", { dir: "auto" }),
        make("div", { class: "nba-below", dir: "auto" }),
      );
    [text, heard].forEach((line, i) => {
      if (cell.children[i].textContent !== line) cell.children[i].textContent = line;
    });
  }

  /**
   * Set the text of a cell; a long value without blanks, such as an id, is cut in the middle where
   * it is too long.
   */
  function setText(cell, text) {
    const whole = text.length <= LONG_WORD || /\s/.test(text);
    cell.classList.toggle("nba-id", !whole);
    const split =
      text.length - SHOWN_END - (/[\udc00-\udfff]/.test(text[text.length - SHOWN_END]) ? 1 : 0);
    if (whole) cell.textContent = text;
    else
      cell.replaceChildren(
        make("span", { class: "nba-beginning", text: text.slice(0, split) }),
        make("span", { text: text.slice(split) }),
      );
  }

  /** Return the text of the current cell as loaded, cut if it is long; null without one. */
  function cellText() {
    const value = row(cursor)?.cells[columns.drawn()[column]];
    return value === undefined ? null : String(value ?? "");
  }

  /** Return a column's name and its value in the row under the cursor. */
  function namedValue(key) {
    const text = String(row(cursor).cells[key] ?? "–") || "–";
    return make(
      "div",
      {},
      make("span", { text: `${visible(key)} ` }),
      make("span", { class: "nba-value", dir: "auto", text }),
    );
  }

  /** Show the whole value of the current cell below the rows. */
  function drawCurrent() {
    const text = cellText();
    current.hidden = text === null;
    if (text === null) return;
    const key = columns.drawn()[column];
    const below = key === "text" ? columns.below() : null;
    current.replaceChildren(...[key, ...(below ? [below] : [])].map(namedValue));
  }

  /** Copy the current cell; a text that is cut in the page is requested whole. */
  async function copyCell() {
    let text = cellText();
    if (text === null) return;
    if (CUT.test(text))
      text = (
        await request("table.cell", { number: row(cursor).number, column: columns.drawn()[column] })
      ).result;
    const put = (event) => {
      event.clipboardData.setData("text/plain", text);
      event.preventDefault();
      event.stopImmediatePropagation();
    };
    document.addEventListener("copy", put, { capture: true, once: true });
    const done = document.execCommand("copy");
    document.removeEventListener("copy", put, { capture: true });
    current.append(make("span", { text: done ? "  copied" : "  not copied" }));
  }

  function columnsChanged() {
    column = Math.min(column, columns.drawn().length - 1);
    clearPages();
    drawHead(false);
    spacer.style.height = `${spacerPx()}px`;
    move(cursor, { silent: true });
  }

  function clearPages() {
    generation += 1;
    pages = new Map();
  }

  // Rows are more urgent.
  async function idle() {
    while (performance.now() - used < IDLE_MS)
      await new Promise((resolve) => setTimeout(resolve, 50));
  }

  function drawHead(again = true) {
    columns.draw();
    pool.forEach((element) => element.replaceChildren());
    draw();
    columns.describe({ again }).catch(() => {});
  }

  function apply(filter) {
    where.value = filter.where;
    find.value = filter.find;
    arrange(filter);
    grid.focus();
  }

  /** Arrange the rows anew; a filter that Python refuses is marked. */
  async function arrange(changes) {
    used = performance.now();
    const mine = ++turn;
    const { result } = await request("table.arrange", { ...order, ...changes }).catch(() => ({}));
    if (mine !== turn) return;
    count.classList.toggle("nba-bad", !result);
    if (!result) return void reload();
    order = { ...order, ...changes };
    await show(result);
    if (await complete(result)) drawHead(changes.where !== undefined); // another order has the same distributions
  }

  /** Show rows from the first one on; before they are all sorted, the first one says nothing. */
  function show(result) {
    clearPages();
    take(result);
    scroller.scrollTop = 0;
    return move(0, { silent: Boolean(result.progress && order.sort) });
  }

  /**
   * Request the rest of rows that are arranged in parts, showing those that are known; return
   * whether it is there.
   */
  async function complete(first) {
    const mine = ++turn;
    let result = first;
    while (result.progress) {
      ({ result } = await request("table.continue", { version }).catch(() => ({})));
      if (mine !== turn) return false;
      if (!result) return void reload();
      if (result.version === version && total) {
        const top = topPx();
        take(result);
        scroller.scrollTop = top / Math.max(1, ratio());
        draw();
      } else await show(result); // the first ones, or sorted
    }
    return true;
  }

  function take(result) {
    total = result.total;
    version = result.version;
    pageRows = result.page ?? PAGE_ROWS;
    const shownOf =
      total === result.all ? `${number(total)}` : `${number(total)} of ${number(result.all)}`;
    if (result.progress) count.textContent = `${number(total)} ${result.progress}`;
    else if (result.note) count.textContent = `${shownOf}: ${visible(result.note)}`;
    else count.textContent = shownOf;
    grid.setAttribute("aria-rowcount", total + 1);
    spacer.style.height = `${spacerPx()}px`;
  }

  function sortBy(key) {
    if (order.sort !== key) arrange({ sort: key, descending: false });
    else if (!order.descending) arrange({ descending: true });
    else arrange({ sort: "", descending: false });
    grid.focus();
  }

  const filter = () => arrange({ where: where.value, find: find.value });
  find.addEventListener("input", debounce(filter, 250));
  for (const field of [where, find]) {
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") filter();
      if (event.key === "ArrowDown") grid.focus();
    });
  }

  let reported = Promise.resolve(); // until the last move is reported

  async function report() {
    moves += 1; // a later response has no say
    request("table.cursor", { position: cursor, version });
    if (!row(cursor)) await loadedRow();
    const currentRow = row(cursor);
    if (currentRow) onMove(currentRow);
  }

  const reportCursor = debounce(() => (reported = report()), 40);

  /** Report a move of the cursor now if it is not reported yet; wait until it is. */
  function settled() {
    reportCursor.flush();
    return reported;
  }

  /** Move the cursor to a position and scroll it into view; `silent` does not report it. */
  async function move(position, { silent = false } = {}) {
    cursor = Math.max(0, Math.min(position, total - 1));
    if (!silent) moves += 1;
    const top = cursor * rowPx();
    const scale = Math.max(1, ratio());
    if (top < topPx()) scroller.scrollTop = top / scale;
    else if (top + rowPx() > topPx() + viewPx())
      scroller.scrollTop = (top + rowPx() - viewPx()) / scale;
    draw();
    drawCurrent();
    if (total && !silent) reportCursor();
  }

  async function mark(first, last, on) {
    if (plain) return;
    await request("table.mark", { first, last, on, version });
    for (let position = first; position < last; position += 1) {
      const entry = fetchedRow(position);
      if (entry) entry.marked = on;
    }
    draw();
  }

  /**
   * Show the rows as they are arranged in Python, unless they are known; move the cursor to where
   * Python has it.
   */
  async function reload(knownVersion) {
    if (knownVersion === version) return;
    const [position, before] = [cursor, moves];
    const { result } = await request("table.open");
    if (result.version !== version) {
      // else the cursor may have moved since
      ({ order } = result);
      columns.fit(scroller.clientWidth);
      columns.open(result);
      if (where !== where.getRootNode().activeElement) where.value = order.where;
      if (find !== find.getRootNode().activeElement) find.value = order.find;
      clearPages();
      take(result);
      drawHead();
      scroller.scrollTop = 0;
      // A move of the user since the request counts from where Python has the cursor.
      const rows = moves === before ? 0 : cursor - position;
      await move(result.cursor + rows, { silent: !rows });
    }
    if (result.progress && (await complete(result))) drawHead();
  }

  /**
   * Move the cursor to a row by its number in the frame; stay if it is not shown or the user moves
   * the cursor first.
   */
  async function moveTo(which) {
    if (row(cursor)?.number === which) return;
    const before = moves;
    const { result } = await request("table.position", { number: which });
    if (result !== null && moves === before) await move(result, { silent: true });
  }

  /** Request the rows in view again, showing the old ones until the new ones are there. */
  function refresh() {
    const first = Math.floor(topPx() / rowPx() / pageRows);
    const last = Math.floor((topPx() / rowPx() + rowsInView()) / pageRows);
    for (const page of [...pages.keys()]) if (page < first || page > last) pages.delete(page);
    for (let page = first; page <= last; page += 1) fetchPage(page, { again: true });
  }

  /** Show other default columns from Python, such as that of the first verdict. */
  async function updateColumns() {
    const { result } = await request("table.columns");
    columns.open(result);
    columnsChanged();
  }

  /** Whether a column is shown, or the columns are somebody's choice. */
  const hasColumn = (key) => !layout.fitted || layout.shown.includes(key);

  /** Return the row that is under the cursor now, once it is loaded; null without rows. */
  async function loadedRow() {
    const position = cursor;
    if (total) await fetchPage(Math.floor(position / pageRows), { again: true });
    return row(position) ?? null;
  }

  /**
   * Call `action` with the row under the cursor as soon as it is loaded, unless the cursor moves
   * first.
   */
  async function onceLoaded(action) {
    const position = cursor;
    const current = row(position) ?? (await loadedRow());
    if (current && cursor === position) action(current);
  }

  const jump = (position) => (event) => {
    const to = position();
    if (event.shiftKey && total) mark(Math.min(cursor, to), Math.max(cursor, to) + 1, true);
    move(to);
  };

  function chooseCell(by) {
    column = Math.max(0, Math.min(columns.drawn().length - 1, column + by));
    head.children[column].scrollIntoView({ block: "nearest", inline: "nearest" });
    draw();
    drawCurrent();
  }

  const { key, help } = bindKeys([
    [
      "↑ ↓ PgUp PgDn Home End",
      "move in the table",
      {
        ArrowDown: jump(() => cursor + 1),
        ArrowUp: jump(() => cursor - 1),
        Home: jump(() => 0),
        End: jump(() => total - 1),
        PageDown: jump(() => cursor + rowsInView()),
        PageUp: jump(() => cursor - rowsInView()),
      },
    ],
    [
      "← →",
      "choose a cell of the row",
      { ArrowLeft: () => chooseCell(-1), ArrowRight: () => chooseCell(1) },
    ],
    ["Ctrl+C", "copy that cell", {}],
    [
      "Space",
      "mark the row; Shift with an arrow marks several",
      { " ": () => (row(cursor) ? mark(cursor, cursor + 1, !row(cursor).marked) : false) },
    ],
    [
      "Enter",
      "play the row",
      {
        Enter: () => (total ? onceLoaded((current) => onOpen(current, { double: false })) : false),
      },
    ],
    ["/", "find text", { "/": () => find.focus() }],
    ["Shift+← Shift+→", "on a column's name: change its width", {}],
    ["Alt+← Alt+→", "on a column's name: move the column", {}],
  ]);

  spacer.addEventListener("click", (event) => {
    const element = event.target.closest(".nba-row");
    if (!element) return;
    const { position } = element;
    const cell = event.target.closest(".nba-cell");
    if (cell) column = [...element.children].indexOf(cell);
    if (event.shiftKey) mark(Math.min(cursor, position), Math.max(cursor, position) + 1, true);
    else if (event.ctrlKey || event.metaKey) mark(position, position + 1, !row(position)?.marked);
    move(position);
    if (event.detail < 2 && !event.shiftKey && !event.ctrlKey && !event.metaKey)
      onceLoaded(onClick);
  });
  spacer.addEventListener("dblclick", () =>
    onceLoaded((current) => onOpen(current, { double: true })),
  );
  grid.addEventListener("keydown", (event) => {
    if (
      !(event.ctrlKey || event.metaKey) ||
      event.key.toLowerCase() !== "c" ||
      String(window.getSelection())
    )
      return;
    event.preventDefault();
    copyCell();
  });
  scroller.addEventListener("scroll", () => requestAnimationFrame(draw));
  new ResizeObserver(() => (columns.fit(scroller.clientWidth) ? columnsChanged() : draw())).observe(
    scroller,
  );

  const ready = reload();

  return {
    ready,
    move,
    moveTo,
    reload,
    refresh,
    updateColumns,
    hasColumn,
    loadedRow,
    settled,
    key,
    help,
    position: () => cursor,
  };
}
