// Actions of the explorer on the marked rows, or on all rows shown.

function render(widget) {
  return mount(widget, "explorer-actions", async ({ root, request, model, watch, keys }) => {
    const { words, most_verdicts: most } = (await request("actions.open")).result;
    const status = make("span", { class: "nba-action-status", role: "status" });
    const rows = make(
      "select",
      { "aria-label": "rows that the actions apply to" },
      make("option", { value: "marked" }),
      make("option", { value: "shown" }),
    );
    const verdict = make(
      "select",
      { "aria-label": "verdict", on: { change: () => (give.disabled = !verdict.value) } },
      ...["", ...words].map((word, i) =>
        make("option", { value: word, text: word ? `${word}   ${i}` : "verdict …" }),
      ),
    );
    const field = (label, value = "") =>
      make("input", {
        type: "text",
        class: "nba-comment",
        "aria-label": label,
        placeholder: label,
        value,
      });
    const comment = field("comment or note");
    const out = field("sheet to write", "picked.xlsx");
    const rule = make("input", {
      type: "text",
      class: "nba-where",
      readonly: true,
      "aria-label": "condition of the rule",
    });
    const copy = button("copy", "copy the condition", () => {
      rule.select();
      document.execCommand("copy"); // also where the page was not loaded over HTTPS
      status.textContent = "copied";
    });
    const conditionBar = make(
      "div",
      { class: "nba-bar", hidden: true },
      make("span", { class: "nba-faint", text: "rule" }),
      rule,
      copy,
    );

    /** Run an action, and show what it returns; null if it fails. */
    async function act(call, values, text) {
      status.textContent = "working …";
      const { result } = await request(`actions.${call}`, values).catch(() => ({ result: null }));
      status.textContent = result === null ? "" : text(result);
      return result;
    }
    const many = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"} logged`;
    const chosen = () =>
      rows.value === "shown" ? model.get("counts")[1] : Math.max(1, model.get("counts")[0]);

    let confirmed = 0; // number of verdicts that a first press announced
    const give = button("log verdict", "log the verdict for each of these rows", async () => {
      const count = chosen();
      if (count > most && confirmed !== count) {
        confirmed = count;
        status.textContent = `${number(count)} verdicts “${verdict.value}”: press again to log them`;
        return;
      }
      confirmed = 0;
      await act(
        "verdict",
        { word: verdict.value, comment: comment.value, rows: rows.value, confirm: count > most },
        (done) => many(done, "verdict"),
      );
    });
    give.disabled = true;
    const note = button("add note", "log the text as a note on each of these rows", () =>
      act("note", { text: comment.value, rows: rows.value }, (done) => many(done, "note")),
    );
    const review = button("review sheet", "write a review sheet of these rows", () =>
      act("review", { out: out.value, rows: rows.value }, (text) => text),
    );
    const show = button("rule", "show the condition in force", async () => {
      const condition = await act("rule", {}, () => "");
      conditionBar.hidden = condition === null;
      rule.value = condition ?? "";
    });

    function count() {
      const [marked, shown] = model.get("counts");
      rows.options[0].textContent = marked ? `${number(marked)} marked` : "the current row";
      rows.options[1].textContent = `all ${number(shown)} shown`;
      conditionBar.hidden = true;
      confirmed = 0;
    }
    root.append(
      make(
        "div",
        { class: "nba-bar nba-actions" },
        rows,
        verdict,
        give,
        comment,
        note,
        out,
        review,
        show,
      ),
      conditionBar,
      status,
    );
    watch("change:counts", count);
    keys(
      () => false,
      [
        ["Tab", "next field"],
        ["Enter", "press a button"],
      ],
    );
    count();
  });
}
