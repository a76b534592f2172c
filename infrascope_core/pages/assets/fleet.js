const DATA = JSON.parse(document.getElementById('data').textContent);
const AT_ONCE = 200;
const COLUMNS = [
  ['verdict', 'Verdict'], ['run', 'Run'], ['workload', 'Workload'], ['phase', 'Phase'], ['host', 'Host'], ['start', 'Start'], ['seconds', 'Length'],
  ['spark', 'Surprisal'], ['share', 'Anomalous'], ['episodes', 'Episodes'], ['per_day', 'Alerts per day'], ['subsystem', 'Subsystem'], ['worst', 'Worst episode'],
];
const NUMBERS = new Set(['seconds', 'share', 'episodes', 'per_day']);
const rows = DATA.rows.map((values) => Object.fromEntries(DATA.columns.map((name, i) => [name, values[i]])));
const texts = rows.map((row) => COLUMNS.filter(([name]) => name !== 'spark').map(([name]) => row[name] ?? '').join(' ').toLowerCase());
let order = rows.map((_, i) => i);
let shown = AT_ONCE;
let sorted = 'share';
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

function cell(row, name) {
  const td = document.createElement('td');
  if (NUMBERS.has(name)) td.className = 'number';
  const value = row[name];
  if (name === 'run') {
    const link = document.createElement('a');
    link.href = row.link;
    link.textContent = value;
    td.append(link);
  } else if (name === 'spark') td.append(sparkline(value));
  else if (name === 'seconds') td.textContent = length(value);
  else if (value === null || value === undefined) td.textContent = name === 'per_day' && row.share !== null ? 'too short' : 'not judged';
  else if (name === 'share') td.textContent = `${(100 * value).toFixed(2)} %`;
  else if (name === 'verdict') td.textContent = value;
  else td.textContent = String(value);
  return td;
}

function draw() {
  const words = document.getElementById('filter').value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = order.filter((i) => words.every((word) => texts[i].includes(word)));
  const body = document.querySelector('#runs tbody');
  const drawn = document.createDocumentFragment();
  for (const i of found.slice(0, shown)) {
    const tr = document.createElement('tr');
    for (const [name] of COLUMNS) tr.append(cell(rows[i], name));
    drawn.append(tr);
  }
  body.replaceChildren(drawn);
  document.getElementById('matches').textContent = `${found.length} of ${rows.length} runs${found.length > shown ? `, the first ${shown} shown` : ''}`;
  document.getElementById('more').hidden = found.length <= shown;
}

function sort(name) {
  falling = name === sorted ? !falling : NUMBERS.has(name);
  sorted = name;
  arrange();
}

function arrange() {
  const sign = falling ? -1 : 1;
  const key = (i) => (sorted === 'spark' ? rows[i].spark.replaceAll('.', '') : rows[i][sorted]);
  const compare = (a, b) => (a === b ? 0 : a === null ? 1 : b === null ? -1 : (a < b ? -1 : 1) * sign);
  order = rows.map((_, i) => i).sort((i, j) => compare(key(i), key(j)) || i - j);
  document.querySelectorAll('#runs th').forEach((th) => th.setAttribute('aria-sort', th.dataset.name === sorted ? (falling ? 'descending' : 'ascending') : 'none'));
  draw();
}

const head = document.createElement('tr');
for (const [name, title] of COLUMNS) {
  const th = document.createElement('th');
  th.dataset.name = name;
  th.scope = 'col';
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = title;
  button.addEventListener('click', () => sort(name));
  th.append(button);
  head.append(th);
}
document.querySelector('#runs thead').append(head);
document.getElementById('filter').addEventListener('input', draw);
document.getElementById('more').addEventListener('click', () => { shown += AT_ONCE; draw(); });
arrange();
