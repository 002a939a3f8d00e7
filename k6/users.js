// The closed loop: VUS users who read the feed, open a post, sometimes like it, sometimes
// write one, and think in between.
//
//   k6 run -e BASE_URL=http://127.0.0.1:3000 -e TOKENS=tokens.json -e VUS=1000 users.js

import exec from 'k6/execution';

import { createProbability, likeProbability, oneOf, pauses, think } from './lib/model.js';
import { handleSummary, summaryTrendStats, thresholds } from './lib/report.js';
import { create, feed, like, post } from './lib/requests.js';
import { duration, grace, rampDown, rampUp, vus } from './lib/settings.js';
import { tokenOf } from './lib/tokens.js';

export { handleSummary };

export const options = {
  scenarios: {
    users: {
      executor: 'ramping-vus',
      startVUs: 0,
      stages: [
        { duration: rampUp, target: vus },
        { duration, target: vus },
        { duration: rampDown, target: 0 },
      ],
      gracefulRampDown: grace,
      gracefulStop: grace,
    },
  },
  // A user is one connection, kept from one turn to the next.
  noVUConnectionReuse: false,
  summaryTrendStats,
  thresholds,
};

export default function turn() {
  if (exec.vu.iterationInInstance === 0) think(pauses.beforeTheFirst);
  const ids = feed();
  if (ids === null) {
    think(pauses.afterAFailedFeed);
    return;
  }
  const id = oneOf(ids);
  think(pauses.readingTheFeed);
  post(id);
  think(pauses.readingAPost);
  const token = tokenOf(exec.vu.idInTest - 1);
  if (Math.random() < likeProbability) like(id, token);
  if (Math.random() < createProbability) create(token);
  think(pauses.beingAway);
}
