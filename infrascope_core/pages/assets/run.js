const MOST_ROWS = 400;
const CLEAR = [0, 0, 0, 0];
const alarmsOf = Object.fromEntries(DATA.ribbon.map((own) => [own.host, own.alarms]));
const gapsOf = Object.fromEntries(DATA.ribbon.map((own) => [own.host, own.gaps]));
const labels = DATA.faults.map((fault) => [fault.from, fault.to]);
const several = DATA.ribbon.length > 1;
const byId = (name) => document.getElementById(name);

/** From when to when the episodes of a host last, as the text says. */
function episodes(host) {
  return DATA.episodes.filter((episode) => episode.host === host).map((episode) => [episode.from, episode.to]);
}

function drawRibbon() {
  const place = byId('ribbon');
  for (const own of DATA.ribbon) {
    const figure = document.createElement('figure');
    if (several) figure.append(made('figcaption', '', own.host));
    place.append(figure);
    const table = broken([Array.from(singles(own.x)), nullable(singles(own.surprisal))], own.gaps);
    const drawing = table[0].length ? table : [[0], [null]];
    plot(figure, {
      unit: '',
      height: 130,
      floor: 0,
      series: [{ stroke: () => colour('trace'), width: 1.2, points: { show: false } }],
      bands: [],
      spans: [
        (u) => hatch(u, own.gaps),
        (u) => shade(u, own.alarms, `${colour('alarm')}66`, 1),
        (u) => shade(u, episodes(own.host), colour('bad'), 0.08, true),
        (u) => shade(u, labels, colour('label'), 0.08),
      ],
      data: () => drawing,
    });
    if (!own.judged) figure.append(made('p', 'legend', 'No window of this host could be judged.'));
  }
  for (const fault of DATA.faults) place.append(made('p', 'legend', `Known fault: ${fault.name}, ${clock(fault.from)} to ${clock(fault.to)}.`));
}

function drawCharts() {
  const place = byId('charts');
  if (!DATA.charts.length) place.append(made('p', '', 'No metric of this run stands out, or none could be judged.'));
  for (const chart of DATA.charts) {
    const axis = DATA.axes[chart.host];
    const gaps = gapsOf[chart.host] || [];
    const band = chart.expected ? broken(trace(axis.expected, chart.expected), gaps) : [[], [], []];
    drawChart(place, chart, band, [chart.whole, ...chart.details].map((part, i) => broken(trace(i ? axis.details[i - 1] : axis.x, part), gaps)));
  }
}

function drawHosts() {
  for (const chart of DATA.hosts) {
    const { x } = DATA.axes[chart.host];
    drawChart(byId('hosts'), chart, trace(x, chart.others), [trace(x, chart.whole)]);
  }
}

/**
 * A metric over time, and the band that it should lie in.
 * @param {HTMLElement} place
 * @param {{host: string, metric: string, unit: string, subsystem: string}} chart
 * @param {Array} band points in time, least and largest value
 * @param {Array[]} levels the same of the metric: of the whole run, and at full sampling of parts of it
 */
function drawChart(place, chart, band, levels) {
  const figure = document.createElement('figure');
  const caption = made('figcaption', '', chart.metric);
  caption.append(made('small', '', ` ${chart.subsystem}${several ? `, ${chart.host}` : ''}`));
  figure.append(caption);
  place.append(figure);
  // of each table, undefined is the other's point in time, null a value that is missing
  const tables = levels.map((level) => ({ from: level[0][0], to: level[0][level[0].length - 1], table: uPlot.join([band, level]) }));
  const [whole, ...details] = tables;
  const edge = { stroke: () => colour('expected'), width: 1, points: { show: false } };
  const line = { stroke: () => colour('trace'), width: 1.2, points: { show: false } };
  plot(figure, {
    unit: chart.unit,
    height: 170,
    series: [edge, edge, line, line].map((one) => ({ ...one })),
    bands: [
      { series: [2, 1], fill: () => `${colour('expected')}66` },
      { series: [4, 3], fill: () => `${colour('trace')}55` },
    ],
    spans: [
      (u) => hatch(u, gapsOf[chart.host] || []),
      (u) => shade(u, alarmsOf[chart.host] || [], `${colour('alarm')}33`, 1),
      (u) => shade(u, labels, colour('label'), 0.05),
    ],
    // the finest level that has all that is shown, which come first; a spike of one sample is in each
    data: (from, to) => (details.find((part) => part.from <= from + 1e-6 && to <= part.to + 1e-6) || whole).table,
  });
}

/** The same with a missing value in each gap of the sampling, so that no line leads across it. */
function broken([x, ...series], gaps) {
  for (const [from, to] of gaps) {
    const middle = (from + to) / 2;
    const at = x.findIndex((time) => time >= middle);
    if (at < 1) continue;
    x.splice(at, 0, middle);
    for (const values of new Set(series)) values.splice(at, 0, null);
  }
  return [x, ...series];
}

/** Points in time with least and largest values; one of both where each point is a single sample. */
function trace(x, part) {
  const low = nullable(singles(part.low));
  return [Array.from(singles(x)), low, part.high === undefined ? low : nullable(singles(part.high))];
}

function drawStrips() {
  const share = () => scale('cold', 'hot', CLEAR);
  const level = () => Array.from({ length: 256 }, (_, value) => channels({ 0: 'low', 254: 'high', 255: 'missing' }[value] || 'medium'));
  drawRows('subsystems', share, 'No window has an alarm.');
  drawRows('detectors', share, 'Nothing was flagged.');
  drawRows('levels', level, 'No metric group of the recipe has data in this run.');
}

function drawRows(name, palette, otherwise) {
  const rows = rowsOf(DATA.strips[name]);
  if (rows.length) strips(byId(name), rows, palette);
  else byId(name).append(made('p', '', otherwise));
}

/** The heat map: families of metrics that unfold, and whatever is asked for by name; nothing of that is left out. */
function drawHeat() {
  const { metrics, families, subsystems, columns } = DATA.heat;
  if (!metrics.length) {
    byId('heat').append(made('p', '', 'Nothing was compared: there is no baseline for this run.'));
    byId('heat-tools').hidden = true;
    return;
  }
  const all = octets(DATA.heat.cells);
  const cells = metrics.map((_, i) => all.subarray(i * columns, (i + 1) * columns));
  const texts = metrics.map((name, i) => `${name} ${subsystems[i]}`.toLowerCase());
  const together = new Map();
  const open = new Set();

  /** Rows of metrics that are found: by family, each of which may be open; few of them as they are. */
  function rows(found, filtered) {
    const one = (i, member) => ({ name: metrics[i], group: subsystems[i], cells: cells[i], figure: largest(cells[i]), member });
    if (filtered && found.length <= MOST_ROWS) return found.map((i) => one(i, false));
    return folded(found).flatMap((members) => {
      if (members.length === 1) return [one(members[0], false)];
      const key = members.join();
      if (!together.has(key)) together.set(key, darkest(members.map((i) => cells[i])));
      const name = `${families[members[0]]} (${members.length})`;
      const toggle = () => { if (!open.delete(key)) open.add(key); show(); focusOn(name); };
      const family = { name, group: subsystems[members[0]], cells: together.get(key), figure: largest(together.get(key)), fold: { open: open.has(key), toggle } };
      return open.has(key) ? [family, ...members.map((i) => one(i, true))] : [family];
    });
  }

  /** Metrics that follow each other and are of one family. */
  function folded(found) {
    const groups = [];
    found.forEach((i) => {
      const last = groups[groups.length - 1];
      if (last && families[last[0]] === families[i] && subsystems[last[0]] === subsystems[i]) last.push(i);
      else groups.push([i]);
    });
    return groups;
  }

  const asked = () => byId('filter').value.toLowerCase().split(/\s+/).filter(Boolean);
  const named = (words) => metrics.map((_, i) => i).filter((i) => words.every((word) => texts[i].includes(word)));

  function show() {
    const words = asked();
    const found = named(words);
    strips(byId('heat'), rows(found, words.length > 0), () => scale('cold', 'hot', channels('missing')));
    const number = `${found.length} ${found.length === 1 ? 'metric' : 'metrics'}`;
    byId('matches').textContent = words.length && found.length <= MOST_ROWS ? number : `${number} in ${folded(found).length} families`;
  }

  function focusOn(name) {
    [...byId('heat').querySelectorAll('.fold')].find((button) => button.textContent === name)?.focus();
  }

  byId('filter').addEventListener('input', show);
  byId('fold-all').addEventListener('click', () => { open.clear(); show(); });
  byId('unfold-all').addEventListener('click', () => {
    folded(named(asked())).forEach((members) => open.add(members.join()));
    show();
  });
  show();
}

/** The largest of several rows; 255 is missing. */
function darkest(rows) {
  return Uint8Array.from(rows[0], (_, at) => rows.reduce((most, row) => (row[at] === 255 ? most : most === 255 ? row[at] : Math.max(most, row[at])), 255));
}

/** The largest deviation of a row in words. @param {Uint8Array} row */
function largest(row) {
  const most = row.reduce((found, value) => (value === 255 ? found : Math.max(found, value)), -1);
  return most < 0 ? 'not known' : most === 254 ? '10+' : (most / 25.4).toFixed(1);
}

/** Zoom everything to an episode, or to the whole run. @param {number} number its place in the list, -1 for none */
function choose(number) {
  const episode = DATA.episodes[number];
  const room = episode ? Math.min(30, Math.max(episode.to - episode.from, 2)) : 0;
  if (episode) time.show(episode.from - room, episode.to + room, number);
  else time.show(0, DATA.end - DATA.start);
}

/** Episodes follow each other in time, whatever their rank. */
function step(by) {
  const order = DATA.episodes.map((_, i) => i).sort((a, b) => DATA.episodes[a].from - DATA.episodes[b].from);
  if (!order.length) return;
  const at = order.indexOf(time.episode);
  choose(order[at < 0 ? (by > 0 ? 0 : order.length - 1) : (at + by + order.length) % order.length]);
}

function markEpisode() {
  document.querySelectorAll('.episode').forEach((button) => {
    const pressed = Number(button.dataset.episode) === time.episode;
    button.setAttribute('aria-pressed', String(pressed));
    if (pressed && button.closest('.more')) showAllEpisodes();
  });
}

function showAllEpisodes() {
  document.querySelector('.episodes').classList.add('all');
  byId('all-episodes')?.remove();
}

/** `#t=15:39:53` shows that moment; so does `#t=2026-11-20T15:39:53`, for runs of several days. */
function goToMoment() {
  const match = /^#t=(?:(\d{4}-\d\d-\d\d)(?:[T ]|%20))?(\d\d)(?::|%3A)(\d\d)(?::|%3A)(\d\d(?:\.\d+)?)$/i.exec(location.hash);
  if (!match) return;
  const [, day, ...clockTime] = match;
  const asked = (date) => Date.parse(`${date}T${clockTime.join(':')}Z`) / 1000 - DATA.start;
  let at = asked(day || new Date(DATA.start * 1000).toISOString().slice(0, 10));
  if (!day && at < -1) at += 86400;
  if (!(at >= -1 && at <= DATA.end - DATA.start + 1)) {
    byId('shown').textContent = `${day ? `${day} ` : ''}${clockTime.join(':')} is not within this run.`;
    return;
  }
  time.show(at - 15, at + 15);
}

function sayWhatIsShown() {
  const all = time.from <= 0 && time.to >= DATA.end - DATA.start;
  const episode = time.episode < 0 ? '' : `, around episode ${time.episode + 1} of ${DATA.episodes.length}`;
  byId('shown').textContent = `Shown: ${all ? 'the whole run, ' : ''}${clock(time.from)} to ${clock(time.to)}${episode}`;
}

/** Draw all pictures again: in other colours. */
function repaint() {
  time.plots.forEach((own) => own.redraw());
  lanes.forEach((own) => own.draw());
}

/** Paper is white, and nobody unfolds what is printed on it. */
function onPaper() {
  document.documentElement.dataset.paper = '';
  document.querySelectorAll('details:not([open])').forEach((details) => { details.open = true; details.dataset.closed = ''; });
  repaint();
}

function onScreen() {
  delete document.documentElement.dataset.paper;
  document.querySelectorAll('details[data-closed]').forEach((details) => { details.open = false; delete details.dataset.closed; });
  repaint();
}

drawRibbon();
drawCharts();
drawHosts();
drawStrips();
drawHeat();
time.changed.push(markEpisode, sayWhatIsShown);
sayWhatIsShown();
goToMoment();
document.querySelectorAll('.episode').forEach((button) => button.addEventListener('click', () => choose(Number(button.dataset.episode))));
byId('next').addEventListener('click', () => step(1));
byId('previous').addEventListener('click', () => step(-1));
byId('reset').addEventListener('click', () => choose(-1));
byId('all-episodes')?.addEventListener('click', showAllEpisodes);
addEventListener('hashchange', goToMoment);
addEventListener('keydown', (event) => {
  if (event.target instanceof HTMLInputElement || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === 'n') step(1);
  else if (event.key === 'p') step(-1);
  else if (event.key === '0' || event.key === 'Escape') choose(-1);
});
addEventListener('beforeprint', onPaper);
addEventListener('afterprint', onScreen);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', repaint);
let pending;
addEventListener('resize', () => {
  clearTimeout(pending);
  pending = setTimeout(() => time.plots.forEach((own) => own.resize()), 100);
});
