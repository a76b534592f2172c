/**
 * Rows over the shared axis of time, a pixel a cell: a name, its lane, and perhaps a figure.
 * @param {HTMLElement} place
 * @param {{name: string, cells: Uint8Array, group?: string, figure?: string, fold?: {open: boolean, toggle: Function}}[]} rows
 * @param {() => number[][]} palette red, green, blue and opacity of each of 256 values
 */
function strips(place, rows, palette) {
  const grid = made('div', rows.some((row) => row.figure !== undefined) ? 'strip figures' : 'strip', '');
  let group;
  for (const row of rows) {
    if (row.group !== undefined && row.group !== group) {
      group = row.group;
      grid.append(made('div', 'group', group));
    }
    grid.append(row.fold ? foldable(row) : made('div', row.member ? 'name member' : 'name', row.name), lane(row, palette));
    if (row.figure !== undefined) grid.append(made('div', 'figure', row.figure));
  }
  const axis = made('div', 'axis', '');
  for (let i = 0; i < 3; i++) axis.append(made('span', '', ''));
  grid.append(axis);
  place.replaceChildren(grid);
  label(axis);
}

/** The name of several rows, which are shown when it is pressed. */
function foldable(row) {
  const button = made('button', 'name fold', row.name);
  button.type = 'button';
  button.setAttribute('aria-expanded', String(row.fold.open));
  button.addEventListener('click', row.fold.toggle);
  return button;
}

const lanes = new Map();
/** The lane of a row; a zoom moves the picture within it (page.css). Drawn once: there may be thousands of them. */
function lane(row, palette) {
  if (!lanes.has(row.cells)) {
    const canvas = document.createElement('canvas');
    canvas.width = row.cells.length;
    canvas.height = 1;
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', `${row.name} over time`);
    const around = made('div', 'lane', '');
    around.append(canvas);
    const draw = () => {
      const colours = palette();
      const ctx = canvas.getContext('2d');
      const image = ctx.createImageData(row.cells.length, 1);
      row.cells.forEach((value, column) => image.data.set(colours[value], 4 * column));
      ctx.putImageData(image, 0, 0);
    };
    draw();
    lanes.set(row.cells, { around, draw });
  }
  return lanes.get(row.cells).around;
}

/** Times at both ends of an axis, and in the middle. */
function label(axis) {
  [0, 0.5, 1].forEach((at, i) => { axis.children[i].textContent = clock(time.from + at * (time.to - time.from)); });
}

time.changed.push(() => {
  const whole = Math.max(DATA.end - DATA.start, 1e-3);
  const style = document.documentElement.style;
  style.setProperty('--zoom', String(whole / (time.to - time.from)));
  style.setProperty('--from', String(time.from / whole));
  document.querySelectorAll('.axis').forEach(label);
});

/** @param {string} tag @param {string} style @param {string} text */
function made(tag, style, text) {
  const element = document.createElement(tag);
  if (style) element.className = style;
  element.textContent = text;
  return element;
}

/** Rows of a packed table. @param {{names: string[], columns: number, cells: string}} packed */
function rowsOf(packed) {
  const cells = octets(packed.cells);
  return packed.names.map((name, i) => ({ name, cells: cells.subarray(i * packed.columns, (i + 1) * packed.columns) }));
}

/** Red, green, blue and opacity of a colour of the style sheet. @param {string} name */
function channels(name) {
  const text = colour(name);
  return [...[1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16)), 255];
}

/** Colours of 255 steps between two, and of what is missing; worked out once until they change. */
function scale(from, to, missing) {
  const [a, b] = [channels(from), channels(to)];
  const steps = Array.from({ length: 255 }, (_, i) => [...[0, 1, 2].map((k) => Math.round(a[k] + ((b[k] - a[k]) * i) / 254)), 255]);
  return [...steps, missing];
}
