const LONG_CELL = 60; // a longer text is not squeezed into a narrow column

function render(widget) {
  return mount(widget, "paged-table", ({ root, request, bind }) => {
    let at = 0;
    let pages = 1;
    const place = make("span", { class: "nba-faint", role: "status" });
    const steps = [
      button("«", "first page (Home)", () => go(0)),
      button("‹", "previous page (PgUp)", () => go(at - 1)),
      button("›", "next page (PgDn)", () => go(at + 1)),
      button("»", "last page (End)", () => go(pages - 1)),
    ];
    const table = make("table", { class: "nba-plain" });
    root.append(make("div", { class: "nba-bar" }, ...steps, place), make("div", { class: "nba-wide", tabindex: "0", role: "region", "aria-label": "rows" }, table));

    let asked = 0;
    async function go(which) {
      const mine = ++asked;
      const { result } = await request("page", { number: which });
      if (mine !== asked) return;
      ({ number: at, pages } = result);
      place.textContent = `rows ${number(result.first)} to ${number(result.first + result.rows.length - 1)} of ${number(result.all)}, page ${number(at + 1)} of ${number(pages)}`;
      steps.forEach((step, i) => (step.disabled = i < 2 ? at === 0 : at === pages - 1));
      if (root.getRootNode().activeElement?.disabled) root.focus({ preventScroll: true });
      const cells = (tag, values) => values.map((text, i) => make(tag, { text, dir: "auto", class: result.columns[i].number ? "nba-number" : text.length > LONG_CELL ? "nba-long" : null, scope: tag === "th" ? "col" : null }));
      table.replaceChildren(
        make("thead", {}, make("tr", {}, ...cells("th", result.columns.map((column) => column.name)))),
        make("tbody", {}, ...result.rows.map((row) => make("tr", {}, ...cells("td", row)))),
      );
    }

    const jumps = { PageUp: () => go(at - 1), PageDown: () => go(at + 1), Home: () => go(0), End: () => go(pages - 1) };
    bind([["PgUp PgDn Home End", "previous, next, first, last page", jumps]]);
    return go(0);
  });
}
