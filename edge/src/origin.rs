//! Talking to the origin: which one, for how long, with what headers.

use std::cell::RefCell;

use js_sys::futures::JsFuture;
use js_sys::{ArrayBuffer, Date, Promise, Reflect};
use shared::ApiError;
use shared::failover::Failover;
use wasm_bindgen::prelude::*;
use web_sys::{AbortSignal, Headers, RequestInit, RequestRedirect, Response};

use crate::config::Config;

/// What an origin is asked for when nothing is held: it matches no body, and makes the origin
/// send the `ETag` that it otherwise spares itself.
const NO_ETAG: &str = "\"0\"";

#[wasm_bindgen]
extern "C" {
    // By its full name: this crate exports a `fetch` of its own.
    #[wasm_bindgen(js_namespace = globalThis, js_name = fetch)]
    fn global_fetch(url: &str, init: &RequestInit) -> Promise;
}

pub struct Origins {
    bases: Vec<String>,
    failover: RefCell<Failover>,
    timeout_ms: u32,
    edge_key: Option<String>,
}

/// An answer that came whole. The body stays on JavaScript's side: nobody here reads it.
pub struct Answer {
    pub status: u16,
    pub body: ArrayBuffer,
    pub etag: Option<String>,
    pub retry_after: Option<String>,
}

/// What the origin is told of the reader. Nothing else of a request gets past the edge, so nothing
/// else of it can change an answer: cookies, overrides and forwarding headers of their own end here.
#[derive(Default)]
pub struct Reader {
    pub address: Option<String>,
    pub authorization: Option<String>,
    pub if_none_match: Option<String>,
}

impl Reader {
    /// For an answer that many will share: it is nobody's.
    pub fn nobody(etag: Option<&str>) -> Reader {
        Reader {
            if_none_match: Some(etag.unwrap_or(NO_ETAG).to_owned()),
            ..Reader::default()
        }
    }
}

impl Origins {
    pub fn new(config: &Config) -> Origins {
        Origins {
            bases: config.origins.clone(),
            failover: RefCell::new(Failover::new(config.origins.len(), config.origin_rest_ms)),
            timeout_ms: config.origin_timeout_ms,
            edge_key: config.edge_key.clone(),
        }
    }

    /// Asks one origin after the other until one answers. What counts as no answer is no
    /// connection, too late, and any 5xx; the last 5xx is returned when nobody does better.
    pub async fn get(&self, path: &str, reader: &Reader) -> Result<Answer, ApiError> {
        let order = self.failover.borrow_mut().order_for_read(now_ms());
        let mut last = Err(ApiError::OriginUnreachable);
        for index in order {
            last = self.ask(index, "GET", path, reader, None).await;
            if last.as_ref().is_ok_and(|answer| answer.status < 500) {
                self.failover.borrow_mut().succeeded(index);
                return last;
            }
            self.failover.borrow_mut().failed(index, now_ms());
        }
        last
    }

    /// Asks one origin once: a write that may have arrived must not arrive again.
    pub async fn post(
        &self,
        path: &str,
        reader: &Reader,
        body: Option<&JsValue>,
    ) -> Result<Answer, ApiError> {
        let chosen = self.failover.borrow().one_for_write();
        let index = chosen.ok_or(ApiError::OriginUnreachable)?;
        let answer = self.ask(index, "POST", path, reader, body).await;
        let mut failover = self.failover.borrow_mut();
        match &answer {
            Ok(_) => failover.succeeded(index),
            Err(_) => failover.failed(index, now_ms()),
        }
        answer
    }

    async fn ask(
        &self,
        index: usize,
        method: &str,
        path: &str,
        reader: &Reader,
        body: Option<&JsValue>,
    ) -> Result<Answer, ApiError> {
        let url = format!("{}{path}", self.bases[index]);
        self.try_ask(&url, method, reader, body)
            .await
            .map_err(|error| {
                let name = Reflect::get(&error, &"name".into()).ok();
                let failure = match name.and_then(|name| name.as_string()).as_deref() {
                    Some("TimeoutError") => ApiError::OriginTimedOut,
                    _ => ApiError::OriginUnreachable,
                };
                web_sys::console::warn_1(
                    &format!("origin {index}: {method} {path}: {failure}").into(),
                );
                failure
            })
    }

    async fn try_ask(
        &self,
        url: &str,
        method: &str,
        reader: &Reader,
        body: Option<&JsValue>,
    ) -> Result<Answer, JsValue> {
        let headers = Headers::new()?;
        for (name, value) in [
            ("x-edge-key", &self.edge_key),
            ("x-forwarded-for", &reader.address),
            ("authorization", &reader.authorization),
            ("if-none-match", &reader.if_none_match),
        ] {
            if let Some(value) = value {
                headers.set(name, value)?;
            }
        }
        let init = RequestInit::new();
        init.set_method(method);
        init.set_headers(&headers);
        init.set_redirect(RequestRedirect::Manual);
        // It ends the body as well, should that stop half-way.
        init.set_signal(Some(&AbortSignal::timeout_with_u32(self.timeout_ms)));
        if let Some(body) = body {
            init.set_body(body);
        }

        let response: Response = JsFuture::from(global_fetch(url, &init)).await?.dyn_into()?;
        let headers = response.headers();
        let (etag, retry_after) = (headers.get("etag")?, headers.get("retry-after")?);
        let body = JsFuture::from(response.array_buffer()?).await?.dyn_into()?;
        Ok(Answer {
            status: response.status(),
            body,
            etag,
            retry_after,
        })
    }
}

pub fn now_ms() -> u64 {
    Date::now() as u64
}
