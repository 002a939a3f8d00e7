//! `LOG_REQUESTS`: a line for each request. It shows no header and no query: either may hold a
//! secret.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use axum::body::HttpBody;
use http::{HeaderMap, HeaderName, Request, Response};
use tower_http::classify::{ServerErrorsAsFailures, SharedClassifier};
use tower_http::trace::TraceLayer;
use tracing::{Span, field, info, info_span};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Who is at the other end of the connection; an extension of requests where they are logged.
#[derive(Clone, Copy)]
pub struct Peer(pub SocketAddr);

pub type RequestLog<B> = TraceLayer<
    SharedClassifier<ServerErrorsAsFailures>,
    fn(&Request<B>) -> Span,
    (),
    fn(&Response<B>, Duration, &Span),
    (),
    (),
    (),
>;

pub fn layer<B: HttpBody>() -> RequestLog<B> {
    TraceLayer::new_for_http()
        .make_span_with(span_of as fn(&Request<B>) -> Span)
        .on_request(())
        .on_response(answered as fn(&Response<B>, Duration, &Span))
        .on_body_chunk(())
        .on_eos(())
        .on_failure(())
}

fn span_of<B>(request: &Request<B>) -> Span {
    let client = request
        .extensions()
        .get::<Peer>()
        .map(|peer| field::display(client(peer.0.ip(), request.headers())));
    let (method, path) = (request.method(), request.uri().path());
    info_span!("request", %method, path, client)
}

fn answered<B: HttpBody>(response: &Response<B>, latency: Duration, _: &Span) {
    let status = response.status().as_u16();
    let latency_ms = latency.as_micros() as f64 / 1_000.0;
    let bytes = response.body().size_hint().exact();
    info!(status, latency_ms, bytes, "answered");
}

/// A proxy on this machine says who its client is, in the last place: what stands before that was
/// sent by the client itself. Anybody else may say what he likes.
fn client(peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    let forwarded = || {
        let last = headers.get_all(FORWARDED_FOR).iter().next_back()?;
        last.to_str().ok()?.rsplit(',').next()?.trim().parse().ok()
    };
    let peer = peer.to_canonical();
    peer.is_loopback().then(forwarded).flatten().unwrap_or(peer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn client_of(peer: &str, forwarded: &[&'static str]) -> String {
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append(FORWARDED_FOR, HeaderValue::from_static(value));
        }
        client(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn a_proxy_of_this_machine_is_believed() {
        assert_eq!(client_of("127.0.0.1", &[]), "127.0.0.1");
        assert_eq!(client_of("127.0.0.1", &["192.0.2.1"]), "192.0.2.1");
        assert_eq!(client_of("::1", &["192.0.2.1, 2001:db8::1"]), "2001:db8::1");
        let lines = ["192.0.2.1", "192.0.2.2"];
        assert_eq!(client_of("::ffff:127.0.0.1", &lines), "192.0.2.2");
        for nonsense in ["", "unknown", "192.0.2.1,", "a b"] {
            assert_eq!(client_of("127.0.0.1", &[nonsense]), "127.0.0.1");
        }
    }

    #[test]
    fn nobody_else_is() {
        assert_eq!(client_of("192.0.2.9", &["192.0.2.1"]), "192.0.2.9");
    }
}
