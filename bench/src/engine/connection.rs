//! HTTP/1.1 as a load generator needs it: one request at a time on a kept connection, and
//! nothing held for an idle one but its socket.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use memchr::memmem;
use tokio::net::{TcpSocket, TcpStream};

/// Far above what the API answers; a server that sends without end must not fill memory.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// A source address has about 28,000 ports; more connections than this take the next one.
const CONNECTIONS_PER_SOURCE: u32 = 20_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    Connect,
    Closed,
    Malformed,
}

/// All connections of a thread read into the same memory.
pub struct ReadBuffer(RefCell<Box<[u8]>>);

impl ReadBuffer {
    pub fn new() -> Self {
        ReadBuffer(RefCell::new(vec![0; 64 * 1024].into()))
    }
}

impl Default for ReadBuffer {
    fn default() -> Self {
        Self::new()
    }
}

pub struct Connection {
    address: SocketAddr,
    number: u32,
    stream: Option<TcpStream>,
}

impl Connection {
    pub fn new(address: SocketAddr, number: u32) -> Self {
        Connection {
            address,
            number,
            stream: None,
        }
    }

    /// Opens it if it is not open, or was closed by the server while it lay idle; says whether
    /// it did.
    pub async fn open(&mut self) -> Result<bool, Failure> {
        if let Some(stream) = &self.stream {
            let is_idle = stream
                .try_read(&mut [0; 1])
                .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
            if is_idle {
                return Ok(false);
            }
        }
        self.stream = None;
        let stream = connect(self.address, self.number).await;
        self.stream = Some(stream.map_err(|_| Failure::Connect)?);
        Ok(true)
    }

    pub fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// Sends a request and hands the answer's body to `read`. Call [`Connection::open`] first.
    pub async fn exchange<T>(
        &mut self,
        request: &[u8],
        buffer: &ReadBuffer,
        read: impl FnOnce(u16, &[u8]) -> T,
    ) -> Result<T, Failure> {
        // Taken out: whatever ends this early, an answer may still be on its way, and the
        // next request must not get it.
        let stream = self.stream.take().ok_or(Failure::Closed)?;
        send(&stream, request).await.map_err(|_| Failure::Closed)?;
        let mut carried = Vec::new();
        loop {
            stream.readable().await.map_err(|_| Failure::Closed)?;
            let mut shared = buffer.0.borrow_mut();
            let fresh = match stream.try_read(&mut shared) {
                Ok(0) => return Err(Failure::Closed),
                Ok(count) => &shared[..count],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(_) => return Err(Failure::Closed),
            };
            let bytes = if carried.is_empty() {
                fresh
            } else {
                carried.extend_from_slice(fresh);
                &carried[..]
            };
            if let Some(answer) = Answer::parse(bytes)? {
                if answer.is_kept_open {
                    self.stream = Some(stream);
                }
                return Ok(read(answer.status, &answer.body));
            }
            if bytes.len() > MAX_ANSWER_BYTES {
                return Err(Failure::Malformed);
            }
            if carried.is_empty() {
                carried = fresh.to_vec();
            }
        }
    }
}

async fn connect(address: SocketAddr, number: u32) -> io::Result<TcpStream> {
    let source = number / CONNECTIONS_PER_SOURCE;
    let stream = match address.ip() {
        IpAddr::V4(ip) if ip.is_loopback() && source > 0 => {
            let socket = TcpSocket::new_v4()?;
            let source = Ipv4Addr::from(u32::from(Ipv4Addr::LOCALHOST) + source);
            socket.bind((source, 0).into())?;
            socket.connect(address).await?
        }
        _ => TcpStream::connect(address).await?,
    };
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn send(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq)]
struct Answer<'a> {
    status: u16,
    body: Cow<'a, [u8]>,
    is_kept_open: bool,
}

impl<'a> Answer<'a> {
    /// `None`: there is more to come.
    fn parse(bytes: &'a [u8]) -> Result<Option<Self>, Failure> {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut head = httparse::Response::new(&mut headers);
        let start = match head.parse(bytes) {
            Ok(httparse::Status::Complete(start)) => start,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(Failure::Malformed),
        };
        let status = head.code.ok_or(Failure::Malformed)?;
        let mut is_kept_open = head.version == Some(1);
        let mut length = None;
        let mut is_chunked = false;
        for header in head.headers.iter() {
            let value = header.value;
            if header.name.eq_ignore_ascii_case("content-length") {
                let number = std::str::from_utf8(value).ok().and_then(|v| v.parse().ok());
                length = Some(number.ok_or(Failure::Malformed)?);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                is_chunked = value.eq_ignore_ascii_case(b"chunked");
            } else if header.name.eq_ignore_ascii_case("connection") {
                is_kept_open &= !value.eq_ignore_ascii_case(b"close");
            }
        }
        let rest = &bytes[start..];
        let body = match (is_chunked, length, status) {
            (_, _, 204 | 304) => Some((Cow::Borrowed(&rest[..0]), 0)),
            (true, _, _) => unchunk(rest)?.map(|(body, end)| (Cow::Owned(body), end)),
            (false, Some(length), _) => {
                (rest.get(..length)).map(|body: &[u8]| (Cow::Borrowed(body), length))
            }
            // A body that ends with the connection: no server that keeps users does that.
            (false, None, _) => return Err(Failure::Malformed),
        };
        let Some((body, end)) = body else {
            return Ok(None);
        };
        if rest.len() > end {
            return Err(Failure::Malformed);
        }
        Ok(Some(Answer {
            status,
            body,
            is_kept_open,
        }))
    }
}

/// The body and where it ends.
fn unchunk(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, Failure> {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let (head, size) = match httparse::parse_chunk_size(&bytes[at..]) {
            Ok(httparse::Status::Complete((head, size))) => (head, size as usize),
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(Failure::Malformed),
        };
        at += head;
        if size > MAX_ANSWER_BYTES {
            return Err(Failure::Malformed);
        }
        if size == 0 {
            // Trailers, if any, end with an empty line.
            let rest = &bytes[at..];
            if rest.starts_with(b"\r\n") {
                return Ok(Some((body, at + 2)));
            }
            let end = memmem::find(rest, b"\r\n\r\n");
            return Ok(end.map(|end| (body, at + end + 4)));
        }
        let Some(chunk) = bytes.get(at..at + size + 2) else {
            return Ok(None);
        };
        let Some(data) = chunk.strip_suffix(b"\r\n") else {
            return Err(Failure::Malformed);
        };
        body.extend_from_slice(data);
        at += size + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
    const CHUNKED: &[u8] = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n\
        3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: t\r\n\r\n";

    #[test]
    fn an_answer_is_complete_at_its_last_byte_and_not_before() {
        for (bytes, status) in [(PLAIN, 200), (CHUNKED, 201)] {
            for end in 0..bytes.len() {
                assert_eq!(Answer::parse(&bytes[..end]), Ok(None), "{end}");
            }
            let answer = Answer::parse(bytes).unwrap().unwrap();
            assert_eq!((answer.status, &answer.body[..]), (status, &b"hello"[..]));
            assert!(answer.is_kept_open);
        }
    }

    #[test]
    fn a_server_may_close() {
        for head in [
            "HTTP/1.1 503 Busy\r\nConnection: close\r\n",
            "HTTP/1.0 503 Busy\r\n",
        ] {
            let bytes = format!("{head}content-length: 0\r\n\r\n");
            let answer = Answer::parse(bytes.as_bytes()).unwrap().unwrap();
            assert!(!answer.is_kept_open && answer.status == 503);
        }
    }

    #[test]
    fn what_is_no_answer_is_a_failure() {
        for bytes in [
            &b"garbage\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n\r\nuntil the end",
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhelXX",
        ] {
            assert_eq!(Answer::parse(bytes), Err(Failure::Malformed));
        }
    }
}
