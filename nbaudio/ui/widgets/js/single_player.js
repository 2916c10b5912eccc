function render(widget) {
  return mount(widget, "player", async ({ root, request, keys, bind, close, watch, model }) => {
    const place = make("span", { class: "nba-count" });
    const earlier = button("‹", "previous clip (arrow up)", () => turn(-1));
    const later = button("›", "next clip (arrow down)", () => turn(1));
    const bar = make("div", { class: "nba-turn" }, earlier, place, later);
    root.append(bar);
    const { result } = await request("player.open");
    const player = createPlayer(root, { request, root, fixed: result.fixed });
    bar.hidden = result.linked || result.total < 2;
    let at = result.at;
    let [, plays] = model.get("current");
    close(() => player.stop());

    // Rows of a table have their own order; each turn begins where the one before it ended.
    let turned = Promise.resolve();
    const goBy = (by) =>
      (turned = turned
        .then(() => request("player.turn", { number: at, by }))
        .then(
          (answer) => answer.result >= 0 && void go(answer.result, true),
          () => {},
        ));
    const turn = (by, play = false) =>
      result.linked ? goBy(by) : result.total && go(at + by, play);
    /** Show a segment, and tell linked widgets its number. */
    async function go(to, play = false) {
      at = Math.max(0, Math.min(result.total - 1, to));
      model.set("current", [at, plays]);
      model.save_changes();
      place.textContent = `${number(at + 1)} of ${number(result.total)}`;
      earlier.disabled = at === 0;
      later.disabled = at === result.total - 1;
      await player.show(at, { play });
      if (at + 1 < result.total) player.prefetch(at + 1);
    }

    /** Show, and play if it was asked for once more, what a linked widget or Python has set. */
    function follow() {
      const [to, asked] = model.get("current");
      const play = asked > plays;
      plays = asked;
      if (to < 0 || to >= result.total) player.stop();
      else if (to !== at || play) go(to, play);
    }
    watch("change:current", follow);

    bind([
      [
        "↑ ↓",
        "previous, next clip",
        { ArrowUp: () => turn(-1, true), ArrowDown: () => turn(1, true) },
      ],
    ]);
    keys(player.key, player.help);
    bindVerdicts({ root, model, request, bind }, () => at);
    if (result.total) await go(at);
    else root.append(make("p", { class: "nba-faint", text: "no segments" }));
  });
}
