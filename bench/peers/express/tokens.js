// Bearer tokens: HS256, checked at every request.

import { createHmac, timingSafeEqual } from 'node:crypto';

import { isObject, parse } from './json.js';

const refused = (message) => ({ message });
const INVALID = refused('invalid or expired token');

function decoded(segment) {
  if (!/^[A-Za-z0-9_-]*$/.test(segment) || segment.length % 4 === 1) throw new SyntaxError('not base64url');
  const bytes = Buffer.from(segment, 'base64url');
  if (bytes.toString('base64url') !== segment) throw new SyntaxError('not base64url');
  return bytes;
}

function object(segment) {
  const value = parse(decoded(segment));
  if (!isObject(value)) throw new SyntaxError('not an object');
  return value;
}

export function authenticate(headers, secret) {
  const header = headers ? headers[0] : '';
  const token = header.startsWith('Bearer ') ? header.slice('Bearer '.length) : '';
  if (token === '') return refused('missing bearer token');
  const segments = token.split('.');
  if (segments.length !== 3) return INVALID;
  let claims;
  try {
    const signature = decoded(segments[2]);
    const expected = createHmac('sha256', secret).update(`${segments[0]}.${segments[1]}`).digest();
    if (signature.length !== expected.length || !timingSafeEqual(signature, expected)) return INVALID;
    if (object(segments[0]).alg !== 'HS256') return INVALID;
    claims = object(segments[1]);
  } catch {
    return INVALID;
  }
  const now = Date.now() / 1000;
  if (!Number.isFinite(claims.exp) || claims.exp <= now) return INVALID;
  if ('nbf' in claims && !(Number.isFinite(claims.nbf) && claims.nbf <= now)) return INVALID;
  const id = typeof claims.sub === 'string' && /^[0-9]+$/.test(claims.sub) ? Number(claims.sub) : 0;
  if (id < 1 || !Number.isSafeInteger(id) || typeof claims.username !== 'string') return refused('invalid token payload');
  return { claims: { id, username: claims.username } };
}
