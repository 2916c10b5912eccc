// The view of this widget that was used last: it alone plays what is set from outside. Each widget
// loads this file for itself.
let speaking = null;

function render(widget) {
  return mount(widget, "segment-table", ({ root, model, request, keys, bind, close, watch }) => {
    const mode = model.get("_player"); // own, linked or missing
    const view = (speaking = {});
    const listening = make("div", { class: "nba-listening", hidden: true });
    let player = null; // created when it is first needed
    let playing = null; // number of the row in the player
    let [, plays] = model.get("current");
    let pointing = false;

    /** Set the current row; `more` is 1 to play it. */
    function point(number, more) {
      speaking = view;
      const [before, asked] = model.get("current");
      if (number === before && !more) return;
      pointing = true;
      model.set("current", [number, asked + more]);
      pointing = false;
      model.save_changes();
      show(number, asked + more);
    }

    function show(number, asked) {
      const play = asked > plays && (speaking ??= view) === view;
      plays = asked;
      if (number < 0 || (!play && listening.hidden)) return;
      if (mode === "missing" && play) {
        listening.replaceChildren(
          make("p", {
            class: "nba-faint",
            role: "status",
            text: "these rows cannot be played: SegmentTable(workspace) plays segments, a plain frame has no audio",
          }),
        );
        listening.hidden = false;
      } else if (mode === "own") {
        player ??= createPlayer(listening, { request, root });
        listening.hidden = false;
        if (number !== playing || play) player.show((playing = number), { play });
      }
    }

    /** Play a row from its start, or pause it. */
    function open(row, { double }) {
      if (mode === "linked" && double) return; // its first click has played it
      const sounds = [...listening.querySelectorAll("audio")].some((audio) => !audio.paused);
      if (row.number === playing && !listening.hidden && sounds && !double) player.toggle();
      else point(row.number, 1);
    }

    const table = createTable(root, {
      request,
      saved: true,
      height: model.get("height"),
      onMove: (row) => point(row.number, 0),
      onClick: (row) => point(row.number, mode === "linked" ? 1 : 0),
      onOpen: open,
    });
    root.append(listening);

    function follow() {
      if (pointing) return;
      const [number, asked] = model.get("current");
      if (number >= 0) table.moveTo(number);
      show(number, asked);
    }
    watch("change:current", follow);
    watch("msg:custom", (message) => {
      if (message.arranged !== undefined) table.reload(message.arranged);
    });
    close(() => {
      player?.stop();
      if (speaking === view) speaking = null;
    });

    const rows = () => [
      ...new Map([
        ...table.help,
        ...(player?.help ?? []),
        ...table.help,
        ...(mode === "own"
          ? [
              ["Enter", "play or pause the row"],
              ["Esc", "close the player"],
            ]
          : []),
      ]),
    ]; // a key that both have is the table's
    keys((event) => {
      if (event.key === "Escape" && !listening.hidden) {
        player?.stop();
        playing = null;
        listening.hidden = true;
      } else return table.key(event) || Boolean(player && !listening.hidden && player.key(event));
      return true;
    }, rows);
    bindVerdicts({ root, model, request, bind }, async () => (await table.loadedRow())?.number);
    return table.ready;
  });
}
