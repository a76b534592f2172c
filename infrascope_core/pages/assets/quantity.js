const BYTES = { bytes: 1, b: 1, kb: 1024, kib: 1024, mb: 1024 ** 2, mib: 1024 ** 2, gb: 1024 ** 3, gib: 1024 ** 3 };
const LARGER = [[1024 ** 4, 'TB'], [1024 ** 3, 'GB'], [1024 ** 2, 'MB'], [1024, 'kB']];

/**
 * A value with its unit, in a magnitude that suits it, as `quantities.quantity` writes it.
 * @param {number} value
 * @param {string} unit
 * @param {number} digits that count
 */
function quantity(value, unit, digits = 3) {
  const slash = unit.indexOf('/');
  const base = slash < 0 ? unit : unit.slice(0, slash);
  const per = slash < 0 ? '' : unit.slice(slash);
  const bytes = BYTES[base.toLowerCase()];
  if (bytes !== undefined) {
    const all = value * bytes;
    const [size, name] = LARGER.find(([least]) => Math.abs(all) >= least) || [1, 'B'];
    return `${plain(all / size, digits)} ${name}${per}`;
  }
  const shown = base === '' || base === '-' || base === 'count' ? '' : ` ${base}`;
  return `${plain(value, digits)}${shown}${per}`;
}

/** @param {number} value @param {number} digits */
function plain(value, digits) {
  const size = Math.abs(value);
  if (size >= 1e15) return value.toExponential(2);
  if (size >= 1000) return value.toLocaleString('en-US', { useGrouping: size >= 1e4, maximumFractionDigits: digits - 3 });
  if (size > 0 && size < 1e-3) return value.toExponential(digits - 2);
  return String(Number(value.toPrecision(digits)));
}

/** A time of day, with the date where the run spans several days. @param {number} since seconds from the run's start */
function clock(since) {
  const text = new Date((DATA.start + since) * 1000).toISOString();
  return DATA.end - DATA.start > 86400 ? `${text.slice(0, 10)} ${text.slice(11, 19)}` : text.slice(11, 19);
}
