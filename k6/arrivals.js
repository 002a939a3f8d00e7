// The open loop: the users' mix at RATE requests a second, whatever the server does. Arrivals
// that find no free virtual user are dropped, and a dropped one has failed.
//
//   k6 run -e BASE_URL=http://127.0.0.1:3000 -e TOKENS=tokens.json -e RATE=500 arrivals.js

import { drawRequest, oneOf } from './lib/model.js';
import { handleSummary, summaryTrendStats, thresholds } from './lib/report.js';
import { create, feed, like, post } from './lib/requests.js';
import { duration, grace, rampUp, rate, vus } from './lib/settings.js';
import { anyToken } from './lib/tokens.js';

export { handleSummary };

export const options = {
  scenarios: {
    arrivals: {
      executor: 'ramping-arrival-rate',
      startRate: 0,
      timeUnit: '1s',
      stages: [
        { duration: rampUp, target: rate },
        { duration, target: rate },
      ],
      preAllocatedVUs: vus,
      maxVUs: vus,
      gracefulStop: grace,
    },
  },
  summaryTrendStats,
  thresholds: { ...thresholds, dropped_iterations: [`rate<${rate / 100}`] },
};

// What this virtual user saw last: k6 shares nothing between them.
let newest = [];

export function setup() {
  return feed() || [];
}

export default function arrive(firstFeed) {
  if (newest.length === 0) newest = firstFeed;
  const drawn = newest.length === 0 ? 'feed' : drawRequest();
  if (drawn === 'feed') newest = feed() || newest;
  else if (drawn === 'post') post(oneOf(newest));
  else if (drawn === 'like') like(oneOf(newest), anyToken());
  else create(anyToken());
}
