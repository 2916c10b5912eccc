// Drawing of a clip in a canvas: waveform, spectrogram and ruler.

const WAVE_PX = 84;
const BANDS_PX = 112;
const RULER_PX = 18;
// From silence to loud, on a light and on a dark background.
const LIGHT = [[255, 255, 255], [214, 228, 240], [110, 165, 205], [22, 82, 135], [5, 24, 58]];
const DARK = [[17, 17, 17], [20, 42, 66], [28, 92, 142], [110, 176, 222], [240, 248, 255]];

/** Interpolate 256 colors between the stops, each as the four bytes of a pixel. */
function palette(stops) {
  const bytes = new Uint8ClampedArray(4 * 256).fill(255);
  for (let i = 0; i < 256; i += 1) {
    const place = (i / 255) * (stops.length - 1);
    const at = Math.min(Math.floor(place), stops.length - 2);
    stops[at].forEach((value, channel) => (bytes[4 * i + channel] = value + (place - at) * (stops[at + 1][channel] - value)));
  }
  return new Uint32Array(bytes.buffer);
}

function isDark(element) {
  const [red, green, blue] = (getComputedStyle(element).backgroundColor.match(/\d+/g) ?? [255, 255, 255]).map(Number);
  return red + green + blue < 380;
}

/** Draw a clip over `width` pixels in the colors of `host` and `root`; without audio the canvas stays empty. */
function drawClip(canvas, clip, width, { host, root }) {
  const scale = window.devicePixelRatio || 1;
  const height = WAVE_PX + BANDS_PX + RULER_PX;
  canvas.width = Math.max(1, width * scale);
  canvas.height = height * scale;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.clearRect(0, 0, width, height);
  if (!clip?.audio) return;
  canvas.setAttribute("aria-label", `waveform and spectrogram of ${clip.seconds.toFixed(1)} seconds`);
  const style = getComputedStyle(host);
  drawWave(pen, clip, width, style.getPropertyValue("--hold").trim() || "#0072b2");
  drawBands(pen, clip, width, palette(isDark(root) ? DARK : LIGHT));
  drawRuler(pen, clip, width, style.color);
}

function drawWave(pen, clip, width, color) {
  const columns = clip.peaks.length / 2;
  const middle = WAVE_PX / 2;
  pen.fillStyle = color;
  for (let i = 0; i < columns; i += 1) {
    const low = clip.peaks[2 * i] / 128;
    const high = clip.peaks[2 * i + 1] / 128;
    const top = middle - high * (middle - 2);
    pen.fillRect((i * width) / columns, top, Math.max(0.7, width / columns), Math.max(1, (high - low) * (middle - 2)));
  }
}

function drawBands(pen, clip, width, colors) {
  const columns = clip.peaks.length / 2;
  const bands = clip.bands.length / columns;
  const image = new ImageData(columns, bands);
  const pixels = new Uint32Array(image.data.buffer);
  for (let x = 0; x < columns; x += 1) {
    for (let y = 0; y < bands; y += 1) pixels[(bands - 1 - y) * columns + x] = colors[clip.bands[x * bands + y]];
  }
  const small = new OffscreenCanvas(columns, bands);
  small.getContext("2d").putImageData(image, 0, 0);
  pen.drawImage(small, 0, WAVE_PX, width, BANDS_PX);
}

/** Seconds from the start of the segment. */
function drawRuler(pen, clip, width, color) {
  pen.fillStyle = color;
  pen.globalAlpha = 0.7;
  pen.font = "10.5px sans-serif";
  const step = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20].find((each) => (each / clip.seconds) * width > 56) ?? 30;
  const top = WAVE_PX + BANDS_PX;
  for (let tick = Math.ceil(-clip.start / step); tick * step + clip.start <= clip.seconds; tick += 1) {
    const x = ((tick * step + clip.start) / clip.seconds) * width;
    const label = `${String(Math.round(tick * step * 100) / 100).replace("-", "−")} s`;
    pen.fillRect(x, top, 1, 4);
    pen.fillText(label, Math.min(Math.max(0, x + 3), width - pen.measureText(label).width), top + 14);
  }
  pen.globalAlpha = 1;
}
