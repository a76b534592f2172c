/**
 * Rows over time, a pixel a cell.
 * @param {HTMLElement} place
 * @param {{name: string, cells: Uint8Array, group?: string}[]} rows
 * @param {(value: number) => string} paint
 */
function strips(place, rows, paint) {
  place.replaceChildren();
  const grid = document.createElement('div');
  grid.className = 'strip';
  let group;
  for (const row of rows) {
    if (row.group !== undefined && row.group !== group) {
      group = row.group;
      grid.append(made('div', 'group', group));
    }
    const name = made('div', 'name', row.name);
    name.title = row.name;
    const canvas = document.createElement('canvas');
    canvas.width = row.cells.length;
    canvas.height = 1;
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', `${row.name} over time`);
    const ctx = canvas.getContext('2d');
    row.cells.forEach((value, column) => {
      ctx.fillStyle = paint(value);
      ctx.fillRect(column, 0, 1, 1);
    });
    grid.append(name, canvas);
  }
  const axis = made('div', 'axis', '');
  for (const at of [0, 0.5, 1]) axis.append(made('span', '', clock(at * (DATA.end - DATA.start))));
  grid.append(axis);
  place.append(grid);
}

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

/** Between two colours, by 255 steps that are worked out once. */
function scale(from, to, missing) {
  const parse = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
  const [a, b] = [parse(from), parse(to)];
  const steps = Array.from({ length: 255 }, (_, i) => `rgb(${a.map((c, k) => Math.round(c + ((b[k] - c) * i) / 254)).join(',')})`);
  return (value) => (value === 255 ? missing : steps[value]);
}
