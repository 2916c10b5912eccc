const CLIP_OPTIONS = { before: 0, after: 0, channel: null, even: true, columns: 1 };

function render(widget) {
  return mount(widget, "transcript-diff", async ({ root, request, keys, close }) => {
    const { result } = await request("diffs");
    const audio = make("audio", { hidden: true, on: { playing: () => highlight() } });
    let current = null; // the item that is playing
    let url = "";
    root.append(audio);
    close(() => (audio.pause(), URL.revokeObjectURL(url)));

    async function play(item, seconds) {
      if (current !== item) {
        current?.diff.at(null);
        const { result: sound, later } = await request("clip", {
          number: item.number,
          ...CLIP_OPTIONS,
        });
        item.note.textContent = sound.note ?? "";
        if (sound.note) return;
        const [wav] = await later;
        URL.revokeObjectURL(url);
        url = URL.createObjectURL(new Blob([wav], { type: "audio/wav" }));
        audio.src = url;
        current = item;
      }
      audio.currentTime = seconds;
      await audio.play();
    }

    function highlight() {
      current?.diff.at(audio.paused ? null : audio.currentTime);
      if (!audio.paused) requestAnimationFrame(highlight);
    }

    for (let i = 0; i < result.shown; i += 1) {
      const words = make("div", {});
      const item = { number: i, note: make("span", { class: "nba-faint" }) };
      item.diff = createDiff(words, { onSeek: (seconds) => play(item, seconds) });
      const title = make("div", { class: "nba-title" });
      root.append(make("div", { class: "nba-item" }, title, words));
      const { result: segment } = await request("segment", { number: i });
      title.append(
        ...factsOf(segment),
        button("▶", `play ${segment.segment_id}`, () =>
          current === item && !audio.paused ? audio.pause() : play(item, 0),
        ),
        item.note,
      );
      item.diff.show(segment.words, segment.unshown, segment.lines);
    }
    if (result.hidden)
      root.append(
        make("p", { class: "nba-faint", text: `and ${number(result.hidden)} more, not shown` }),
      );
    if (!result.shown) root.append(make("p", { class: "nba-faint", text: "no segments" }));
    keys(
      (event) =>
        event.key === " " && (audio.paused ? current && audio.play() : audio.pause(), true),
      [["Space", "play or pause the clip that played last"]],
    );
  });
}
