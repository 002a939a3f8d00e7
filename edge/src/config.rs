//! What wrangler.toml and the secrets say. Read once in an isolate's life.

use js_sys::{JsString, Reflect};
use shared::microcache::Policy;
use shared::token::Keys;
use wasm_bindgen::{JsCast, JsValue};

pub struct Config {
    pub cache: CacheMode,
    pub feed: Policy,
    /// `None`: single posts are passed through.
    pub post: Option<Policy>,
    pub post_entries: usize,
    pub origins: Vec<String>,
    pub origin_timeout_ms: u32,
    pub origin_rest_ms: u64,
    pub edge_key: Option<String>,
    pub keys: Keys,
}

/// Who keeps the feed: one of them, never both. Two windows in a row would double its age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheMode {
    /// The platform's cache in front of the Worker, told by response headers.
    Platform,
    /// This isolate's memory.
    Isolate,
    Off,
}

impl Config {
    pub fn read(env: &JsValue) -> Result<Config, String> {
        let vars = Vars(env);
        let cache = match vars.text("CACHE").as_deref() {
            Some("platform") => CacheMode::Platform,
            Some("isolate") => CacheMode::Isolate,
            Some("off") => CacheMode::Off,
            other => {
                return Err(format!(
                    "CACHE must be platform, isolate or off, not {other:?}"
                ));
            }
        };
        let origins: Vec<String> = vars
            .text("ORIGINS")
            .unwrap_or_default()
            .split([',', ' '])
            .filter(|origin| !origin.is_empty())
            .map(|origin| origin.trim_end_matches('/').to_owned())
            .collect();
        if origins.is_empty()
            || !origins
                .iter()
                .all(|o| o.starts_with("http://") || o.starts_with("https://"))
        {
            return Err("ORIGINS must be one or several base URLs, separated by commas".to_owned());
        }

        let origin_timeout_ms = vars.number("ORIGIN_TIMEOUT_MS", 5_000)?.max(1);
        let origin_rest_ms = vars.number("ORIGIN_REST_MS", 1_000)?;
        let feed_stale_ms = vars.number("FEED_STALE_MS", 1_000)?;
        let policy = |ttl_ms| -> Result<Policy, String> {
            Ok(Policy {
                ttl_ms,
                stale_ms: feed_stale_ms,
                stale_if_error_ms: vars.number("STALE_IF_ERROR_MS", 60_000)?,
                // Every origin may take its whole time; one that has not reported by then is gone.
                lease_ms: origin_timeout_ms * origins.len() as u64 + 1_000,
                retry_after_ms: origin_rest_ms,
            })
        };
        let post_ttl_ms = vars.number("POST_TTL_MS", 0)?;

        let secret = vars.text("JWT_SECRET").ok_or(
            "JWT_SECRET is not set: put it into .dev.vars, or run `wrangler secret put JWT_SECRET`",
        )?;
        let mut keys = Keys::new(secret.as_bytes());
        if let Some(previous) = vars.text("JWT_SECRET_PREVIOUS") {
            keys = keys.or_previous(previous.as_bytes());
        }

        Ok(Config {
            cache,
            feed: policy(vars.number("FEED_TTL_MS", 1_000)?)?,
            post: (post_ttl_ms > 0).then(|| policy(post_ttl_ms)).transpose()?,
            post_entries: vars.number("POST_ENTRIES", 1_000)?.max(1) as usize,
            origins,
            origin_timeout_ms: origin_timeout_ms.min(u32::MAX.into()) as u32,
            origin_rest_ms,
            edge_key: vars.text("EDGE_KEY"),
            keys,
        })
    }
}

struct Vars<'a>(&'a JsValue);

impl Vars<'_> {
    /// A variable that is set and not empty. Wrangler hands numbers over as numbers.
    fn text(&self, name: &str) -> Option<String> {
        let value = Reflect::get(self.0, &name.into()).ok()?;
        let text = match value.as_f64() {
            Some(number) => number.to_string(),
            None => String::from(value.dyn_into::<JsString>().ok()?),
        };
        (!text.is_empty()).then_some(text)
    }

    fn number(&self, name: &str, default: u64) -> Result<u64, String> {
        match self.text(name) {
            None => Ok(default),
            Some(text) => text
                .parse()
                .map_err(|_| format!("{name} must be a whole number, not {text:?}")),
        }
    }
}
