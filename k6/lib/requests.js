import exec from 'k6/execution';
import http from 'k6/http';

import { baseUrl } from './settings.js';

// The name groups requests whose paths differ.
function tagged(name, token) {
  const headers = token ? { Authorization: `Bearer ${token.token}` } : {};
  return { headers, tags: { name } };
}

// The ids of the newest posts, or null.
export function feed() {
  const answer = http.get(`${baseUrl}/feed`, tagged('feed'));
  if (answer.status !== 200) return null;
  const ids = answer.json('posts.#.id');
  return Array.isArray(ids) && ids.length > 0 ? ids : null;
}

export function post(id) {
  http.get(`${baseUrl}/posts/${id}`, tagged('post'));
}

export function like(id, token) {
  http.post(`${baseUrl}/posts/${id}/like`, null, tagged('like', token));
}

export function create(token) {
  const params = tagged('create', token);
  params.headers['Content-Type'] = 'application/json';
  const { vu } = exec;
  const body = `${token.username} writes at ${Date.now()}, user ${vu.idInTest}, turn ${vu.iterationInInstance}`;
  http.post(`${baseUrl}/posts`, JSON.stringify({ body }), params);
}

export function health() {
  http.get(`${baseUrl}/health`, tagged('health'));
}
