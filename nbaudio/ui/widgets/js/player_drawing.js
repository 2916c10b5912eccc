// Drawing of a clip in a canvas: waveform of one or several channels, spectrogram, frequency axis
// and ruler.

const LANE_PX = [0, 84, 60, 48, 40]; // height of a channel, by the number of channels
const BANDS_PX = 112;
const RULER_PX = 18;
// Levels of the bytes of a spectrogram, dB below full scale: see `spectrogram` of clip_audio.py.
const QUIETEST_DB = -100;
const LOUDEST_DB = -25;
const STEPS_S = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20];
const STEPS_KHZ = [0.5, 1, 2, 4, 5, 10, 20];
// From silence to loud, on a light and on a dark background.
const LIGHT = [
  [255, 255, 255],
  [214, 228, 240],
  [110, 165, 205],
  [22, 82, 135],
  [5, 24, 58],
];
const DARK = [
  [17, 17, 17],
  [20, 42, 66],
  [28, 92, 142],
  [110, 176, 222],
  [240, 248, 255],
];

/**
 * Interpolate 256 colors between the stops, each as the four bytes of a pixel; `low` and `high` dB
 * are the first and last color.
 */
function palette(stops, low, high) {
  const bytes = new Uint8ClampedArray(4 * 256).fill(255);
  for (let i = 0; i < 256; i += 1) {
    const level = QUIETEST_DB + (i / 255) * (LOUDEST_DB - QUIETEST_DB);
    const place = Math.max(0, Math.min(1, (level - low) / (high - low))) * (stops.length - 1);
    const at = Math.min(Math.floor(place), stops.length - 2);
    stops[at].forEach(
      (value, channel) =>
        (bytes[4 * i + channel] = value + (place - at) * (stops[at + 1][channel] - value)),
    );
  }
  return new Uint32Array(bytes.buffer);
}

function isDark(element) {
  const [red, green, blue] = (
    getComputedStyle(element).backgroundColor.match(/\d+/g) ?? [255, 255, 255]
  ).map(Number);
  return red + green + blue < 380;
}

/** Height of the waveforms of `lanes` channels. */
const waveHeight = (lanes) => lanes * LANE_PX[Math.min(lanes, LANE_PX.length - 1)];

/**
 * Draw pictures of a clip, `{ from, to, lanes, bands }`, later ones over earlier ones; none leave
 * the canvas empty. `view` is `{ from, to }`, also in seconds from the segment's start; `rate` is
 * Hz or null.
 */
function drawClip(
  canvas,
  { pictures, view, lanes, rate, decibels: [low, high] },
  width,
  { host, root },
) {
  const top = waveHeight(lanes);
  const height = top + BANDS_PX + RULER_PX;
  canvas.style.height = `${height}px`;
  const pen = resizeCanvas(canvas, width, height);
  if (!pictures.length) return;
  const style = getComputedStyle(host);
  const ground = getComputedStyle(root).backgroundColor;
  const color = style.getPropertyValue("--hold").trim() || "#0072b2";
  const colors = palette(isDark(root) ? DARK : LIGHT, low, high);
  const xOf = (seconds) => ((seconds - view.from) / (view.to - view.from)) * width;
  for (const picture of pictures) {
    const place = { left: xOf(picture.from), width: xOf(picture.to) - xOf(picture.from), top };
    pen.clearRect(place.left, 0, place.width, top);
    picture.lanes.forEach((peaks, i) =>
      drawWave(pen, peaks, { ...place, top: (i * top) / lanes, height: top / lanes }, width, color),
    );
    drawBands(pen, picture.bands, place, colors);
  }
  const label = labeler(pen, style.color, ground, width);
  if (lanes > 1)
    for (let i = 0; i < lanes; i += 1)
      label(lanes > 2 ? `channel ${i + 1}` : ["left", "right"][i], 4, ((i + 1) * top) / lanes - 4);
  if (rate) drawFrequencies(pen, top, rate / 2000, label);
  drawRuler(pen, view, xOf, top + BANDS_PX, width, label);
}

/**
 * Return a function that writes a text at a point, on a halo of the background so that it is
 * legible on anything.
 */
function labeler(pen, color, ground, width) {
  return (text, x, y) => {
    pen.font = "10.5px sans-serif";
    pen.lineWidth = 3;
    pen.lineJoin = "round";
    pen.strokeStyle = ground;
    pen.fillStyle = color;
    const left = Math.min(Math.max(0, x), width - pen.measureText(text).width);
    pen.strokeText(text, left, y);
    pen.fillText(text, left, y);
  };
}

function drawWave(pen, peaks, { left, width, top, height }, most, color) {
  const columns = peaks.length / 2;
  const middle = top + height / 2;
  const columnWidth = width / columns;
  pen.fillStyle = color;
  for (
    let i = Math.max(0, Math.floor(-left / columnWidth) - 1);
    i < columns && left + i * columnWidth < most;
    i += 1
  ) {
    // A column reaches the one before it: a wave of few samples is a line.
    const low = Math.min(peaks[2 * i], i ? peaks[2 * i - 1] : 127) / 128;
    const high = Math.max(peaks[2 * i + 1], i ? peaks[2 * i - 2] : -128) / 128;
    pen.fillRect(
      left + i * columnWidth,
      middle - high * (height / 2 - 2),
      Math.max(0.7, columnWidth),
      Math.max(1, (high - low) * (height / 2 - 2)),
    );
  }
}

function drawBands(pen, levels, { left, width, top }, colors) {
  const columns = levels.length / BANDS;
  const image = new ImageData(columns, BANDS);
  const pixels = new Uint32Array(image.data.buffer);
  for (let x = 0; x < columns; x += 1) {
    for (let y = 0; y < BANDS; y += 1)
      pixels[(BANDS - 1 - y) * columns + x] = colors[levels[x * BANDS + y]];
  }
  const small = new OffscreenCanvas(columns, BANDS);
  small.getContext("2d").putImageData(image, 0, 0);
  pen.drawImage(small, left, top, width, BANDS_PX);
}

/** Label the frequencies up to `most` kHz at the left of the spectrogram. */
function drawFrequencies(pen, top, most, label) {
  const step = STEPS_KHZ.find((candidate) => (candidate / most) * BANDS_PX >= 22) ?? most;
  for (let frequency = step; frequency < most; frequency += step) {
    const y = top + BANDS_PX * (1 - frequency / most);
    label(`${frequency} kHz`, 8, y + 4);
    pen.fillRect(0, y, 5, 1);
  }
}

/** Label the seconds from the start of the segment. */
function drawRuler(pen, { from, to }, xOf, top, width, label) {
  const step = STEPS_S.find((candidate) => (candidate / (to - from)) * width > 56) ?? 30;
  for (let tick = Math.ceil(from / step); tick * step <= to; tick += 1) {
    const x = xOf(tick * step);
    label(`${String(Math.round(tick * step * 1000) / 1000).replace("-", "−")} s`, x + 3, top + 14);
    pen.fillRect(x, top, 1, 4);
  }
}
