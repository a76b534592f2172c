/** @param {string} name @returns {string} a colour of the style sheet */
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Shade stretches of time over a share of the height of a plot, from the bottom or from the top. */
function shade(plot, spans, fill, share, fromTop = false) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.fillStyle = fill;
  for (const [from, to] of spans) {
    const left = plot.valToPos(from, 'x', true);
    const width = Math.max(plot.valToPos(to, 'x', true) - left, 2);
    if (left + width >= bbox.left && left <= bbox.left + bbox.width) {
      ctx.fillRect(left, bbox.top + (fromTop ? 0 : bbox.height * (1 - share)), width, bbox.height * share);
    }
  }
  ctx.restore();
}

/** Hatch stretches in which nothing was sampled. */
function hatch(plot, spans) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = colour('soft');
  for (const [from, to] of spans) {
    const left = Math.max(plot.valToPos(from, 'x', true), bbox.left);
    const right = Math.min(plot.valToPos(to, 'x', true), bbox.left + bbox.width);
    if (right <= left) continue;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, bbox.top, right - left, bbox.height);
    ctx.clip();
    ctx.beginPath();
    for (let x = left - bbox.height; x < right; x += 8) {
      ctx.moveTo(x, bbox.top + bbox.height);
      ctx.lineTo(x + bbox.height, bbox.top);
    }
    ctx.stroke();
    ctx.restore();
  }
  ctx.restore();
}

/** One axis of time for all plots: whoever zooms, zooms all. */
const time = {
  plots: [],
  changed: [],
  episode: -1,
  from: 0,
  to: Math.max(DATA.end - DATA.start, 1e-3),
  /** @param {number} from @param {number} to seconds from the start @param {number} episode which is why, -1 for none */
  show(from, to, episode = -1) {
    time.episode = episode;
    const whole = Math.max(DATA.end - DATA.start, 1e-3);
    time.from = Math.max(0, Math.min(from, whole));
    time.to = Math.min(whole, Math.max(to, time.from + 1e-3));
    for (const plot of time.plots) plot.rezoom(time.from, time.to);
    for (const react of time.changed) react();
  },
};

/** Steps of the axis of time that a person reads: seconds, minutes, hours, days. */
const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];

/** Ticks at full seconds, minutes, hours of the clock, wherever the run begins. */
function onTheClock(_u, _axis, low, high, step) {
  const found = [];
  for (let k = Math.ceil((DATA.start + low) / step - 1e-6); k * step <= DATA.start + high + 1e-6; k++) found.push(k * step - DATA.start);
  return found;
}

/** Ticks with their unit, in as many digits as it takes to tell them apart. @param {number[]} at @param {string} unit */
function apart(at, unit) {
  let texts;
  for (let digits = 3; digits < 9; digits++) {
    texts = at.map((value) => quantity(value, unit, digits));
    if (new Set(texts).size === texts.length) break;
  }
  return texts;
}

/**
 * Bytes are counted by 1024, and so are the ticks of their axes: in steps of 100 MB up to 1 GB, in tenths of a GB beyond.
 * @param {string} unit
 * @param {number} largest value that is shown
 */
function stepsOf(unit, largest) {
  const factor = BYTES[unit.split('/')[0].toLowerCase()];
  if (factor === undefined) return {};
  const steps = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
  for (let size = 1; size <= 1024 ** 5; size *= 1024) {
    const hundreds = largest * factor < 1024 * size ? [100, 200, 500] : [102.4, 204.8, 512];
    steps.push(...[1, 2, 5, 10, 20, 50, ...hundreds].map((n) => size * n));
  }
  return { incrs: steps.map((step) => step / factor) };
}

/** The largest value of a table. */
function largestOf([, ...columns]) {
  return columns.reduce((most, column) => column.reduce((found, value) => Math.max(found, Math.abs(value ?? 0)), most), 0);
}

/**
 * A plot over the shared axis of time.
 * @param {HTMLElement} place
 * @param {{title: string, unit: string, height: number, spans: Array, bands: Array, series: Array, data: Function, floor?: number}} what
 */
function plot(place, what) {
  // colours are asked for whenever something is drawn: paper has others than a dark screen
  const axis = { stroke: () => colour('soft'), grid: { stroke: () => colour('rule'), width: 1 }, ticks: { stroke: () => colour('rule') }, font: '11px sans-serif' };
  const width = () => Math.max(place.clientWidth, 200);
  const table = what.data(time.from, time.to);
  const options = {
    width: width(),
    height: what.height,
    legend: { show: false },
    cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false } },
    scales: {
      x: { time: false, range: () => [time.from, time.to] },
      y: { range: (_, low, high) => span(low, high, what.floor) },
    },
    axes: [
      { ...axis, size: 28, incrs: STEPS, splits: onTheClock, values: (_, at) => at.map(clock), space: DATA.end - DATA.start > 86400 ? 150 : 80 },
      { ...axis, size: 74, ...stepsOf(what.unit, largestOf(table)), values: (_, at) => apart(at, what.unit) },
    ],
    series: [{}, ...what.series],
    bands: what.bands,
    hooks: {
      drawClear: [(u) => what.spans.forEach((draw) => draw(u))],
      setSelect: [
        (u) => {
          if (u.select.width > 2) time.show(u.posToVal(u.select.left, 'x'), u.posToVal(u.select.left + u.select.width, 'x'));
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
    },
  };
  const drawn = new uPlot(options, table, place);
  const own = {
    rezoom(from, to) {
      drawn.setData(what.data(from, to), true);
    },
    resize() {
      drawn.setSize({ width: width(), height: what.height });
    },
    redraw() {
      drawn.redraw(false);
    },
  };
  time.plots.push(own);
  return own;
}

/** Bounds of a vertical axis with a little room. */
function span(low, high, floor) {
  if (low == null || high == null) return [floor ?? 0, (floor ?? 0) + 1];
  if (floor !== undefined) low = Math.min(floor, low);
  const room = high > low ? 0.06 * (high - low) : Math.max(Math.abs(high) * 0.1, 0.5);
  return [floor === undefined ? low - room : low, high + room];
}
