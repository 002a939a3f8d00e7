import { SharedArray } from 'k6/data';

import { tokensFile } from './settings.js';

// One copy for all virtual users: `[{"id":1,"username":"…","token":"…"}, …]`, as
// `origin seed --tokens FILE` writes it.
const tokens = new SharedArray('tokens', () => {
  if (!tokensFile) {
    throw new Error('set TOKENS to the file that `origin seed --tokens FILE` wrote');
  }
  return JSON.parse(open(tokensFile)).slice(0, 20000);
});

export function tokenOf(user) {
  return tokens[user % tokens.length];
}

export function anyToken() {
  return tokenOf(Math.floor(Math.random() * tokens.length));
}
