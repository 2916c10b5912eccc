// Review by keyboard: a key logs the verdict, and the next clip plays.

function render(widget) {
  return mount(widget, "review-panel", async ({ root, request, keys, bind, close, showError }) => {
    const { result: opened } = await request("review.open");
    let current = null; // number of the segment that is shown
    let next = null; // { number, position } of the next one without a verdict
    let corrected = null; // words corrected by the reviewer, sent with the verdict
    let transcript = ""; // of the segment that is shown
    let words = []; // of its verdict
    let marking = false; // whether words were added or removed with Shift since it was opened
    let earlier = Promise.resolve(); // until its earlier verdict is known

    const progressBar = make("div", { class: "nba-done" }, make("span", {}));
    const count = make("span", { class: "nba-progress", role: "status" });
    const reviewerInput = make("input", {
      class: "nba-who",
      "aria-label": "reviewer",
      title: "name of the reviewer",
      type: "text",
      readonly: opened.fixed,
    });
    const nextStep = make("p", { class: "nba-next-step", role: "status", hidden: true });
    const above = make(
      "div",
      { class: "nba-bar" },
      progressBar,
      count,
      make("span", { class: "nba-space" }),
      make("span", { class: "nba-faint", text: "reviewer" }),
      reviewerInput,
    );
    const list = make("div", {});
    const playerHost = make("div", { class: "nba-listening" });
    const verdicts = make("div", { class: "nba-verdicts", role: "group", "aria-label": "verdict" });
    const comment = make("input", {
      type: "text",
      class: "nba-comment",
      "aria-label": "comment",
      placeholder: "comment   t",
    });
    const text = make("textarea", {
      class: "nba-text",
      "aria-label": "corrected words",
      rows: "2",
      dir: "auto",
      hidden: true,
      on: { input: () => (corrected = text.value) },
    });
    const edit = button(
      "correct the words",
      "write the words that are spoken",
      () => editText(),
      "e",
    );
    const undoButton = button("undo", "undo the last verdict", () => withdraw(), "u");
    const nextButton = button(
      "next open",
      "the next segment without a verdict",
      () => goNext(),
      "n",
    );
    root.append(
      above,
      nextStep,
      list,
      playerHost,
      verdicts,
      text,
      make("div", { class: "nba-bar" }, comment, edit, undoButton, nextButton),
    );

    const player = createPlayer(playerHost, {
      request,
      root,
      fixed: opened.page || opened.clip_only,
      levels: !opened.page,
    });
    const listen = (row) => open(row.number, { play: true });
    const table = createTable(list, {
      request,
      plain: opened.page,
      height: 190,
      onMove: listen,
      onClick: listen,
      onOpen: () => player.toggle(),
    });
    close(() => player.stop());

    /** Show the present verdicts in the table, whose column appears with the first one. */
    const showVerdicts = () =>
      table.hasColumn("verdict") ? table.refresh() : table.updateColumns();

    const isFault = (word) => word !== undefined && word !== "ok" && word !== "unsure";
    const buttons = opened.words.map(({ word, meaning }, i) => {
      const title = `${meaning || word}${isFault(word) ? "; with Shift: a further fault" : ""}`;
      const element = button(word, title, (event) =>
        event.shiftKey && isFault(word) ? toggleFault(i) : giveVerdict(i),
      );
      if (i < 9) element.prepend(make("kbd", { text: String(i + 1) }));
      verdicts.append(element);
      return element;
    });

    /** Show the words of a verdict as pressed buttons. */
    function press(pressedWords) {
      words = opened.words.map(({ word }) => word).filter((word) => pressedWords.includes(word));
      buttons.forEach((element, i) =>
        element.setAttribute("aria-pressed", words.includes(opened.words[i].word)),
      );
    }

    function progress(state) {
      progressBar.firstChild.style.width = `${((100 * state.done) / (state.total || 1)).toFixed(2)}%`;
      const pace = state.per_hour ? ` · ${number(Math.round(state.per_hour))} an hour` : "";
      const left =
        state.left_s && state.left_s < 200 * 3600
          ? ` · ${state.left_s < 5400 ? `${Math.ceil(state.left_s / 60)} min` : `${number(state.left_s / 3600, 1)} h`} left`
          : "";
      count.textContent = `${number(state.done)} of ${number(state.total)} judged${pace}${left}`;
      undoButton.disabled = !state.undo;
      nextStep.textContent = visible(state.next ?? "");
      nextStep.hidden = !state.next;
      reviewerInput.value = state.reviewer;
    }

    /** Name what was typed and is not in the log without a verdict; empty if nothing was typed. */
    function describeUnlogged() {
      if (comment.value.trim()) return "the comment was";
      return isCorrected() ? "the corrected words were" : "";
    }

    async function open(which, { play = false } = {}) {
      if (which === current && play) return;
      const lost = describeUnlogged();
      if (which !== current && lost && !words.length)
        showError(`${lost} not saved: a verdict is needed`);
      press([]);
      comment.value = text.value = transcript = "";
      current = which;
      next = corrected = null; // the next segment of the one before may not be that of this one
      marking = false;
      text.hidden = true;
      const shown = player.show(which, { play });
      earlier = request("review.said", { number: which }).then(
        ({ result }) => {
          if (current !== which) return;
          comment.value ||= result.said?.comment ?? ""; // what was typed meanwhile stays
          transcript = result.text;
          corrected ??= result.said?.corrected_text ?? null;
          text.value = corrected ?? result.text;
          text.hidden &&= corrected === null;
          press((result.said?.verdict ?? "").split(", "));
        },
        () => {},
      );
      await shown;
      await prefetchNext();
    }

    async function prefetchNext() {
      const which = current;
      const { result } = await request("review.next", { position: table.position() });
      if (current !== which) return;
      next = result;
      if (next && next.number !== current) player.prefetch(next.number);
    }

    const isCorrected = () => Boolean(corrected?.trim()) && corrected.trim() !== transcript.trim();

    /**
     * Wait until the earlier verdict on the segment is known; return whether there is a segment and
     * it is still shown.
     */
    async function earlierIsKnown() {
      await table.settled();
      const which = current;
      await earlier;
      return which !== null && which === current;
    }

    /** Say so, and return true, if a verdict contradicts the corrected words. */
    function contradicts(word) {
      const isContradiction = word === "ok" && isCorrected();
      if (isContradiction)
        showError(
          "'ok' says that the transcript is right, but there are corrected words: clear them or choose another verdict",
        );
      return isContradiction;
    }

    async function giveVerdict(i) {
      if (!opened.words[i] || !(await earlierIsKnown())) return;
      const { word } = opened.words[i];
      if (contradicts(word)) return;
      press(marking && isFault(word) ? [...words, word] : [word]);
      const place = { number: current, position: table.position() };
      root.focus({ preventScroll: true });
      // The next clip plays while this verdict is logged.
      const logged = log(place);
      if (next && next.number !== current) go(next, { play: true });
      if (!(await logged) || current !== place.number) return;
      // The next segment was not known yet.
      await prefetchNext();
      if (next && current === place.number) go(next, { play: true });
    }

    /** Add a further fault to the verdict, or remove it, and stay. */
    async function toggleFault(i) {
      if (!(await earlierIsKnown())) return;
      const { word } = opened.words[i];
      marking = true;
      press(
        words.includes(word)
          ? words.filter((other) => other !== word)
          : [...words.filter(isFault), word],
      );
      root.focus({ preventScroll: true });
      log({ number: current, position: table.position() });
    }

    /**
     * Log the verdict of the segment at a place; return whether it was, and show that segment again
     * if not.
     */
    async function log(place) {
      const entry = {
        number: place.number,
        verdict: words.join(", ") || null,
        comment: comment.value,
        corrected_text: corrected,
      };
      try {
        progress((await request("review.give", entry)).result);
      } catch (error) {
        showError(`not saved: ${error.message}`);
        press([]);
        if (error.message !== GONE) go(place, { play: false });
        return false;
      }
      showVerdicts();
      return true;
    }

    function go(place, { play }) {
      open(place.number, { play });
      if (place.position !== null) table.move(place.position, { silent: true });
    }

    async function withdraw() {
      const { result } = await request("review.undo");
      progress(result);
      showVerdicts();
      if (result.number === current) current = null; // a fault was added with Shift: show the verdict from before
      if (result.number !== null) go(result, { play: true });
      root.focus({ preventScroll: true });
    }

    async function goNext() {
      await prefetchNext();
      if (next) go(next, { play: true });
      root.focus({ preventScroll: true });
    }

    const editText = () => ((text.hidden = false), text.focus());

    // What is written after the verdict is logged with it.
    for (const field of [text, comment])
      field.addEventListener(
        "change",
        async () =>
          (await earlierIsKnown()) &&
          words.length &&
          !contradicts(words[0]) &&
          log({ number: current, position: table.position() }),
      );
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
      showVerdicts();
      open(current);
    });

    bind([
      [`1–${Math.min(9, opened.words.length)}`, "give the verdict with that number", {}],
      [`Shift+1–${Math.min(9, opened.words.length)}`, "add or remove a further fault", {}],
      ["u", "undo the last verdict", { u: withdraw }],
      ["n", "go to the next segment without a verdict", { n: goNext }],
      ["t", "write a comment", { t: () => comment.focus() }],
      ["e", "correct the words", { e: editText }],
    ]);
    const inTable = ["ArrowDown", "ArrowUp", "PageDown", "PageUp", "Home", "End", "/"];
    // Other keys are for the segment under the cursor, also right after it was moved.
    root.addEventListener(
      "keydown",
      (event) => inTable.includes(event.key) || table.settled(),
      true,
    );
    keys(
      (event) => {
        // With Shift, or on keyboards that have digits on Shift only, a digit is known by its place
        // on the keyboard.
        const [, row, place] = /^(Digit|Numpad)([1-9])$/.exec(event.code) ?? [];
        const digit = "123456789".split("").indexOf(event.key);
        if (event.shiftKey && isFault(opened.words[place - 1]?.word)) toggleFault(place - 1);
        else if (digit >= 0) giveVerdict(digit);
        else if (inTable.includes(event.key)) return table.key(event);
        else if (player.key(event)) return true;
        else if (row === "Digit" && !event.shiftKey) giveVerdict(place - 1);
        else return false;
        return true;
      },
      [...table.help.filter(([names]) => names === "/" || names.startsWith("↑")), ...player.help],
    );

    progress(opened);
    await table.ready;
    const first = await table.loadedRow();
    if (first) await open(first.number);
    else playerHost.append(make("p", { class: "nba-faint", text: "no segments" }));
  });
}
