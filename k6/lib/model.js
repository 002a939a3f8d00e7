// What one user does, and how often. `bench/src/engine/model.rs` states the same for the
// native generator; a test holds the two together.

import { sleep } from 'k6';

export const likeProbability = 0.15;
export const createProbability = 0.02;

// Seconds a user thinks: uniform between two bounds.
export const pauses = {
  beforeTheFirst: [0, 5],
  afterAFailedFeed: [3, 7],
  readingTheFeed: [3, 7],
  readingAPost: [3, 8],
  beingAway: [5, 15],
};

export function think([from, to]) {
  sleep(from + Math.random() * (to - from));
}

export function oneOf(list) {
  return list[Math.floor(Math.random() * list.length)];
}

// One of the users' requests, as often as they make it.
export function drawRequest() {
  let draw = Math.random() * (2 + likeProbability + createProbability);
  if (draw < 1) return 'feed';
  if (draw < 2) return 'post';
  return draw < 2 + likeProbability ? 'like' : 'create';
}
