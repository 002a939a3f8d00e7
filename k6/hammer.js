// No thinking: VUS connections ask for one thing (TARGET) as fast as they are answered.
//
//   k6 run -e BASE_URL=http://127.0.0.1:3000 -e TOKENS=tokens.json -e TARGET=feed -e VUS=64 hammer.js

import { drawRequest, oneOf } from './lib/model.js';
import { handleSummary, summaryTrendStats, thresholds } from './lib/report.js';
import { create, feed, health, like, post } from './lib/requests.js';
import { duration, grace, target, vus } from './lib/settings.js';
import { anyToken } from './lib/tokens.js';

export { handleSummary };

export const options = {
  scenarios: {
    hammer: { executor: 'constant-vus', vus, duration, gracefulStop: grace },
  },
  summaryTrendStats,
  thresholds,
};

// Of the full dataset.
const posts = 500000;
const anyPost = () => 1 + Math.floor(Math.random() * posts);
let newest = [];

const requests = {
  health,
  feed,
  post: () => post(anyPost()),
  like: () => like(anyPost(), anyToken()),
  create: () => create(anyToken()),
  mix() {
    const drawn = newest.length === 0 ? 'feed' : drawRequest();
    if (drawn === 'feed') newest = feed() || newest;
    else if (drawn === 'post') post(oneOf(newest));
    else if (drawn === 'like') like(oneOf(newest), anyToken());
    else create(anyToken());
  },
};

if (!requests[target]) {
  throw new Error(`TARGET is "${target}": want ${Object.keys(requests).join(', ')}`);
}

export default requests[target];
