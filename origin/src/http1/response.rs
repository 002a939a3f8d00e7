//! Writes a response into the connection's output.

use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use axum::body::{Body, HttpBody};
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{Response, StatusCode, Version};
use shared::{ApiError, api};

/// How the connection goes on after this response, and what the client may be sent.
#[derive(Clone, Copy)]
pub struct Shape {
    pub version: Version,
    pub keep_alive: bool,
    /// The response to a HEAD says the length of a body that it does not carry.
    pub without_body: bool,
}

/// Appends the whole response. Bodies here are short and at hand, so it is never chunked.
pub async fn write(
    output: &mut Vec<u8>,
    response: Response<Body>,
    shape: Shape,
) -> Result<(), axum::Error> {
    let (parts, body) = response.into_parts();
    let size = body.size_hint().exact().unwrap_or(0);
    output.reserve(256 + size as usize);

    write_status_line(output, shape.version, parts.status);
    for (name, value) in &parts.headers {
        if !matches!(*name, CONTENT_LENGTH | CONNECTION | TRANSFER_ENCODING) {
            write_field(output, name.as_str().as_bytes(), value.as_bytes());
        }
    }
    let has_body =
        parts.status != StatusCode::NOT_MODIFIED && parts.status != StatusCode::NO_CONTENT;
    if has_body {
        match parts
            .headers
            .get(CONTENT_LENGTH)
            .filter(|_| shape.without_body)
        {
            Some(length) => write_field(output, b"content-length", length.as_bytes()),
            None => write_length(output, size),
        }
    }
    write_connection(output, shape);
    output.extend_from_slice(b"\r\n");
    if has_body && !shape.without_body {
        append_body(output, body).await?;
    }
    Ok(())
}

/// Appends an error of the connection itself; it is closed afterwards.
pub fn write_error(output: &mut Vec<u8>, error: ApiError) {
    let shape = Shape {
        version: Version::HTTP_11,
        keep_alive: false,
        without_body: false,
    };
    let status = StatusCode::from_u16(error.status()).expect("every status of ours is a valid one");
    write_status_line(output, shape.version, status);
    write_field(output, b"content-type", api::CONTENT_TYPE.as_bytes());
    if let Some(seconds) = error.retry_after_s() {
        write_field(output, b"retry-after", seconds.to_string().as_bytes());
    }
    write_length(output, error.json().len() as u64);
    write_connection(output, shape);
    output.extend_from_slice(b"\r\n");
    output.extend_from_slice(error.json().as_bytes());
}

fn write_status_line(output: &mut Vec<u8>, version: Version, status: StatusCode) {
    output.extend_from_slice(if version == Version::HTTP_10 {
        b"HTTP/1.0 "
    } else {
        b"HTTP/1.1 "
    });
    output.extend_from_slice(status.as_str().as_bytes());
    output.push(b' ');
    output.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    output.extend_from_slice(b"\r\n");
    write_date(output);
}

fn write_field(output: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    output.extend_from_slice(name);
    output.extend_from_slice(b": ");
    output.extend_from_slice(value);
    output.extend_from_slice(b"\r\n");
}

fn write_length(output: &mut Vec<u8>, length: u64) {
    let mut digits = itoa::Buffer::new();
    write_field(output, b"content-length", digits.format(length).as_bytes());
}

fn write_connection(output: &mut Vec<u8>, shape: Shape) {
    if !shape.keep_alive {
        output.extend_from_slice(b"connection: close\r\n");
    } else if shape.version == Version::HTTP_10 {
        output.extend_from_slice(b"connection: keep-alive\r\n");
    }
}

async fn append_body(output: &mut Vec<u8>, mut body: Body) -> Result<(), axum::Error> {
    std::future::poll_fn(|cx: &mut Context<'_>| {
        loop {
            match std::task::ready!(Pin::new(&mut body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        output.extend_from_slice(&data);
                    }
                }
                Some(Err(fault)) => return Poll::Ready(Err(fault)),
                None => return Poll::Ready(Ok(())),
            }
        }
    })
    .await
}

/// RFC 9110, section 6.6.1: a server with a clock sends `Date`. Formatted once a second.
fn write_date(output: &mut Vec<u8>) {
    thread_local! {
        static DATE: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
    }
    let now_s = SystemTime::UNIX_EPOCH
        .elapsed()
        .map_or(0, |elapsed| elapsed.as_secs());
    DATE.with_borrow_mut(|(formatted_s, date)| {
        if *formatted_s != now_s {
            *formatted_s = now_s;
            *date = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(now_s));
        }
        write_field(output, b"date", date.as_bytes());
    });
}
