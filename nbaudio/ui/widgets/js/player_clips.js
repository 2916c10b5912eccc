// Clips of a player, requested once and kept while they are recent.

const CACHED_CLIPS = 6;

/**
 * Create the cache of a player's clips; the audio elements are in `stage` and report on the clip
 * that is shown.
 */
function createClips(stage, { state, root, request, timeline, onLimit, onEnd, onPause }) {
  const clips = new Map(); // key -> promise of a clip, oldest first

  function fetch(asked) {
    const columns = timeline.columns();
    const key = JSON.stringify([asked, columns]);
    if (!clips.has(key)) {
      clips.set(
        key,
        request("clip", { ...asked, columns }).then(({ result, buffers, later }) =>
          prepare(asked, result, buffers, later),
        ),
      );
      clips.get(key).catch(() => clips.delete(key));
      for (const [old, dropped] of clips) {
        if (clips.size <= CACHED_CLIPS) break;
        clips.delete(old);
        dropped.then(
          (oldClip) => oldClip !== state.clip && release(oldClip),
          () => {},
        );
      }
    }
    return clips.get(key);
  }

  /**
   * Return a clip: its audio, its pictures, and its bounds `from` and `to` in seconds from the
   * segment's start.
   */
  function prepare(asked, result, buffers, later) {
    if (result.note) return { note: result.note };
    const audio = make("audio", { preload: "auto", hidden: true });
    const shown = () => state.clip?.audio === audio;
    audio.addEventListener("playing", () => (root.dataset.playing = performance.now()));
    audio.addEventListener("ended", () => shown() && onEnd());
    audio.addEventListener("pause", () => shown() && !audio.ended && onPause());
    audio.addEventListener("timeupdate", () => shown() && !audio.paused && onLimit()); // a hidden page has no frames
    stage.append(audio);
    const [from, to] = [-result.start, result.seconds - result.start];
    return {
      asked,
      audio,
      from,
      to,
      finest: result.finest, // no picture of a part is sharper
      length: result.end - result.start, // of the segment
      whole: { 1: pictureOf(buffers, from, to) },
      loaded: later.then(([wav]) => {
        if (!audio.isConnected) return;
        audio.src = result.url ?? URL.createObjectURL(new Blob([wav], { type: "audio/wav" }));
        audio.load();
      }),
    };
  }

  function release(clip) {
    if (!clip.audio) return;
    clip.audio.pause();
    clip.audio.remove();
    if (clip.audio.src) URL.revokeObjectURL(clip.audio.src);
  }

  return { fetch };
}
