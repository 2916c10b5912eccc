function render(widget) {
  return mount(widget, "segment-table", ({ root, ask, keys }) => {
    const table = createTable(root, { ask, height: widget.model.get("height") });
    keys((event) => table.key(event));
    return table.ready;
  });
}
