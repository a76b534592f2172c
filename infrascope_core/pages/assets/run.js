const MOST_ROWS = 400;
const alarmsOf = Object.fromEntries(DATA.ribbon.map((own) => [own.host, own.alarms]));
const labels = DATA.faults.map((fault) => [fault.from, fault.to]);
const several = DATA.ribbon.length > 1;

function drawRibbon() {
  const place = document.getElementById('ribbon');
  for (const own of DATA.ribbon) {
    const figure = document.createElement('figure');
    if (several) figure.append(made('figcaption', '', own.host));
    place.append(figure);
    const table = [Array.from(singles(own.x)), nullable(singles(own.surprisal))];
    const drawing = table[0].length ? table : [[0], [null]];
    plot(figure, {
      unit: '',
      height: 130,
      floor: 0,
      series: [{ stroke: colour('trace'), width: 1.2, points: { show: false } }],
      bands: [],
      spans: [
        (u) => hatch(u, own.gaps),
        (u) => shade(u, own.alarms, `${colour('alarm')}66`, 1),
        (u) => shade(u, labels, colour('label'), 0.08),
      ],
      data: () => drawing,
    });
    if (!own.judged) figure.append(made('p', 'legend', 'No window of this host could be judged.'));
  }
  for (const fault of DATA.faults) place.append(made('p', 'legend', `Known fault: ${fault.name}, ${clock(fault.from)} to ${clock(fault.to)}.`));
}

function drawCharts() {
  const place = document.getElementById('charts');
  if (!DATA.charts.length) place.append(made('p', '', 'No metric of this run stands out, or none could be judged.'));
  for (const chart of DATA.charts) {
    const figure = document.createElement('figure');
    const caption = made('figcaption', '', chart.metric);
    caption.append(made('small', '', ` ${chart.subsystem}${several ? `, ${chart.host}` : ''}`));
    figure.append(caption);
    place.append(figure);
    const axis = DATA.axes[chart.host];
    const levels = [chart.whole, ...chart.details].map((part, i) => trace(i ? axis.details[i - 1] : axis.x, part));
    const expected = chart.expected ? trace(axis.expected, chart.expected) : [[], [], []];
    const whole = joinedTrace(expected, levels[0]);
    const details = levels.slice(1).map((part) => ({ from: part[0][0], to: part[0][part[0].length - 1], table: joinedTrace(expected, part) }));
    plot(figure, {
      unit: chart.unit,
      height: 170,
      series: [
        { stroke: 'transparent', points: { show: false }, spanGaps: true },
        { stroke: 'transparent', points: { show: false }, spanGaps: true },
        { stroke: colour('trace'), width: 1.2, points: { show: false } },
        { stroke: colour('trace'), width: 1.2, points: { show: false } },
      ],
      bands: [
        { series: [2, 1], fill: `${colour('expected')}55` },
        { series: [4, 3], fill: `${colour('trace')}55` },
      ],
      spans: [
        (u) => shade(u, alarmsOf[chart.host] || [], `${colour('alarm')}33`, 1),
        (u) => shade(u, labels, colour('label'), 0.05),
      ],
      // at full sampling where all that is shown is known so; a spike of one sample is in either
      data: (from, to) => (details.find((part) => part.from <= from + 1e-6 && to <= part.to + 1e-6) || { table: whole }).table,
    });
  }
}

/** Points in time with least and largest values; one of both where each point is a single sample. */
function trace(x, part) {
  const low = nullable(singles(part.low));
  return [Array.from(singles(x)), low, part.high === undefined ? low : nullable(singles(part.high))];
}

/** Expected band and trace in one table: x, expected low and high, low and high. */
function joinedTrace(expected, trace) {
  const table = joined([expected, trace]);
  if (!expected[0].length) return trace[0].length ? [trace[0], trace[0].map(() => null), trace[0].map(() => null), trace[1], trace[2]] : [[0], [null], [null], [null], [null]];
  if (!trace[0].length) return [expected[0], expected[1], expected[2], expected[0].map(() => null), expected[0].map(() => null)];
  // undefined: the point is the other's; null: it is missing
  return table;
}

function drawStrips() {
  const share = scale(hex('cold'), hex('hot'), 'transparent');
  for (const name of ['subsystems', 'detectors']) {
    const rows = rowsOf(DATA.strips[name]);
    const place = document.getElementById(name);
    if (rows.length) strips(place, rows, share);
    else place.append(made('p', '', 'Nothing was flagged.'));
  }
  const rows = rowsOf(DATA.strips.levels);
  const place = document.getElementById('levels');
  const of = { 0: colour('low'), 127: colour('medium'), 254: colour('high'), 255: colour('missing') };
  if (rows.length) strips(place, rows, (value) => of[value] || colour('medium'));
  else place.append(made('p', '', 'No metric group of the recipe has data in this run.'));
}

/** A colour as #rrggbb. */
function hex(name) {
  return colour(name);
}

function drawHeat() {
  const { metrics, families, subsystems, columns } = DATA.heat;
  const cells = octets(DATA.heat.cells);
  const row = (i) => cells.subarray(i * columns, (i + 1) * columns);
  const paint = scale(hex('cold'), hex('hot'), colour('missing'));
  const place = document.getElementById('heat');
  const matches = document.getElementById('matches');
  const folded = [];
  families.forEach((family, i) => {
    const last = folded[folded.length - 1];
    if (last && last.family === family && last.group === subsystems[i]) last.members.push(i);
    else folded.push({ family, group: subsystems[i], members: [i] });
  });
  const families_ = folded.map(({ family, group, members }) => ({
    name: members.length > 1 ? `${family} (${members.length})` : metrics[members[0]],
    group,
    cells: members.length > 1 ? largest(members.map(row), columns) : row(members[0]),
  }));
  function show(asked) {
    const words = asked.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) {
      strips(place, families_, paint);
      matches.textContent = `${families_.length} families of ${metrics.length} metrics`;
      return;
    }
    const found = metrics.map((_, i) => i).filter((i) => words.every((word) => `${metrics[i]} ${subsystems[i]}`.toLowerCase().includes(word)));
    strips(place, found.slice(0, MOST_ROWS).map((i) => ({ name: metrics[i], group: subsystems[i], cells: row(i) })), paint);
    matches.textContent = found.length > MOST_ROWS ? `${found.length} metrics, the first ${MOST_ROWS} shown` : `${found.length} metrics`;
  }
  if (metrics.length) show('');
  else place.append(made('p', '', 'Nothing was compared: there is no baseline for this run.'));
  document.getElementById('filter').addEventListener('input', (event) => show(event.target.value));
}

/** The largest of several rows; 255 is missing. */
function largest(rows, columns) {
  return Uint8Array.from({ length: columns }, (_, at) => rows.reduce((most, row) => (row[at] === 255 ? most : most === 255 ? row[at] : Math.max(most, row[at])), 255));
}

let chosen = -1;
/** Zoom all plots to an episode. @param {number} number */
function showEpisode(number) {
  const episode = DATA.episodes[number];
  if (!episode) return;
  chosen = number;
  const room = Math.min(30, Math.max(episode.to - episode.from, 2));
  time.show(episode.from - room, episode.to + room);
  document.querySelectorAll('.episode').forEach((button) => button.setAttribute('aria-pressed', String(Number(button.dataset.episode) === number)));
}

function whole() {
  chosen = -1;
  time.show(0, DATA.end - DATA.start);
  document.querySelectorAll('.episode').forEach((button) => button.setAttribute('aria-pressed', 'false'));
}

/** Episodes follow each other in time, whatever their rank. */
function step(by) {
  const order = DATA.episodes.map((_, i) => i).sort((a, b) => DATA.episodes[a].from - DATA.episodes[b].from);
  if (!order.length) return;
  const at = order.indexOf(chosen);
  showEpisode(order[at < 0 ? (by > 0 ? 0 : order.length - 1) : (at + by + order.length) % order.length]);
}

/** `#t=15:39:53` shows that moment. */
function goToMoment() {
  const match = /^#t=(?:(\d{4}-\d\d-\d\d)[T ])?(\d\d):(\d\d):(\d\d)$/.exec(decodeURIComponent(location.hash));
  if (!match) return;
  const day = match[1] || new Date(DATA.start * 1000).toISOString().slice(0, 10);
  let at = Date.parse(`${day}T${match[2]}:${match[3]}:${match[4]}Z`) / 1000 - DATA.start;
  if (!match[1] && at < -1) at += 86400;
  if (at >= -1 && at <= DATA.end - DATA.start + 1) time.show(at - 15, at + 15);
}

time.onChange = () => {
  const all = time.from <= 0 && time.to >= DATA.end - DATA.start;
  document.getElementById('shown').textContent = all ? `Shown: the whole run, ${clock(0)} to ${clock(DATA.end - DATA.start)}` : `Shown: ${clock(time.from)} to ${clock(time.to)}`;
};

drawRibbon();
drawCharts();
drawStrips();
drawHeat();
time.onChange();
goToMoment();
document.querySelectorAll('.episode').forEach((button) => button.addEventListener('click', () => showEpisode(Number(button.dataset.episode))));
document.getElementById('next').addEventListener('click', () => step(1));
document.getElementById('previous').addEventListener('click', () => step(-1));
document.getElementById('reset').addEventListener('click', whole);
const all = document.getElementById('all-episodes');
if (all) all.addEventListener('click', () => { document.querySelector('.episodes').classList.add('all'); all.remove(); });
addEventListener('hashchange', goToMoment);
addEventListener('keydown', (event) => {
  if (event.target instanceof HTMLInputElement || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === 'n') step(1);
  else if (event.key === 'p') step(-1);
  else if (event.key === '0' || event.key === 'Escape') whole();
});
let pending;
addEventListener('resize', () => {
  clearTimeout(pending);
  pending = setTimeout(() => time.plots.forEach((own) => own.resize()), 100);
});
