// The application people would write first: Express, pg, a query a request. It is the yardstick;
// PORT, DATABASE_URL and JWT_SECRET say where and what, FEED_CACHE_MS keeps the feed for a moment.

import express from 'express';
import pg from 'pg';

import { isObject, parse } from './json.js';
import { authenticate } from './tokens.js';

const { PORT = '3000', DATABASE_URL, JWT_SECRET, FEED_CACHE_MS = '0' } = process.env;
if (!DATABASE_URL || !JWT_SECRET) {
  console.error('set DATABASE_URL and JWT_SECRET');
  process.exit(1);
}

pg.types.setTypeParser(pg.types.builtins.INT8, Number);
const pool = new pg.Pool({ connectionString: DATABASE_URL });
pool.on('error', (error) => console.error(`the database: ${error.message}`));

class Refused extends Error {
  constructor(status, message, headers = {}) {
    super(message);
    Object.assign(this, { status, headers });
  }
}

const COLUMNS = `p.id, p.body, p.created_at, u.username AS author,
  (SELECT count(*) FROM likes l WHERE l.post_id = p.id) AS like_count`;
const FROM = 'FROM posts p JOIN users u ON u.id = p.user_id';

const post = (row) => ({
  id: row.id, body: row.body, created_at: row.created_at.toISOString(), author: row.author, like_count: row.like_count,
});

async function renderFeed() {
  const { rows } = await pool.query(`SELECT ${COLUMNS} ${FROM} ORDER BY p.created_at DESC, p.id DESC LIMIT 20`);
  return { posts: rows.map(post) };
}

// Requests that come while it is rendered share that rendering.
let kept = { until: 0, feed: null };
function feed() {
  const ms = Number(FEED_CACHE_MS);
  if (ms === 0) return renderFeed();
  if (Date.now() >= kept.until) {
    kept = { until: Date.now() + ms, feed: renderFeed() };
    kept.feed.catch(() => { kept.until = 0; });
  }
  return kept.feed;
}

function postId(text) {
  const id = /^[0-9]+$/.test(text || '') ? Number(text) : 0;
  if (id < 1 || !Number.isSafeInteger(id)) throw new Refused(400, 'invalid post id');
  return id;
}

function user(request) {
  const { claims, message } = authenticate(request.headersDistinct.authorization, JWT_SECRET);
  if (message) throw new Refused(401, message);
  return claims;
}

function postBody(bytes) {
  let parsed;
  try {
    parsed = parse(bytes || Buffer.alloc(0));
  } catch {
    throw new Refused(400, 'malformed JSON body');
  }
  const body = isObject(parsed) ? parsed.body : undefined;
  const trimmed = typeof body === 'string' ? body.trim() : '';
  if (trimmed === '') throw new Refused(400, 'body is required');
  if ([...trimmed].length > 500) throw new Refused(400, 'body must be at most 500 characters');
  if (trimmed.includes('\0')) throw new Refused(400, 'body must not contain NUL');
  return trimmed;
}

const app = express();
app.disable('x-powered-by');
app.disable('etag');
app.enable('strict routing');
app.enable('case sensitive routing');

app.use((request, response, next) => {
  if ((request.headersDistinct.authorization || []).length > 1) {
    response.set('Connection', 'close');
    throw new Refused(400, 'bad request');
  }
  next();
});

app.get('/health', async (request, response) => {
  try {
    await pool.query('SELECT 1');
    response.json({ status: 'ok', db: 'ok', uptime_s: Math.floor(process.uptime()) });
  } catch {
    response.status(503).json({ status: 'degraded', db: 'unreachable', error: 'the database does not answer' });
  }
});

app.get('/feed', async (request, response) => {
  response.json(await feed());
});

app.get('/posts/{:id}', async (request, response) => {
  const { rows } = await pool.query(`SELECT ${COLUMNS} ${FROM} WHERE p.id = $1`, [postId(request.params.id)]);
  if (rows.length === 0) throw new Refused(404, 'post not found');
  response.json({ post: post(rows[0]) });
});

app.post('/posts', express.raw({ type: () => true, limit: 16384, inflate: false }), async (request, response) => {
  const { id, username } = user(request);
  const body = postBody(Buffer.isBuffer(request.body) ? request.body : undefined);
  const { rows } = await pool.query('INSERT INTO posts (user_id, body) VALUES ($1, $2) RETURNING id, body, created_at', [id, body]);
  response.status(201).json({ post: post({ ...rows[0], author: username, like_count: 0 }) });
});

app.post('/posts/{:id}/like', async (request, response) => {
  const { id } = user(request);
  const liked = postId(request.params.id);
  const { rowCount: exists } = await pool.query('SELECT 1 FROM posts WHERE id = $1', [liked]);
  if (exists === 0) throw new Refused(404, 'post not found');
  const { rowCount } = await pool.query('INSERT INTO likes (user_id, post_id) VALUES ($1, $2) ON CONFLICT DO NOTHING', [id, liked]);
  response.status(rowCount === 1 ? 201 : 200).json({ liked: true, already_liked: rowCount === 0, post_id: liked });
});

for (const [path, allowed] of [['/health', 'GET, HEAD'], ['/feed', 'GET, HEAD'], ['/posts', 'POST'], ['/posts/{:id}', 'GET, HEAD'], ['/posts/{:id}/like', 'POST']]) {
  app.all(path, () => { throw new Refused(405, 'method not allowed', { Allow: allowed }); });
}
app.use(() => { throw new Refused(404, 'not found'); });

const FOREIGN_KEY = '23503';
app.use((error, request, response, next) => {
  if (response.headersSent) return next(error);
  let refused = error;
  if (error.code === FOREIGN_KEY) refused = new Refused(401, 'unknown user');
  else if (error.type === 'entity.too.large') refused = new Refused(413, 'request body too large');
  else if (!(error instanceof Refused)) {
    console.error(error.message);
    refused = new Refused(500, 'internal server error');
  }
  response.status(refused.status).set(refused.headers).json({ error: refused.message });
});

const server = app.listen(Number(PORT), '127.0.0.1', 4096);
// Users think for longer than Node's five seconds; each would have to connect again.
server.keepAliveTimeout = 120_000;
for (const signal of ['SIGTERM', 'SIGINT']) {
  process.on(signal, () => {
    server.close(() => pool.end().then(() => process.exit(0)));
    server.closeIdleConnections();
  });
}
