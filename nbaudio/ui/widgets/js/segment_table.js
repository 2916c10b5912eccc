function render(widget) {
  return mount(widget, "segment-table", ({ root, request, keys }) => {
    const table = createTable(root, { request, height: widget.model.get("height") });
    keys((event) => table.key(event));
    return table.ready;
  });
}
