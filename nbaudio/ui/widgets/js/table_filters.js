/**
 * Create the menu of saved filters: choose, save under a name, delete. `apply(filter)` arranges the
 * rows as one says.
 */
function createFilters({ request, apply }) {
  const { menu, choose, toggle } = createMenu(
    "filters",
    "saved filters",
    { class: "nba-menu nba-filters", role: "group", "aria-label": "saved filters" },
    async () => draw((await request("filters.list")).result),
  );
  const name = make("input", {
    type: "text",
    "aria-label": "name of the filter",
    placeholder: "name",
    maxlength: "100",
    dir: "auto",
  });
  const keep = button("save", "save the present condition, text and order under this name", () =>
    save(),
  );
  const list = make("div", {});
  menu.append(make("div", { class: "nba-choice" }, name, keep), list);
  function draw(filters) {
    const items = Object.entries(filters).map(([key, filter]) => {
      const use = button(visible(key), `filter by ${visible(key)}`, () => {
        apply(filter);
        close();
      });
      const parts = [
        filter.where,
        filter.find && `find ${filter.find}`,
        filter.sort && `sort by ${filter.sort}`,
      ].filter(Boolean);
      assign(use, { dir: "auto", title: visible(parts.join("\n")).slice(0, 1000) });
      return make(
        "div",
        { class: "nba-choice" },
        use,
        button("×", `delete ${visible(key)}`, async () =>
          draw((await request("filters.delete", { name: key })).result),
        ),
      );
    });
    list.replaceChildren(
      ...(items.length ? items : [make("span", { class: "nba-faint", text: "none saved" })]),
    );
  }

  async function save() {
    if (!name.value.trim()) return name.focus();
    draw((await request("filters.save", { name: name.value })).result);
    name.value = "";
  }

  const close = () => (toggle(false), choose.focus());
  name.addEventListener("keydown", (event) => event.key === "Enter" && save());
  menu.addEventListener(
    "keydown",
    (event) => event.key === "Escape" && (event.stopPropagation(), close()),
  );
  return { choose, menu };
}
