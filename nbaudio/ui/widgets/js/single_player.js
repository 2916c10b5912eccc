function render(widget) {
  return mount(widget, "player", async ({ root, request, keys, close }) => {
    const place = make("span", { class: "nba-count" });
    const earlier = button("‹", "previous clip (arrow up)", () => go(-1));
    const later = button("›", "next clip (arrow down)", () => go(1));
    const bar = make("div", { class: "nba-turn" }, earlier, place, later);
    root.append(bar);
    const player = createPlayer(root, { request, root });
    const { result } = await request("player.open");
    let at = result.at;
    close(() => player.stop());

    async function go(step, play = false) {
      at = Math.max(0, Math.min(result.total - 1, at + step));
      place.textContent = `${number(at + 1)} of ${number(result.total)}`;
      earlier.disabled = at === 0;
      later.disabled = at === result.total - 1;
      bar.hidden = result.total < 2;
      await player.show(at, { play });
      if (at + 1 < result.total) player.prefetch(at + 1);
    }

    keys((event) => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") go(event.key === "ArrowDown" ? 1 : -1, true);
      else return player.key(event);
      return true;
    });
    if (result.total) await go(0);
    else root.append(make("p", { class: "nba-faint", text: "no segments" }));
  });
}
