//! The Worker in front of the origin: it answers reads from memory for a moment, and refuses bad
//! writes, so that the origin sees neither.
//!
//! One isolate runs this single-threaded for many requests at once. What they share is in
//! [`Edge`]; no borrow of it is held across an `await`.

mod cached;
mod config;
mod origin;
mod reply;
mod task;
mod write;

use std::cell::{OnceCell, RefCell};
use std::future::Future;
use std::num::NonZeroUsize;
use std::rc::Rc;

use js_sys::Promise;
use lru::LruCache;
use shared::microcache::Policy;
use shared::post_id::parse_post_id;
use shared::route::{NoRoute, Route, route};
use shared::{ApiError, api};
use wasm_bindgen::prelude::*;
use web_sys::Request;
use worker::worker_sys::Context;

use cached::{Cached, Next, Source};
use config::{CacheMode, Config};
use origin::{Origins, Reader, now_ms};

/// What a body may be kept by: shared caches, under our own rules; a browser asks every time.
const PUBLIC: &str = "public, max-age=0";

pub struct Edge {
    config: Config,
    origins: Rc<Origins>,
    feed: Rc<Cached>,
    feed_source: Rc<Source>,
    posts: RefCell<LruCache<i64, Rc<Cached>>>,
    health: Rc<Cached>,
    health_source: Rc<Source>,
    started_ms: u64,
}

thread_local! {
    /// An isolate has one environment for life.
    static EDGE: OnceCell<Option<Rc<Edge>>> = const { OnceCell::new() };
}

/// A hit is answered with a response, all else with the promise of one.
#[wasm_bindgen]
pub fn fetch(request: Request, env: JsValue, ctx: Context) -> Result<JsValue, JsValue> {
    let edge = EDGE.with(|edge| edge.get_or_init(|| Edge::new(&env)).clone());
    let Some(edge) = edge else {
        return Ok(reply::error(ApiError::Internal)?.into());
    };
    let url = request.url();
    let (path, query) = split_url(&url);
    let method = request.method();
    match route(&method, path) {
        Ok(Route::Feed) => edge.feed(&request, query.is_some(), &ctx),
        Ok(Route::Post { id }) => edge.post(&request, id, query.is_some(), &ctx),
        Ok(Route::Health) => edge.health(query, &ctx),
        Ok(Route::CreatePost) => Ok(outlive(&ctx, write::create(edge, request))),
        Ok(Route::Like { id }) => Ok(outlive(&ctx, write::like(edge, request, id.to_owned()))),
        #[cfg(feature = "panic-route")]
        Err(NoRoute::Path) if path == "/panic" => panic!("provoked"),
        #[cfg(feature = "panic-route")]
        Err(NoRoute::Path) if path == "/panic/later" => Ok(promise(async move {
            let passed = edge.pass("/posts/1".to_owned(), Reader::default()).await;
            panic!("provoked, after {passed:?}")
        })),
        Err(no_route) => {
            let allow = match no_route {
                NoRoute::Path => None,
                NoRoute::Method { allow } => Some(("allow", allow)),
            };
            Ok(reply::error_with(no_route.error(), allow.as_slice())?.into())
        }
    }
}

impl Edge {
    fn new(env: &JsValue) -> Option<Rc<Edge>> {
        let config = Config::read(env)
            .inspect_err(|error| web_sys::console::error_1(&format!("edge: {error}").into()))
            .ok()?;
        let source = |path: &str, policy, cache_control| {
            Rc::new(Source {
                path: path.to_owned(),
                policy,
                cache_control,
            })
        };
        let own_copies = own_copies_cache_control(config.cache);
        // Long enough that nobody can use the health check to burden the origin.
        let health = Policy {
            ttl_ms: 1_000,
            stale_ms: 0,
            stale_if_error_ms: 0,
            ..config.feed
        };
        task::settle_on_panic();
        Some(Rc::new(Edge {
            origins: Rc::new(Origins::new(&config)),
            feed: Rc::default(),
            feed_source: source("/feed", config.feed, own_copies),
            posts: RefCell::new(LruCache::new(
                NonZeroUsize::new(config.post_entries).expect("the configuration has at least one"),
            )),
            health: Rc::default(),
            health_source: source("/health", health, reply::NO_STORE),
            started_ms: now_ms(),
            config,
        }))
    }

    fn feed(
        self: Rc<Self>,
        request: &Request,
        has_query: bool,
        ctx: &Context,
    ) -> Result<JsValue, JsValue> {
        let if_none_match = request.headers().get("if-none-match")?;
        match self.keeper(self.config.feed.ttl_ms > 0, has_query) {
            CacheMode::Isolate => {
                let (cached, source) = (self.feed.clone(), self.feed_source.clone());
                self.from_isolate(cached, source, if_none_match, ctx)
            }
            CacheMode::Platform => {
                let policy = self.config.feed;
                Ok(promise(self.for_platform("/feed".to_owned(), policy)))
            }
            CacheMode::Off => {
                let mut reader = reader_of(request)?;
                reader.if_none_match = if_none_match;
                Ok(promise(self.pass("/feed".to_owned(), reader)))
            }
        }
    }

    fn post(
        self: Rc<Self>,
        request: &Request,
        id: &str,
        has_query: bool,
        ctx: &Context,
    ) -> Result<JsValue, JsValue> {
        let id = match parse_post_id(id) {
            Ok(id) => id,
            Err(error) => return Ok(reply::error(error)?.into()),
        };
        let path = format!("/posts/{id}");
        let policy = self.config.post;
        match (policy, self.keeper(policy.is_some(), has_query)) {
            (Some(policy), CacheMode::Isolate) => {
                let source = Rc::new(Source {
                    path,
                    policy,
                    cache_control: own_copies_cache_control(self.config.cache),
                });
                let cached = self
                    .posts
                    .borrow_mut()
                    .get_or_insert(id, Rc::default)
                    .clone();
                self.from_isolate(cached, source, None, ctx)
            }
            (Some(policy), CacheMode::Platform) => Ok(promise(self.for_platform(path, policy))),
            _ => Ok(promise(self.pass(path, reader_of(request)?))),
        }
    }

    /// The edge's own: whether it runs, how long this isolate has, and whether it reaches an origin
    /// that is well (asked once a second at most). With `deep=1`, what the origin says of itself.
    fn health(self: Rc<Self>, query: Option<&str>, ctx: &Context) -> Result<JsValue, JsValue> {
        if query.is_some_and(|query| query.split('&').any(|pair| pair == "deep=1")) {
            return Ok(promise(self.pass("/health".to_owned(), Reader::default())));
        }
        let (cached, source) = (self.health.clone(), self.health_source.clone());
        let wait_until = |landed: &Promise| ctx.wait_until(landed).unwrap_or_default();
        let next = cached.ask(&self.origins, &source, None, wait_until);
        Ok(promise(async move {
            let origin = match next {
                Next::Respond(response) => response?,
                Next::Await(waiting) => match waiting.respond(&cached, &source, None).await {
                    Some(response) => response?,
                    None => reply::error(ApiError::OriginUnreachable)?,
                },
            };
            let headers = [("cache-control", reply::NO_STORE)];
            let (status, body) = if origin.ok() {
                (
                    200,
                    api::render_health_ok((now_ms() - self.started_ms) / 1_000),
                )
            } else {
                (503, api::render_health_degraded("no origin is well"))
            };
            reply::text(status, &String::from_utf8_lossy(&body), &headers)
        }))
    }

    /// Who may keep the answer. The platform's key has the query in it: with one, `?x=random`
    /// could both get around its cache and fill it, so the isolate answers.
    fn keeper(&self, has_ttl: bool, has_query: bool) -> CacheMode {
        match self.config.cache {
            _ if !has_ttl => CacheMode::Off,
            CacheMode::Platform if has_query => CacheMode::Isolate,
            mode => mode,
        }
    }

    fn from_isolate(
        self: Rc<Self>,
        cached: Rc<Cached>,
        source: Rc<Source>,
        if_none_match: Option<String>,
        ctx: &Context,
    ) -> Result<JsValue, JsValue> {
        let wait_until = |landed: &Promise| ctx.wait_until(landed).unwrap_or_default();
        let wanted = if_none_match.as_deref();
        match cached.ask(&self.origins, &source, wanted, wait_until) {
            Next::Respond(response) => Ok(response?.into()),
            Next::Await(waiting) => {
                let ctx: Context = JsValue::from(ctx).unchecked_into();
                Ok(promise(async move {
                    let wanted = if_none_match.as_deref();
                    if let Some(response) = waiting.respond(&cached, &source, wanted).await {
                        return response;
                    }
                    // The leader was lost. The first of us leads anew; should that one be lost as
                    // well, each asks for itself.
                    let wait_until = |landed: &Promise| ctx.wait_until(landed).unwrap_or_default();
                    match cached.ask(&self.origins, &source, wanted, wait_until) {
                        Next::Respond(response) => response,
                        Next::Await(waiting) => {
                            match waiting.respond(&cached, &source, wanted).await {
                                Some(response) => response,
                                None => self.pass(source.path.clone(), Reader::default()).await,
                            }
                        }
                    }
                }))
            }
        }
    }

    /// For the platform's cache: in whole seconds, rounded down, so that the bounds hold.
    async fn for_platform(self: Rc<Self>, path: String, policy: Policy) -> reply::Result {
        let answer = match self.origins.get(&path, &Reader::nobody(None)).await {
            Ok(answer) if answer.status == 200 => answer,
            Ok(answer) => return reply::passed(&answer, reply::BYPASS),
            Err(error) => return reply::error(error),
        };
        // Without `stale-if-error` the platform would serve stale for ever.
        let for_platform = format!(
            "public, max-age={}, stale-while-revalidate={}, stale-if-error={}",
            policy.ttl_ms / 1_000,
            policy.stale_ms / 1_000,
            policy.stale_if_error_ms / 1_000,
        );
        let mut headers = vec![
            ("cache-control", PUBLIC),
            ("cloudflare-cdn-cache-control", &for_platform),
            ("cache-status", reply::BYPASS),
        ];
        headers.extend(answer.etag.as_deref().map(|etag| ("etag", etag)));
        reply::bytes(&answer.body, &reply::init(200, &headers)?)
    }

    async fn pass(self: Rc<Self>, path: String, reader: Reader) -> reply::Result {
        match self.origins.get(&path, &reader).await {
            Ok(answer) => reply::passed(&answer, reply::BYPASS),
            Err(error) => reply::error(error),
        }
    }

    fn invalidate_post(&self, id: i64) {
        if let Some(post) = self.posts.borrow_mut().peek(&id) {
            post.invalidate();
        }
    }
}

/// What is said of a copy out of this isolate's memory. Where the platform keeps the feed, the
/// isolate only answers what the platform must not keep.
fn own_copies_cache_control(mode: CacheMode) -> &'static str {
    match mode {
        CacheMode::Platform => reply::NO_STORE,
        CacheMode::Isolate | CacheMode::Off => PUBLIC,
    }
}

fn reader_of(request: &Request) -> Result<Reader, JsValue> {
    Ok(Reader {
        address: request.headers().get("cf-connecting-ip")?,
        ..Reader::default()
    })
}

/// The path and the query of an absolute URL, as they stand there.
fn split_url(url: &str) -> (&str, Option<&str>) {
    let after_scheme = url.find("://").map_or(0, |at| at + 3);
    let rest = &url[after_scheme..];
    let target = &rest[rest.find(['/', '?', '#']).unwrap_or(rest.len())..];
    let target = target.split_once('#').map_or(target, |(target, _)| target);
    match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    }
}

fn promise(response: impl Future<Output = reply::Result> + 'static) -> JsValue {
    task::response(response).into()
}

/// A write goes on when its client has left: it may have arrived, and then what it changed must be
/// dropped here.
fn outlive(ctx: &Context, response: impl Future<Output = reply::Result> + 'static) -> JsValue {
    let promise = task::response(response);
    ctx.wait_until(&promise).unwrap_or_default();
    promise.into()
}

/// For entry.js: what a request gets that met a panic before it had a promise.
#[wasm_bindgen]
pub fn panicked() -> web_sys::Response {
    reply::panicked()
}
