//! The request line and the header fields (RFC 9112), and how the body is framed.

use axum::body::Body;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Uri, Version};
use shared::ApiError;

use super::MAX_HEADERS;

pub struct Head {
    /// Its body is still empty.
    pub request: Request<Body>,
    pub framing: Framing,
    pub keep_alive: bool,
    pub expects_continue: bool,
}

/// Where the body ends (RFC 9112, section 6).
#[derive(Debug, PartialEq, Eq)]
pub enum Framing {
    Length(usize),
    Chunked,
}

/// Parses a head at the start of `input`: the head and its length in bytes, or `None` when more
/// must arrive first.
pub fn parse(input: &[u8], max_head_bytes: usize) -> Result<Option<(Head, usize)>, ApiError> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let head_bytes = match parsed.parse(input) {
        Ok(httparse::Status::Complete(head_bytes)) if head_bytes <= max_head_bytes => head_bytes,
        Ok(httparse::Status::Partial) if input.len() < max_head_bytes => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(ApiError::RequestHeadTooLarge),
        Err(_) => return Err(ApiError::BadRequest),
    };
    build(&parsed).map(|head| Some((head, head_bytes)))
}

fn build(parsed: &httparse::Request<'_, '_>) -> Result<Head, ApiError> {
    let version = if parsed.version == Some(0) {
        Version::HTTP_10
    } else {
        Version::HTTP_11
    };
    let mut request = Request::new(Body::empty());
    *request.version_mut() = version;
    *request.method_mut() = Method::from_bytes(parsed.method.unwrap_or_default().as_bytes())
        .or(Err(ApiError::BadRequest))?;
    *request.uri_mut() =
        Uri::try_from(parsed.path.unwrap_or_default()).or(Err(ApiError::BadRequest))?;

    let headers = request.headers_mut();
    headers.reserve(parsed.headers.len());
    for field in parsed.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).or(Err(ApiError::BadRequest))?;
        let value = HeaderValue::from_bytes(field.value).or(Err(ApiError::BadRequest))?;
        headers.append(name, value);
    }

    check_singular_fields(headers, version)?;
    Ok(Head {
        framing: framing(headers, version)?,
        keep_alive: keep_alive(headers, version),
        expects_continue: version == Version::HTTP_11
            && headers
                .get(header::EXPECT)
                .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue")),
        request,
    })
}

/// Fields that must not stand twice: two readers would take two different ones.
fn check_singular_fields(headers: &HeaderMap, version: Version) -> Result<(), ApiError> {
    let count = |name| headers.get_all(name).iter().take(2).count();
    // RFC 9112, section 3.2: exactly one Host in HTTP/1.1.
    let hosts = count(header::HOST);
    let host_ok = hosts == 1 || (hosts == 0 && version == Version::HTTP_10);
    if !host_ok || count(header::AUTHORIZATION) > 1 || count(header::CONTENT_LENGTH) > 1 {
        return Err(ApiError::BadRequest);
    }
    Ok(())
}

fn framing(headers: &HeaderMap, version: Version) -> Result<Framing, ApiError> {
    let length = headers.get(header::CONTENT_LENGTH);
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), length) {
        (None, None) => Ok(Framing::Length(0)),
        (None, Some(length)) => parse_length(length.as_bytes()).map(Framing::Length),
        // Both together is how requests are smuggled; and HTTP/1.0 has no chunks.
        (Some(_), Some(_)) => Err(ApiError::BadRequest),
        (Some(coding), None) => {
            let chunked = coding.as_bytes().eq_ignore_ascii_case(b"chunked");
            if chunked && codings.next().is_none() && version == Version::HTTP_11 {
                Ok(Framing::Chunked)
            } else {
                Err(ApiError::BadRequest)
            }
        }
    }
}

fn parse_length(digits: &[u8]) -> Result<usize, ApiError> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(ApiError::BadRequest);
    }
    // A number too large to hold is a body too large to take.
    std::str::from_utf8(digits)
        .ok()
        .and_then(|digits| digits.parse().ok())
        .ok_or(ApiError::RequestBodyTooLarge)
}

fn keep_alive(headers: &HeaderMap, version: Version) -> bool {
    let has = |option: &[u8]| {
        headers
            .get_all(header::CONNECTION)
            .iter()
            .flat_map(|value| value.as_bytes().split(|&byte| byte == b','))
            .any(|token| token.trim_ascii().eq_ignore_ascii_case(option))
    };
    match version {
        Version::HTTP_10 => has(b"keep-alive") && !has(b"close"),
        _ => !has(b"close"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Result<Option<(Head, usize)>, ApiError> {
        parse(text.as_bytes(), 1_024)
    }

    fn good(text: &str) -> Head {
        head(text).unwrap().expect("a whole head").0
    }

    #[test]
    fn a_head_is_complete_at_its_empty_line() {
        let text = "GET /feed?x=1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\n\r\n";
        for end in 0..text.len() {
            assert!(head(&text[..end]).unwrap().is_none());
        }
        let (parsed, head_bytes) = head(&format!("{text}rest")).unwrap().unwrap();
        assert_eq!(head_bytes, text.len());
        assert_eq!(parsed.request.uri().path(), "/feed");
        assert_eq!(parsed.request.headers()[header::AUTHORIZATION], "Bearer x");
        assert!(parsed.keep_alive);
    }

    #[test]
    fn the_framing_is_one_length_or_chunks() {
        let framing = |fields: &str| {
            head(&format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
                .map(|h| h.unwrap().0.framing)
        };
        assert_eq!(framing(""), Ok(Framing::Length(0)));
        assert_eq!(framing("Content-Length: 12\r\n"), Ok(Framing::Length(12)));
        assert_eq!(
            framing("Transfer-Encoding: Chunked\r\n"),
            Ok(Framing::Chunked)
        );
        for bad in [
            "Content-Length: 1\r\nContent-Length: 1\r\n",
            "Content-Length: 1\r\nContent-Length: 2\r\n",
            "Content-Length: 1, 1\r\n",
            "Content-Length: +1\r\n",
            "Content-Length: \r\n",
            "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: identity\r\n",
            "Authorization: Bearer a\r\nAuthorization: Bearer a\r\n",
            "Host: b\r\n",
            " folded: x\r\n",
            "spaced : x\r\n",
        ] {
            assert_eq!(framing(bad), Err(ApiError::BadRequest), "{bad}");
        }
        assert_eq!(
            framing("Content-Length: 99999999999999999999999\r\n"),
            Err(ApiError::RequestBodyTooLarge)
        );
    }

    #[test]
    fn keep_alive_is_the_default_of_http_1_1_alone() {
        let keep = |version: &str, field: &str| {
            good(&format!("GET / HTTP/{version}\r\nHost: a\r\n{field}\r\n")).keep_alive
        };
        assert!(keep("1.1", ""));
        assert!(!keep("1.1", "Connection: x, Close\r\n"));
        assert!(!keep("1.0", ""));
        assert!(keep("1.0", "Connection: Keep-Alive\r\n"));
    }

    #[test]
    fn what_is_too_large_or_no_http_is_refused() {
        let too_large = Err(ApiError::RequestHeadTooLarge);
        assert_eq!(
            head(&format!("GET /{}", "a".repeat(1_024))).map(|_| ()),
            too_large
        );
        let long = format!(
            "GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n",
            "a".repeat(1_024)
        );
        assert_eq!(head(&long).map(|_| ()), too_large);
        let many = format!(
            "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
            "X: a\r\n".repeat(MAX_HEADERS)
        );
        assert_eq!(head(&many).map(|_| ()), too_large);
        for bad in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
            "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n",
        ] {
            assert_eq!(head(bad).map(|_| ()), Err(ApiError::BadRequest), "{bad}");
        }
    }
}
