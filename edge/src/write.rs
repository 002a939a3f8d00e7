//! Writes: checked here by the code that checks them at the origin, then passed on once.

use std::rc::Rc;

use js_sys::futures::JsFuture;
use js_sys::{Object, Reflect, Uint8Array};
use shared::ApiError;
use shared::post_body::{MAX_REQUEST_BODY_BYTES, parse_post_body};
use shared::post_id::parse_post_id;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{ReadableStreamDefaultReader, Request};

use crate::origin::{Reader, now_ms};
use crate::{Edge, reply};

pub async fn create(edge: Rc<Edge>, request: Request) -> reply::Result {
    let reader = match authenticated(&edge, &request) {
        Ok(reader) => reader,
        Err(error) => return reply::error(error),
    };
    let body = match read_body(&request).await? {
        Ok(body) => body,
        Err(error) => return reply::error(error),
    };
    if let Err(error) = parse_post_body(&body) {
        return reply::error(error);
    }
    let body = Uint8Array::from(body.as_slice());
    let answer = edge.origins.post("/posts", &reader, Some(&body)).await;
    match answer {
        Ok(answer) => {
            if answer.status == 201 {
                edge.feed.invalidate();
            }
            reply::passed(&answer, reply::BYPASS)
        }
        Err(error) => reply::error(error),
    }
}

pub async fn like(edge: Rc<Edge>, request: Request, id: String) -> reply::Result {
    let reader = match authenticated(&edge, &request) {
        Ok(reader) => reader,
        Err(error) => return reply::error(error),
    };
    let id = match parse_post_id(&id) {
        Ok(id) => id,
        Err(error) => return reply::error(error),
    };
    // Its body means nothing, so nothing of it is passed on.
    let path = format!("/posts/{id}/like");
    match edge.origins.post(&path, &reader, None).await {
        Ok(answer) => {
            if matches!(answer.status, 200 | 201) {
                edge.feed.invalidate();
                edge.invalidate_post(id);
            }
            reply::passed(&answer, reply::BYPASS)
        }
        Err(error) => reply::error(error),
    }
}

/// The token is checked before anything is read or asked; a body that says it is too large is
/// refused even before that.
fn authenticated(edge: &Edge, request: &Request) -> Result<Reader, ApiError> {
    let headers = request.headers();
    let header = |name| headers.get(name).ok().flatten();
    let declared_bytes = header("content-length").and_then(|length| length.parse::<u64>().ok());
    if declared_bytes.is_some_and(|bytes| bytes > MAX_REQUEST_BODY_BYTES as u64) {
        return Err(ApiError::RequestBodyTooLarge);
    }
    let authorization = header("authorization");
    let token = authorization.as_deref().map(str::as_bytes);
    edge.config.keys.authenticate(token, now_ms() as i64)?;
    Ok(Reader {
        address: header("cf-connecting-ip"),
        authorization,
        if_none_match: None,
    })
}

/// The body, of which no more is taken in than may be.
async fn read_body(request: &Request) -> Result<Result<Vec<u8>, ApiError>, JsValue> {
    let Some(stream) = request.body() else {
        return Ok(Ok(Vec::new()));
    };
    let reader: ReadableStreamDefaultReader = stream.get_reader().dyn_into()?;
    let mut body = Vec::new();
    loop {
        let chunk: Object = JsFuture::from(reader.read()).await?.unchecked_into();
        if Reflect::get(&chunk, &"done".into())?.is_truthy() {
            return Ok(Ok(body));
        }
        let bytes: Uint8Array = Reflect::get(&chunk, &"value".into())?.dyn_into()?;
        if body.len() + bytes.length() as usize > MAX_REQUEST_BODY_BYTES {
            return Ok(Err(ApiError::RequestBodyTooLarge));
        }
        body.extend(bytes.to_vec());
    }
}
