// Review by keyboard: a key logs the verdict, and the next clip plays.

function render(widget) {
  return mount(widget, "review-panel", async ({ root, request, keys, close, showError }) => {
    const { result: opened } = await request("review.open");
    let current = null; // number of the segment that is shown
    let next = null; // { number, position } of the next one without a verdict
    let corrected = null; // words corrected by the reviewer, sent with the verdict
    let transcript = ""; // of the segment that is shown

    const progressBar = make("div", { class: "nba-done" }, make("span", {}));
    const count = make("span", { class: "nba-progress", role: "status" });
    const reviewerInput = make("input", { type: "text", class: "nba-who", "aria-label": "reviewer", title: "name of the reviewer", list: `nba-who-${opened.review}` });
    const names = make("datalist", { id: `nba-who-${opened.review}` });
    const above = make("div", { class: "nba-bar" }, progressBar, count, make("span", { class: "nba-space" }), make("span", { class: "nba-faint", text: "reviewer" }), reviewerInput, names);
    const list = make("div", {});
    const playerHost = make("div", { class: "nba-listening" });
    const verdicts = make("div", { class: "nba-verdicts", role: "group", "aria-label": "verdict" });
    const comment = make("input", { type: "text", class: "nba-comment", "aria-label": "comment", placeholder: "comment   t" });
    const text = make("textarea", { class: "nba-text", "aria-label": "corrected words", rows: "2", dir: "auto", hidden: true });
    const edit = button("correct the words", "write the words that are spoken", () => editText());
    edit.append(make("kbd", { text: "e" }));
    const undoButton = button("undo", "undo the last verdict", () => withdraw());
    undoButton.append(make("kbd", { text: "u" }));
    const nextButton = button("next open", "the next segment without a verdict", () => goNext());
    nextButton.append(make("kbd", { text: "n" }));
    root.append(above, list, playerHost, verdicts, text, make("div", { class: "nba-bar" }, comment, edit, undoButton, nextButton));

    const player = createPlayer(playerHost, { request, root });
    const table = createTable(list, { request, height: 190, onMove: (row) => open(row.number, { play: true }), onOpen: () => player.toggle() });
    close(() => player.stop());

    const buttons = opened.words.map(({ word, meaning }, i) => {
      const element = button(word, meaning || word, () => giveVerdict(i));
      if (i < 9) element.prepend(make("kbd", { text: String(i + 1) }));
      verdicts.append(element);
      return element;
    });

    function progress(state) {
      const share = state.total ? state.done / state.total : 0;
      progressBar.firstChild.style.width = `${(100 * share).toFixed(2)}%`;
      const pace = state.per_hour ? ` · ${number(Math.round(state.per_hour))} an hour` : "";
      const left = state.left_s && state.left_s < 200 * 3600 ? ` · ${state.left_s < 5400 ? `${Math.ceil(state.left_s / 60)} min` : `${number(state.left_s / 3600, 1)} h`} left` : "";
      count.textContent = `${number(state.done)} of ${number(state.total)} judged${pace}${left}`;
      undoButton.disabled = !state.undo;
      reviewerInput.value = state.reviewer;
      names.replaceChildren(...state.reviewers.map((name) => make("option", { value: name })));
    }

    async function open(which, { play = false } = {}) {
      if (which === current && play) return;
      current = which;
      corrected = null;
      text.hidden = true;
      const shown = player.show(which, { play });
      request("review.said", { number: which }).then(({ result }) => {
        if (current !== which) return;
        comment.value = result.said?.comment ?? "";
        transcript = result.text;
        corrected = result.said?.corrected_text ?? null;
        text.value = corrected ?? result.text;
        text.hidden = corrected === null;
        buttons.forEach((element, i) => element.setAttribute("aria-pressed", opened.words[i].word === result.said?.verdict));
      });
      await shown;
      await prefetchNext();
    }

    async function prefetchNext() {
      next = (await request("review.next", { position: table.position() })).result;
      if (next && next.number !== current) player.prefetch(next.number);
    }

    async function giveVerdict(i) {
      if (current === null || !opened.words[i]) return;
      if (opened.words[i].word === "ok" && corrected?.trim() && corrected.trim() !== transcript.trim()) {
        showError("'ok' says that the transcript is right, but there are corrected words: clear them or choose another verdict");
        return;
      }
      const said = { number: current, verdict: opened.words[i].word, comment: comment.value, corrected_text: corrected };
      buttons.forEach((element, j) => element.setAttribute("aria-pressed", i === j));
      const there = { number: current, position: table.position() };
      root.focus({ preventScroll: true });
      // The next clip plays while this verdict is logged.
      const kept = request("review.give", said);
      if (next && next.number !== current) go(next, { play: true });
      try {
        progress((await kept).result);
      } catch (error) {
        showError(`not saved: ${error.message}`);
        buttons.forEach((element) => element.setAttribute("aria-pressed", false));
        if (error.message !== GONE) go(there, { play: false });
        return;
      }
      table.refresh();
      if (current !== there.number) return;
      // The next segment was not known yet.
      await prefetchNext();
      if (next && current === there.number) go(next, { play: true });
    }

    function go(place, { play }) {
      open(place.number, { play });
      if (place.position !== null) table.move(place.position, { silent: true });
    }

    async function withdraw() {
      const { result } = await request("review.undo");
      progress(result);
      table.refresh();
      if (result.number !== null) go(result, { play: true });
      root.focus({ preventScroll: true });
    }

    async function goNext() {
      await prefetchNext();
      if (next) go(next, { play: true });
      root.focus({ preventScroll: true });
    }

    function editText() {
      text.hidden = false;
      text.focus();
    }

    text.addEventListener("input", () => (corrected = text.value));
    for (const field of [text, comment, reviewerInput]) {
      field.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" || event.shiftKey) return;
        event.preventDefault();
        root.focus({ preventScroll: true });
      });
    }
    reviewerInput.addEventListener("change", async () => {
      try {
        progress((await request("review.switch", { reviewer: reviewerInput.value })).result);
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
      if (digit >= 0) giveVerdict(digit);
      else if (event.key === "u") withdraw();
      else if (event.key === "n") goNext();
      else if (event.key === "t") comment.focus();
      else if (event.key === "e") editText();
      else if (inTable.includes(event.key)) return table.key(event);
      else return player.key(event);
      return true;
    });

    progress(opened);
    await table.ready;
    const first = await table.loadedRow();
    if (first) await open(first.number);
    else playerHost.append(make("p", { class: "nba-faint", text: "no segments" }));
  });
}
