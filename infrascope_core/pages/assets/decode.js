/** Numbers out of base64: little-endian single precision, NaN where missing. @param {string} text @returns {Float32Array} */
function singles(text) {
  const bytes = octets(text);
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
}

/** @param {string} text @returns {Uint8Array} */
function octets(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** For uPlot: what is missing is null. @param {Float32Array} values @returns {(number|null)[]} */
function nullable(values) {
  return Array.from(values, (v) => (Number.isNaN(v) ? null : v));
}

const DATA = JSON.parse(document.getElementById('data').textContent);
