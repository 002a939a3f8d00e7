// What a run is told by its environment, with the names this field uses.

export const baseUrl = (__ENV.BASE_URL || 'http://127.0.0.1:3000').replace(/\/$/, '');
export const vus = wholeNumber('VUS', 100);
export const rate = wholeNumber('RATE', 100);
export const rampUp = __ENV.RAMP_UP || '60s';
export const duration = __ENV.DURATION || '5m';
export const rampDown = __ENV.RAMP_DOWN || '30s';
export const grace = __ENV.GRACE || '30s';
export const tokensFile = __ENV.TOKENS || '';
export const target = __ENV.TARGET || 'feed';
// Where the summary goes, as JSON.
export const summaryFile = __ENV.SUMMARY || 'summary.json';

function wholeNumber(name, otherwise) {
  const value = Number(__ENV[name] || otherwise);
  if (!Number.isInteger(value) || value < 1) {
    throw new Error(`${name} is "${__ENV[name]}": want a whole number above 0`);
  }
  return value;
}
