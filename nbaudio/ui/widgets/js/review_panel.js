// A reviewer's loop without a mouse: a key, the verdict is kept, the next clip plays.

function render(widget) {
  return mount(widget, "review-panel", async ({ root, ask, keys, close, complain }) => {
    const { result: begun } = await ask("review.open");
    let current = null; // number of the segment that is shown
    let next = null; // { number, position } of the next one without a verdict
    let corrected = null; // words that the reviewer put right, not yet given
    let transcript = ""; // of the segment that is shown

    const bar = make("div", { class: "nba-done" }, make("span", {}));
    const count = make("span", { class: "nba-progress", role: "status" });
    const who = make("input", { type: "text", class: "nba-who", "aria-label": "reviewer", title: "whose verdicts these are", list: `nba-who-${begun.review}` });
    const names = make("datalist", { id: `nba-who-${begun.review}` });
    const above = make("div", { class: "nba-bar" }, bar, count, make("span", { class: "nba-space" }), make("span", { class: "nba-faint", text: "reviewer" }), who, names);
    const list = make("div", {});
    const hearing = make("div", { class: "nba-listening" });
    const verdicts = make("div", { class: "nba-verdicts", role: "group", "aria-label": "verdict" });
    const comment = make("input", { type: "text", class: "nba-comment", "aria-label": "comment", placeholder: "comment   t" });
    const text = make("textarea", { class: "nba-text", "aria-label": "the right words", rows: "2", dir: "auto", hidden: true });
    const edit = button("correct the words", "write what is really said", () => editText());
    edit.append(make("kbd", { text: "e" }));
    const undo = button("undo", "take the last verdict back", () => takeBack());
    undo.append(make("kbd", { text: "u" }));
    const skip = button("next open", "the next segment without a verdict", () => goNext());
    skip.append(make("kbd", { text: "n" }));
    root.append(above, list, hearing, verdicts, text, make("div", { class: "nba-bar" }, comment, edit, undo, skip));

    const player = createPlayer(hearing, { ask, root });
    const table = createTable(list, { ask, height: 190, onMove: (row) => open(row.number, { play: true }), onOpen: () => player.toggle() });
    close(() => player.stop());

    const buttons = begun.words.map(({ word, meaning }, i) => {
      const element = button(word, meaning || word, () => give(i));
      if (i < 9) element.prepend(make("kbd", { text: String(i + 1) }));
      verdicts.append(element);
      return element;
    });

    function progress(state) {
      const share = state.total ? state.done / state.total : 0;
      bar.firstChild.style.width = `${(100 * share).toFixed(2)}%`;
      const pace = state.per_hour ? ` · ${number(Math.round(state.per_hour))} an hour` : "";
      const left = state.left_s && state.left_s < 200 * 3600 ? ` · ${state.left_s < 5400 ? `${Math.ceil(state.left_s / 60)} min` : `${number(state.left_s / 3600, 1)} h`} left` : "";
      count.textContent = `${number(state.done)} of ${number(state.total)} judged${pace}${left}`;
      undo.disabled = !state.undo;
      who.value = state.reviewer;
      names.replaceChildren(...state.reviewers.map((name) => make("option", { value: name })));
    }

    async function open(which, { play = false } = {}) {
      if (which === current && play) return;
      current = which;
      corrected = null;
      text.hidden = true;
      const shown = player.show(which, { play });
      ask("review.said", { number: which }).then(({ result }) => {
        if (current !== which) return;
        comment.value = result.said?.comment ?? "";
        transcript = result.text;
        corrected = result.said?.corrected_text ?? null;
        text.value = corrected ?? result.text;
        text.hidden = corrected === null;
        buttons.forEach((element, i) => element.setAttribute("aria-pressed", begun.words[i].word === result.said?.verdict));
      });
      await shown;
      await lookAhead();
    }

    async function lookAhead() {
      next = (await ask("review.next", { position: table.position() })).result;
      if (next && next.number !== current) player.prefetch(next.number);
    }

    async function give(i) {
      if (current === null || !begun.words[i]) return;
      if (begun.words[i].word === "ok" && corrected?.trim() && corrected.trim() !== transcript.trim()) {
        complain("'ok' says that the transcript is right, but there are right words: clear them or choose another verdict");
        return;
      }
      const said = { number: current, verdict: begun.words[i].word, comment: comment.value, corrected_text: corrected };
      buttons.forEach((element, j) => element.setAttribute("aria-pressed", i === j));
      const there = { number: current, position: table.position() };
      root.focus({ preventScroll: true });
      // The next one plays while this one is being kept.
      const kept = ask("review.give", said);
      if (next && next.number !== current) go(next, { play: true });
      try {
        progress((await kept).result);
      } catch (error) {
        complain(`not kept: ${error.message}`);
        buttons.forEach((element) => element.setAttribute("aria-pressed", false));
        if (error.message !== GONE) go(there, { play: false });
        return;
      }
      table.refresh();
      if (current !== there.number) return;
      // The next one was not known yet.
      await lookAhead();
      if (next && current === there.number) go(next, { play: true });
    }

    function go(place, { play }) {
      open(place.number, { play });
      if (place.position !== null) table.move(place.position, { silent: true });
    }

    async function takeBack() {
      const { result } = await ask("review.undo");
      progress(result);
      table.refresh();
      if (result.number !== null) go(result, { play: true });
      root.focus({ preventScroll: true });
    }

    async function goNext() {
      await lookAhead();
      if (next) go(next, { play: true });
      root.focus({ preventScroll: true });
    }

    function editText() {
      text.hidden = false;
      text.focus();
    }

    text.addEventListener("input", () => (corrected = text.value));
    for (const field of [text, comment, who]) {
      field.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" || event.shiftKey) return;
        event.preventDefault();
        root.focus({ preventScroll: true });
      });
    }
    who.addEventListener("change", async () => {
      try {
        progress((await ask("review.switch", { reviewer: who.value })).result);
      } catch {
        return;
      }
      table.refresh();
      const which = current;
      current = null;
      open(which);
    });

    const inTable = ["ArrowDown", "ArrowUp", "PageDown", "PageUp", "Home", "End", "/"];
    keys((event) => {
      const digit = "123456789".indexOf(event.key);
      if (digit >= 0) give(digit);
      else if (event.key === "u") takeBack();
      else if (event.key === "n") goNext();
      else if (event.key === "t") comment.focus();
      else if (event.key === "e") editText();
      else if (inTable.includes(event.key)) return table.key(event);
      else return player.key(event);
      return true;
    });

    progress(begun);
    await table.ready;
    const first = await table.settledRow();
    if (first) await open(first.number);
    else hearing.append(make("p", { class: "nba-faint", text: "no segments" }));
  });
}
