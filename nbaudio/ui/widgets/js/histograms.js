// Histograms of columns. Python counts; a brushed range or picked values narrow the rows of a
// table.

/**
 * Create the histogram of a numeric column. Returns `{ element, update, key }`, as `createValues`.
 */
function createBins(column, request) {
  let item = null;
  const bars = make("div", { role: "img" });
  const before = make("div", { class: "nba-outside" });
  const behind = make("div", { class: "nba-outside", style: "right: 0" });
  const track = make("div", { class: "nba-track" }, bars, before, behind);
  const low = make("span");
  const high = make("span");
  const range = make("span", { class: "nba-range" });
  const without = make("div", { class: "nba-faint" });
  const element = make(
    "div",
    {},
    track,
    make("div", { class: "nba-axis" }, low, range, high),
    without,
  );

  function outline([first, last]) {
    before.style.width = `${(100 * first) / (item.edges.length - 1)}%`;
    behind.style.width = `${100 - (100 * last) / (item.edges.length - 1)}%`;
    const whole = first === 0 && last === item.edges.length - 1;
    range.textContent = whole
      ? ""
      : `${axisNumber(item.edges[first])} to ${axisNumber(item.edges[last])}`;
  }

  const brush = createRange(track, {
    label: column,
    brushed: true,
    text: (edge) => axisNumber(item.edges[edge]),
    onChange: (first, last) => request("histograms.brush", { column, first, last }),
    onDraw: outline,
  });

  function update(newItem) {
    item = newItem;
    const bins = item.all.length;
    const most = Math.max(1, ...item.all);
    bars.replaceChildren(drawBars(item.all, most, 2, "nba-all"), drawBars(item.passing, most, 2));
    const sum = (counts) => number(counts.reduce((all, count) => all + count, 0));
    bars.setAttribute(
      "aria-label",
      `${column}: ${sum(item.passing)} of ${sum(item.all)} rows are shown`,
    );
    low.textContent = axisNumber(item.edges[0]);
    high.textContent = axisNumber(item.edges[bins]);
    without.textContent = item.without ? `${number(item.without)} without a number` : "";
    brush.set(bins, item.chosen);
  }

  let begun = 0;
  onDrag(track, {
    onDown(event) {
      begun = brush.edgeAt(event);
      brush.show(Math.floor(begun), Math.floor(begun) + 1);
    },
    onMove: (event) => brush.stretch(begun, brush.edgeAt(event)),
    onUp: brush.flush,
  });
  return { element, update, key: brush.key };
}

/** Create the line of a column with one value in all rows. */
function createConstant() {
  const element = make("div", { class: "nba-constant", dir: "auto" });
  function update({ constant, without }) {
    element.textContent = without
      ? `${visible(constant)}; ${number(without)} without a number`
      : `all: ${visible(constant)}`;
  }
  return { element, update, key: () => false };
}

/** Create the list of a column's values, to pick from. */
function createValues(column, request) {
  const list = make("div", {
    class: "nba-picks",
    role: "group",
    "aria-label": `values of ${column}`,
  });
  const find = make("input", {
    class: "nba-find",
    type: "search",
    spellcheck: "false",
    "aria-label": `find a value of ${column}`,
  });
  const more = make("span", { class: "nba-faint" });
  const search = make("div", { class: "nba-more", hidden: true }, find, more);
  find.addEventListener(
    "input",
    debounce(() => request("histograms.find", { column, text: find.value }), 200),
  );

  function update(item) {
    const focused = list.querySelector(":focus")?.dataset.place;
    const share = (count) => `${((100 * count) / item.most).toFixed(1)}%`;
    const rows = item.values.map((value) =>
      make(
        "button",
        {
          type: "button",
          class: "nba-pick",
          "aria-pressed": value.picked,
          "data-place": value.place,
          title: value.name,
          on: { click: () => request("histograms.pick", { column, place: value.place }) },
        },
        make("span", { class: "nba-isolate nba-pick-name", dir: "auto", text: value.name }),
        make("span", {
          class: "nba-pick-count",
          text:
            value.passing === value.all
              ? number(value.all)
              : `${number(value.passing)} of ${number(value.all)}`,
        }),
        make("span", { class: "nba-pick-bar nba-every", style: `width:${share(value.all)}` }),
        make("span", { class: "nba-pick-bar nba-passing", style: `width:${share(value.passing)}` }),
      ),
    );
    list.replaceChildren(...rows);
    if (focused) rows.find((line) => line.dataset.place === focused)?.focus();
    if (!rows.length)
      list.append(
        make("span", { class: "nba-faint", text: item.find ? "no such value" : "no rows" }),
      );
    more.textContent = item.more ? `and ${number(item.more)} more` : "";
    find.placeholder = `find in ${number(item.kinds)}`;
    search.hidden = item.kinds <= item.values.length && !item.find;
  }

  return { element: make("div", {}, list, search), update, key: () => false };
}

function render(widget) {
  return mount(widget, "histograms", async ({ root, request, keys, watch }) => {
    const parts = new Map();
    const status = make("span", { class: "nba-faint", role: "status" });
    const clearAll = button("clear all", "clear all filters of the histograms", () =>
      request("histograms.clear"),
    );
    const { menu, choose } = createMenu("histograms", "choose the histograms");
    const body = make("div", { class: "nba-histograms-body" });
    root.append(make("div", { class: "nba-bar" }, choose, clearAll, status, menu), body);

    function kindOf(item) {
      if (item.constant !== undefined) return createConstant;
      return item.edges ? createBins : createValues;
    }

    function part(item) {
      const kind = kindOf(item);
      const made = kind(item.column, request);
      const clear = button("clear", `clear ${item.column}`, () =>
        request("histograms.clear", { column: item.column }),
      );
      const title = make(
        "div",
        { class: "nba-histogram-title" },
        make("span", { class: "nba-histogram-name", text: item.column }),
        clear,
      );
      return {
        ...made,
        kind,
        clear,
        element: make(
          "div",
          {
            class: `nba-histogram${kind === createConstant ? " nba-one-value" : ""}`,
            "data-column": item.column,
          },
          title,
          made.element,
        ),
      };
    }

    function draw({ columns, items, chosen }) {
      const elements = items.map((item) => {
        if (parts.get(item.column)?.kind !== kindOf(item)) parts.set(item.column, part(item));
        const histogram = parts.get(item.column);
        histogram.clear.hidden = !item.chosen;
        histogram.update(item);
        return histogram.element;
      });
      if (
        elements.length !== body.childElementCount ||
        elements.some((element, i) => element !== body.children[i])
      )
        body.replaceChildren(...elements);
      const shown = items.map((item) => item.column);
      for (const column of [...parts.keys()]) if (!shown.includes(column)) parts.delete(column);
      clearAll.disabled = !chosen;
      status.textContent = chosen ? `${chosen} ${chosen === 1 ? "filter" : "filters"}` : "";
      if (menu.childElementCount === columns.length) return;
      menu.replaceChildren(
        ...columns.map((column) =>
          checkbox(column, shown.includes(column), (on) => toggle(column, on)),
        ),
      );
    }

    const toggle = (column, on) => {
      const shown = [...parts.keys()].filter((other) => other !== column);
      request("histograms.show", { columns: on ? [...shown, column] : shown });
    };
    let asked = 0;
    async function refresh() {
      const mine = ++asked;
      const { result } = await request("histograms.state");
      if (mine === asked) draw(result);
    }
    watch("change:version", refresh);
    keys(
      (event) => [...parts.values()].some((part) => part.key(event)),
      [
        ["← → PgUp PgDn Home End", "move the end of a range"],
        ["Esc", "clear the range"],
        ["Enter", "pick or drop a value"],
      ],
    );
    await refresh();
  });
}
