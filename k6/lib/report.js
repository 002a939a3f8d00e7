// The pass marks, and what is kept of a run.

import { summaryFile } from './settings.js';

const names = ['feed', 'post', 'like', 'create', 'health'];

const marks = {
  http_req_duration: ['p(95)<500', 'p(99)<1000'],
  http_req_failed: ['rate<0.01'],
};

// A threshold without a condition makes k6 report that part of a metric by itself.
export const thresholds = { ...marks };
for (const name of names) {
  for (const metric of ['http_req_duration', 'http_req_failed', 'http_reqs']) {
    thresholds[`${metric}{name:${name}}`] = [];
  }
}

// The whole distribution, so that it can be drawn.
export const summaryTrendStats = ['count', 'avg', 'max', 'p(50)', 'p(95)', 'p(99)'];
for (let percent = 0; percent < 100; percent += 1) {
  if (![50, 95, 99].includes(percent)) summaryTrendStats.push(`p(${percent})`);
}
summaryTrendStats.push('p(99.5)', 'p(99.9)', 'p(100)');

export function handleSummary({ metrics, state }) {
  const line = (metric, value) => (metrics[metric] ? metrics[metric].values[value] : 0);
  const text = [
    `requests ${line('http_reqs', 'count')}, failed ${(100 * line('http_req_failed', 'rate')).toFixed(2)}%`,
    `p50 ${line('http_req_duration', 'p(50)').toFixed(2)} ms, p95 ${line('http_req_duration', 'p(95)').toFixed(2)} ms, p99 ${line('http_req_duration', 'p(99)').toFixed(2)} ms`,
    '',
  ].join('\n');
  return { stdout: text, [summaryFile]: JSON.stringify({ metrics, state }) };
}
