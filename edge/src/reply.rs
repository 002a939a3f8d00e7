//! Responses. Every one of them says its `Cache-Control`: in front of a Worker the platform keeps
//! a 200 that does not for two hours, and a 404 for three minutes.

use js_sys::Object;
use shared::ApiError;
use shared::api::CONTENT_TYPE;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{Headers, Response, ResponseInit};

use crate::origin::Answer;

pub const NO_STORE: &str = "no-store";
/// Passed through, and not looked for in a cache of ours.
pub const BYPASS: &str = "onebox; fwd=bypass";

pub type Result = std::result::Result<Response, JsValue>;

/// `headers` are those beside `content-type`.
pub fn init(status: u16, headers: &[(&str, &str)]) -> std::result::Result<ResponseInit, JsValue> {
    let all = Headers::new()?;
    all.set("content-type", CONTENT_TYPE)?;
    for (name, value) in headers {
        all.set(name, value)?;
    }
    let init = ResponseInit::new();
    init.set_status(status);
    init.set_headers(&all);
    Ok(init)
}

pub fn text(status: u16, body: &str, headers: &[(&str, &str)]) -> Result {
    Response::new_with_opt_str_and_init(Some(body), &init(status, headers)?)
}

pub fn bytes(body: &JsValue, init: &ResponseInit) -> Result {
    Response::new_with_opt_buffer_source_and_init(Some(body.unchecked_ref::<Object>()), init)
}

/// The same bytes as the origin's, from the same table.
pub fn error(error: ApiError) -> Result {
    error_with(error, &[])
}

pub fn error_with(error: ApiError, headers: &[(&str, &str)]) -> Result {
    let retry_after = error.retry_after_s().map(|seconds| seconds.to_string());
    let mut all = vec![("cache-control", NO_STORE)];
    all.extend(retry_after.as_deref().map(|value| ("retry-after", value)));
    all.extend_from_slice(headers);
    text(error.status(), error.json(), &all)
}

/// For a request that met a panic. There is nobody to tell should even this fail.
pub fn panicked() -> Response {
    error(ApiError::Internal).unwrap_or_else(|_| Response::error())
}

/// What the origin said, for this one reader.
pub fn passed(answer: &Answer, cache_status: &str) -> Result {
    let mut headers = vec![("cache-control", NO_STORE), ("cache-status", cache_status)];
    headers.extend(answer.retry_after.as_deref().map(|v| ("retry-after", v)));
    headers.extend(answer.etag.as_deref().map(|v| ("etag", v)));
    let init = init(answer.status, &headers)?;
    if answer.status == 304 {
        return Response::new_with_opt_str_and_init(None, &init);
    }
    bytes(&answer.body, &init)
}
