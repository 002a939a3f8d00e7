//! A blocking HTTP/1 client that sends exactly the bytes it is told to: the checks need requests that no
//! well-behaved client would send, and to see when the server closes.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Longest head and body the client takes from a server; more is a defect, not a reason to run out of memory.
const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;

/// `http://HOST[:PORT]`.
#[derive(Clone, Debug)]
pub struct BaseUrl {
    pub authority: String,
    address: String,
}

impl FromStr for BaseUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let authority = text
            .strip_prefix("http://")
            .ok_or("must start with http:// (TLS is not spoken here)")?
            .trim_end_matches('/');
        if authority.is_empty() || authority.contains(['/', '?', '#', '@']) {
            return Err("must be http://HOST[:PORT] without a path".into());
        }
        let has_port = authority
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = if has_port {
            authority.to_owned()
        } else {
            format!("{authority}:80")
        };
        Ok(Self {
            authority: authority.to_owned(),
            address,
        })
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.authority)
    }
}

#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    /// Path and query.
    pub target: String,
    pub headers: Vec<(String, Vec<u8>)>,
    /// `None` sends no `Content-Length` either.
    pub body: Option<Vec<u8>>,
}

impl Request {
    pub fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.into(),
            target: target.into(),
            headers: Vec::new(),
            body: None,
        }
    }

    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    pub fn post(target: &str) -> Self {
        Self::new("POST", target)
    }

    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.into(), value.as_ref().to_vec()));
        self
    }

    pub fn bearer(self, token: &str) -> Self {
        self.header("Authorization", format!("Bearer {token}"))
    }

    pub fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = Some(body.as_ref().to_vec());
        self
    }

    /// The request as it goes over the wire.
    pub fn bytes(&self, base: &BaseUrl) -> Vec<u8> {
        let mut bytes = format!(
            "{} {} HTTP/1.1\r\nHost: {}\r\n",
            self.method, self.target, base.authority
        )
        .into_bytes();
        for (name, value) in &self.headers {
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        }
        if let Some(body) = &self.body {
            bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
            bytes.extend_from_slice(body);
        } else {
            bytes.extend_from_slice(b"\r\n");
        }
        bytes
    }
}

#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// `200 {"posts":…`, cut to what fits a line.
impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text();
        let start: String = text.chars().take(160).collect();
        let more = if start.len() < text.len() { "…" } else { "" };
        write!(f, "{} {start}{more}", self.status)
    }
}

pub struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    /// How long to wait for an answer.
    pub patience: Duration,
    /// A slow reader takes at most this much at a time…
    pub read_bytes: usize,
    /// …and rests this long before each read.
    pub rest: Duration,
}

impl Connection {
    pub fn open(base: &BaseUrl) -> Result<Self, String> {
        let fail = |e: std::io::Error| format!("cannot connect to {}: {e}", base.address);
        let mut last = None;
        for address in base.address.to_socket_addrs().map_err(fail)? {
            match TcpStream::connect_timeout(&address, Duration::from_secs(5)) {
                Ok(stream) => {
                    stream.set_nodelay(true).map_err(fail)?;
                    // A server that stops reading must not hang the suite.
                    stream
                        .set_write_timeout(Some(Duration::from_secs(10)))
                        .map_err(fail)?;
                    return Ok(Self {
                        stream,
                        received: Vec::new(),
                        patience: Duration::from_secs(10),
                        read_bytes: 16 * 1024,
                        rest: Duration::ZERO,
                    });
                }
                Err(e) => last = Some(fail(e)),
            }
        }
        Err(last.unwrap_or_else(|| format!("{} has no address", base.address)))
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> Result<(), String> {
        self.stream
            .write_all(bytes.as_ref())
            .map_err(|e| format!("cannot send: {e}"))
    }

    /// Sends what the server still takes. One that refuses early may close while the client still writes;
    /// its answer is what counts.
    pub fn send_some(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// A second handle that can write while this one reads.
    pub fn writer(&self) -> Result<TcpStream, String> {
        self.stream.try_clone().map_err(|e| e.to_string())
    }

    /// The final response, past any interim ones.
    pub fn receive(&mut self, method: &str) -> Result<Response, String> {
        loop {
            let response = self.receive_next(method)?;
            if response.status >= 200 {
                return Ok(response);
            }
        }
    }

    /// The next response, which may be an interim one (1xx).
    pub fn receive_next(&mut self, method: &str) -> Result<Response, String> {
        let deadline = Instant::now() + self.patience;
        let head_end = loop {
            if let Some(at) = find(&self.received, b"\r\n\r\n") {
                break at + 4;
            }
            if self.received.len() > MAX_HEAD_BYTES {
                return Err("the head of the response does not end".into());
            }
            if self.fill(deadline)? == 0 {
                return Err(if self.received.is_empty() {
                    "connection closed without a response".into()
                } else {
                    "connection closed inside the head of the response".into()
                });
            }
        };
        let head: Vec<u8> = self.received.drain(..head_end).collect();
        let (status, headers) = parse_head(&head)?;
        let mut response = Response {
            status,
            headers,
            body: Vec::new(),
        };
        if method == "HEAD" || status < 200 || status == 204 || status == 304 {
            return Ok(response);
        }
        let chunked = response
            .header("transfer-encoding")
            .is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
        if chunked {
            response.body = self.chunked_body(deadline)?;
        } else if let Some(length) = response.header("content-length") {
            let length: usize = length
                .parse()
                .map_err(|_| format!("content-length is {length:?}"))?;
            response.body = self.exactly(length, deadline)?;
        } else {
            while self.fill(deadline)? > 0 {}
            response.body = std::mem::take(&mut self.received);
        }
        Ok(response)
    }

    /// Whether the server closes (or resets) the connection in that time, saying nothing more.
    pub fn expect_close(&mut self, within: Duration) -> Result<(), String> {
        if !self.received.is_empty() {
            return Err(format!(
                "expected the connection to close, got {:?}",
                String::from_utf8_lossy(&self.received)
            ));
        }
        match self.fill(Instant::now() + within) {
            Ok(0) => Ok(()),
            Ok(_) => Err(format!(
                "expected the connection to close, got {:?}",
                String::from_utf8_lossy(&self.received)
            )),
            Err(e) if e == RESET => Ok(()),
            Err(_) => Err(format!("the connection is still open after {within:?}")),
        }
    }

    fn exactly(&mut self, length: usize, deadline: Instant) -> Result<Vec<u8>, String> {
        if length > MAX_BODY_BYTES {
            return Err(format!("a body of {length} bytes"));
        }
        while self.received.len() < length {
            if self.fill(deadline)? == 0 {
                return Err(format!(
                    "connection closed after {} of {length} bytes of the body",
                    self.received.len()
                ));
            }
        }
        Ok(self.received.drain(..length).collect())
    }

    fn line(&mut self, deadline: Instant) -> Result<String, String> {
        loop {
            if let Some(at) = find(&self.received, b"\r\n") {
                let line: Vec<u8> = self.received.drain(..at + 2).collect();
                return Ok(String::from_utf8_lossy(&line[..at]).into_owned());
            }
            if self.fill(deadline)? == 0 {
                return Err("connection closed inside a chunked body".into());
            }
        }
    }

    fn chunked_body(&mut self, deadline: Instant) -> Result<Vec<u8>, String> {
        let mut body = Vec::new();
        loop {
            let line = self.line(deadline)?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let size =
                usize::from_str_radix(digits, 16).map_err(|_| format!("chunk size {line:?}"))?;
            if size == 0 {
                while !self.line(deadline)?.is_empty() {}
                return Ok(body);
            }
            body.extend(self.exactly(size, deadline)?);
            if body.len() > MAX_BODY_BYTES || !self.line(deadline)?.is_empty() {
                return Err("the chunks of the response do not add up".into());
            }
        }
    }

    fn fill(&mut self, deadline: Instant) -> Result<usize, String> {
        if !self.rest.is_zero() {
            std::thread::sleep(self.rest);
        }
        let left = deadline
            .saturating_duration_since(Instant::now())
            .max(Duration::from_millis(1));
        self.stream
            .set_read_timeout(Some(left))
            .map_err(|e| e.to_string())?;
        let mut chunk = vec![0; self.read_bytes];
        match self.stream.read(&mut chunk) {
            Ok(count) => {
                self.received.extend_from_slice(&chunk[..count]);
                Ok(count)
            }
            Err(e) => match e.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => Err("no answer in time".into()),
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Err(RESET.into()),
                _ => Err(format!("cannot read: {e}")),
            },
        }
    }
}

const RESET: &str = "connection reset";

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

type Head = (u16, Vec<(String, String)>);

fn parse_head(head: &[u8]) -> Result<Head, String> {
    let head = String::from_utf8_lossy(head);
    let mut lines = head.trim_end().split("\r\n");
    let start = lines.next().unwrap_or_default();
    let status = start
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.split(' ').nth(1))
        .and_then(|code| code.parse().ok())
        .ok_or_else(|| format!("not an HTTP/1 response: {start:?}"))?;
    let headers = lines
        .map(|line| {
            let (name, value) = line
                .split_once(':')
                .ok_or_else(|| format!("header line {line:?}"))?;
            Ok((name.to_ascii_lowercase(), value.trim().to_owned()))
        })
        .collect::<Result<_, String>>()?;
    Ok((status, headers))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// One connection, answered with these bytes and closed.
    fn answer(bytes: &'static [u8]) -> Connection {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base: BaseUrl = format!("http://{}", listener.local_addr().unwrap())
            .parse()
            .unwrap();
        let connection = Connection::open(&base).unwrap();
        listener.accept().unwrap().0.write_all(bytes).unwrap();
        connection
    }

    #[test]
    fn a_base_url_has_a_port_or_gets_80() {
        assert_eq!(
            "http://[::1]:3000/".parse::<BaseUrl>().unwrap().address,
            "[::1]:3000"
        );
        assert_eq!("http://host".parse::<BaseUrl>().unwrap().address, "host:80");
        for bad in ["https://host", "host:80", "http://", "http://host/path"] {
            bad.parse::<BaseUrl>().unwrap_err();
        }
    }

    #[test]
    fn sized_and_chunked_bodies_follow_one_another() {
        let mut connection = answer(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi\
              HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: x\r\n\r\n",
        );
        let first = connection.receive("GET").unwrap();
        assert_eq!((first.status, first.text().as_str()), (200, "hi"));
        let second = connection.receive("GET").unwrap();
        assert_eq!((second.status, second.text().as_str()), (404, "abcde"));
        connection.expect_close(Duration::from_secs(1)).unwrap();
    }

    #[test]
    fn broken_responses_are_errors() {
        for broken in [
            &b"SSH-2.0\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
            b"HTTP/1.1 200",
            b"",
        ] {
            answer(broken).receive("GET").unwrap_err();
        }
    }
}
