const DATA = JSON.parse(document.getElementById('data').textContent);
const AT_ONCE = 200;
/** Columns that are filtered by choosing a value, where they have few of them. */
const CHOSEN = new Set(['verdict', 'subsystem', 'host', 'workload', 'phase', 'platform']);
const FEW = 12;
/** Name, title and kind of each column. */
const COLUMNS = [
  ['verdict', 'Verdict', 'text'], ['run', 'Run', 'text'], ['subsystem', 'Subsystem', 'text'], ['said', 'What happened', 'text'],
  ['spark', 'Surprisal', 'picture'], ['share', 'Anomalous', 'share'], ['episodes', 'Episodes', 'number'], ['per_day', 'Alerts per day', 'number'],
  ['host', 'Host', 'text'], ['start', 'Start', 'text'], ['seconds', 'Length', 'length'],
  ['workload', 'Workload', 'text'], ['phase', 'Phase', 'text'], ['platform', 'Platform', 'text'],
];
const UNITS = { s: 1, min: 60, h: 3600, d: 86400 };
const COMPARED = { '<': (a, b) => a < b, '<=': (a, b) => a <= b, '>': (a, b) => a > b, '>=': (a, b) => a >= b, '=': (a, b) => a === b };
const rows = DATA.rows.map((values) => Object.fromEntries(DATA.columns.map((name, i) => [name, values[i]])));
const isText = (kind) => kind === 'text';
/** What words are looked for in; that nothing is anomalous is nothing to look for. */
const texts = rows.map((row) => COLUMNS.filter(([name, , kind]) => isText(kind) && (name !== 'said' || row.verdict !== 'Normal')).map(([name]) => row[name] ?? '').join(' ').toLowerCase());
const fields = new Map();
let order = rows.map((_, i) => i);
let shown = AT_ONCE;
let sorted = ''; // as they come: by verdict, the worst first
let falling = true;

/** @param {number} seconds */
function length(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${(seconds / 60).toFixed(1)} min`;
  return seconds < 172800 ? `${(seconds / 3600).toFixed(1)} h` : `${(seconds / 86400).toFixed(1)} d`;
}

/** A line of 40 heights. @param {string} digits */
function sparkline(digits) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('class', 'spark');
  svg.setAttribute('viewBox', `0 0 ${Math.max(digits.length - 1, 1)} 36`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', 'surprisal over the run');
  const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  let line = '';
  let down = false;
  [...digits].forEach((digit, i) => {
    if (digit === '.') { down = false; return; }
    line += `${down ? 'L' : 'M'}${i} ${35 - parseInt(digit, 36)}`;
    down = true;
  });
  path.setAttribute('d', line);
  path.setAttribute('vector-effect', 'non-scaling-stroke');
  svg.append(path);
  return svg;
}

function cell(row, name, title, kind) {
  const td = document.createElement('td');
  td.dataset.title = title;
  td.className = isText(kind) || kind === 'picture' ? `of-${name}` : `of-${name} number`;
  const value = row[name];
  if (name === 'run') {
    const link = document.createElement('a');
    link.href = row.link;
    link.textContent = value;
    td.append(link);
  } else if (kind === 'picture') td.append(sparkline(value));
  else if (value === null || value === undefined) td.textContent = name === 'per_day' && row.share !== null ? 'too short' : 'not judged';
  else if (kind === 'length') td.textContent = length(value);
  else if (kind === 'share') td.textContent = `${(100 * value).toFixed(2)} %`;
  else td.textContent = String(value);
  if (name === 'verdict') td.classList.add(value.split(' ')[0].toLowerCase());
  return td;
}

/** Whether a number is what was asked for: `5` and `>= 5` at least, `< 2 min`; nothing else is understood. */
function asksFor(asked, kind) {
  const match = /^(<=?|>=?|=)?\s*(\d+(?:\.\d*)?|\.\d+)\s*(%|s|min|h|d)?$/.exec(asked);
  if (!match) return null;
  const [, sign, number, unit] = match;
  const bound = Number(number) * (kind === 'share' ? 0.01 : kind === 'length' ? UNITS[unit] || 1 : 1);
  return (value) => value !== null && value !== undefined && COMPARED[sign || '>='](value, bound);
}

/** What each filter that is filled asks of a row. */
function conditions() {
  const words = document.getElementById('filter').value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = words.length ? [(_, i) => words.every((word) => texts[i].includes(word))] : [];
  for (const [name, , kind] of COLUMNS) {
    const field = fields.get(name);
    const asked = field ? field.value.trim().toLowerCase() : '';
    let test = null;
    if (asked && !isText(kind)) test = asksFor(asked, kind);
    else if (asked && field.tagName === 'SELECT') test = (value) => String(value ?? '').toLowerCase() === asked;
    else if (asked) test = (value) => String(value ?? '').toLowerCase().includes(asked);
    if (field) field.setAttribute('aria-invalid', String(Boolean(asked) && !test));
    if (test) found.push((row) => test(row[name]));
  }
  return found;
}

function draw() {
  const asked = conditions();
  const found = order.filter((i) => asked.every((holds) => holds(rows[i], i)));
  const drawn = document.createDocumentFragment();
  for (const i of found.slice(0, shown)) {
    const tr = document.createElement('tr');
    for (const [name, title, kind] of COLUMNS) tr.append(cell(rows[i], name, title, kind));
    drawn.append(tr);
  }
  document.querySelector('#runs tbody').replaceChildren(drawn);
  document.getElementById('matches').textContent = `${found.length} of ${rows.length} runs${found.length > shown ? `, the first ${shown} shown` : ''}`;
  document.getElementById('more').hidden = found.length <= shown;
}

function sort(name, kind) {
  falling = name === sorted ? !falling : !isText(kind);
  sorted = name;
  arrange();
}

function arrange() {
  const sign = falling ? -1 : 1;
  const key = (i) => (sorted === 'spark' ? [...rows[i].spark].reduce((most, digit) => (digit > most ? digit : most), '.') : rows[i][sorted]);
  const compare = (a, b) => (a === b ? 0 : a === null ? 1 : b === null ? -1 : (a < b ? -1 : 1) * sign);
  order = rows.map((_, i) => i).sort((i, j) => compare(key(i), key(j)) || i - j);
  document.querySelectorAll('#runs th[data-name]').forEach((th) => th.setAttribute('aria-sort', th.dataset.name === sorted ? (falling ? 'descending' : 'ascending') : 'none'));
  draw();
}

/** A field to filter a column by: a choice where it has few values. */
function field(name, title, kind) {
  const values = CHOSEN.has(name) ? [...new Set(rows.map((row) => row[name] ?? ''))].filter(Boolean).sort() : [];
  const choice = CHOSEN.has(name) && values.length <= FEW;
  const made = document.createElement(choice ? 'select' : 'input');
  if (choice) {
    for (const value of ['', ...values]) {
      const option = document.createElement('option');
      option.value = value;
      option.textContent = value || 'all';
      made.append(option);
    }
  } else {
    made.type = 'search';
    made.autocomplete = 'off';
    made.placeholder = isText(kind) ? 'contains' : kind === 'length' ? 'at least, s' : kind === 'share' ? 'at least, %' : 'at least';
  }
  made.setAttribute('aria-label', `Filter by ${title.toLowerCase()}`);
  made.addEventListener('input', draw);
  fields.set(name, made);
  return made;
}

const titles = document.createElement('tr');
const filters = document.createElement('tr');
filters.className = 'filters';
for (const [name, title, kind] of COLUMNS) {
  const th = document.createElement('th');
  th.dataset.name = name;
  th.scope = 'col';
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = title;
  button.addEventListener('click', () => sort(name, kind));
  th.append(button);
  titles.append(th);
  const td = document.createElement('td');
  if (kind !== 'picture') td.append(field(name, title, kind));
  filters.append(td);
}
document.querySelector('#runs thead').append(titles, filters);
document.getElementById('filter').addEventListener('input', draw);
document.getElementById('clear').addEventListener('click', () => {
  document.getElementById('filter').value = '';
  for (const one of fields.values()) one.value = '';
  draw();
});
document.getElementById('more').addEventListener('click', () => { shown += AT_ONCE; draw(); });
draw();
