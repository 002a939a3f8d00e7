//! Takes a request body out of the bytes as they arrive.

use shared::ApiError;

use super::head::Framing;

/// What the chunks' sizes, extensions and trailers may add to a body, in bytes.
const MAX_CHUNK_OVERHEAD_BYTES: usize = 65_536;

/// The longest line of a chunk's size with its extensions, or of a trailer.
const MAX_LINE_BYTES: usize = 4_096;

/// A body that is being received.
pub struct Incoming {
    rest: Rest,
    received: Vec<u8>,
    max_bytes: usize,
    overhead_bytes: usize,
}

/// What comes next.
enum Rest {
    Bytes(usize),
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailers,
    Nothing,
}

impl Incoming {
    /// A body known to be too large is refused before any of it is taken.
    pub fn new(framing: Framing, max_bytes: usize) -> Result<Incoming, ApiError> {
        let (rest, expected_bytes) = match framing {
            Framing::Length(0) => (Rest::Nothing, 0),
            Framing::Length(length) if length <= max_bytes => (Rest::Bytes(length), length),
            Framing::Length(_) => return Err(ApiError::RequestBodyTooLarge),
            Framing::Chunked => (Rest::ChunkSize, 0),
        };
        let received = Vec::with_capacity(expected_bytes);
        Ok(Incoming {
            rest,
            received,
            max_bytes,
            overhead_bytes: 0,
        })
    }

    pub fn is_complete(&self) -> bool {
        matches!(self.rest, Rest::Nothing)
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.received
    }

    /// Takes what belongs to the body from the start of `input`; returns how many bytes.
    pub fn take_from(&mut self, input: &[u8]) -> Result<usize, ApiError> {
        let mut at = 0;
        loop {
            let left = &input[at..];
            let taken = match self.rest {
                Rest::Nothing => return Ok(at),
                Rest::Bytes(wanted) => self.take_bytes(left, wanted),
                Rest::ChunkSize => self.take_chunk_size(left)?,
                Rest::Chunk(wanted) => self.take_chunk(left, wanted),
                Rest::ChunkEnd => self.take_chunk_end(left)?,
                Rest::Trailers => self.take_trailer(left)?,
            };
            if taken == 0 {
                return Ok(at);
            }
            at += taken;
        }
    }

    fn take_bytes(&mut self, input: &[u8], wanted: usize) -> usize {
        let taken = wanted.min(input.len());
        self.received.extend_from_slice(&input[..taken]);
        self.rest = if taken == wanted {
            Rest::Nothing
        } else {
            Rest::Bytes(wanted - taken)
        };
        taken
    }

    fn take_chunk_size(&mut self, input: &[u8]) -> Result<usize, ApiError> {
        let Some(line_bytes) = self.line(input)? else {
            return Ok(0);
        };
        // httparse reads a line without a digit as size 0: the end of a body that has not ended.
        let has_digit = input[0].is_ascii_hexdigit();
        match httparse::parse_chunk_size(&input[..line_bytes]) {
            Ok(httparse::Status::Complete((taken, size))) if has_digit && taken == line_bytes => {
                if size > (self.max_bytes - self.received.len()) as u64 {
                    return Err(ApiError::RequestBodyTooLarge);
                }
                self.rest = if size == 0 {
                    Rest::Trailers
                } else {
                    Rest::Chunk(size)
                };
                Ok(taken)
            }
            _ => Err(ApiError::BadRequest),
        }
    }

    fn take_chunk(&mut self, input: &[u8], wanted: u64) -> usize {
        // `wanted` is within `max_bytes`.
        let taken = (wanted as usize).min(input.len());
        self.received.extend_from_slice(&input[..taken]);
        let left = wanted - taken as u64;
        self.rest = if left == 0 {
            Rest::ChunkEnd
        } else {
            Rest::Chunk(left)
        };
        taken
    }

    fn take_chunk_end(&mut self, input: &[u8]) -> Result<usize, ApiError> {
        match input {
            [b'\r', b'\n', ..] => {
                self.rest = Rest::ChunkSize;
                Ok(2)
            }
            [] | [b'\r'] => Ok(0),
            _ => Err(ApiError::BadRequest),
        }
    }

    /// Trailers are read over: nothing of ours stands in them.
    fn take_trailer(&mut self, input: &[u8]) -> Result<usize, ApiError> {
        let Some(line_bytes) = self.line(input)? else {
            return Ok(0);
        };
        if line_bytes == 2 {
            self.rest = Rest::Nothing;
        }
        Ok(line_bytes)
    }

    /// The length of the first line with its CRLF; `None` while it has not all arrived.
    fn line(&mut self, input: &[u8]) -> Result<Option<usize>, ApiError> {
        let searched = &input[..input.len().min(MAX_LINE_BYTES)];
        match searched.iter().position(|&byte| byte == b'\n') {
            Some(at) if at > 0 && input[at - 1] == b'\r' => {
                self.overhead_bytes += at + 1;
                if self.overhead_bytes > MAX_CHUNK_OVERHEAD_BYTES {
                    return Err(ApiError::RequestBodyTooLarge);
                }
                Ok(Some(at + 1))
            }
            None if input.len() < MAX_LINE_BYTES => Ok(None),
            _ => Err(ApiError::BadRequest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNKS: &[u8] =
        b"4;name=value\r\nWiki\r\n5\r\npedia\r\nA ;x\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";

    /// Feeds `input` in pieces of `step` bytes, as a connection does.
    fn receive(input: &[u8], step: usize) -> Result<(Vec<u8>, usize), ApiError> {
        let mut incoming = Incoming::new(Framing::Chunked, 100)?;
        let (mut held, mut taken) = (Vec::new(), 0);
        for piece in input.chunks(step) {
            held.extend_from_slice(piece);
            let now = incoming.take_from(&held)?;
            held.drain(..now);
            taken += now;
        }
        assert!(incoming.is_complete());
        Ok((incoming.into_bytes(), taken))
    }

    #[test]
    fn chunks_arrive_whole_however_they_are_cut() {
        let with_next_request = [CHUNKS, b"GET /"].concat();
        for step in 1..=with_next_request.len() {
            let (body, taken) = receive(&with_next_request, step).unwrap();
            assert_eq!(body, b"Wikipedia0123456789");
            assert_eq!(taken, CHUNKS.len());
        }
    }

    #[test]
    fn a_broken_chunk_is_a_bad_request() {
        for bad in [
            "x\r\n",
            ";x=y\r\n",
            " 4\r\n",
            "-1\r\n",
            "4\r\nWikiX",
            "4\nWiki\r\n",
            "\r\n",
            "0x4\r\n",
            "11111111111111111\r\n",
        ] {
            let mut incoming = Incoming::new(Framing::Chunked, 100).unwrap();
            assert_eq!(
                incoming.take_from(bad.as_bytes()),
                Err(ApiError::BadRequest),
                "{bad}"
            );
        }
    }

    #[test]
    fn the_limit_holds_for_chunks_too() {
        assert!(Incoming::new(Framing::Length(101), 100).is_err());
        let mut incoming = Incoming::new(Framing::Chunked, 100).unwrap();
        let too_large = Err(ApiError::RequestBodyTooLarge);
        assert_eq!(incoming.take_from(b"65\r\n"), too_large);

        let mut incoming = Incoming::new(Framing::Chunked, 100).unwrap();
        assert_eq!(incoming.take_from(b"ffffffffffffffff\r\n"), too_large);

        let mut incoming = Incoming::new(Framing::Chunked, 100).unwrap();
        assert!(incoming.take_from(b"0\r\n").is_ok());
        let endless = b"X: y\r\n".repeat(MAX_CHUNK_OVERHEAD_BYTES / 6 + 1);
        assert_eq!(incoming.take_from(&endless), too_large);
    }
}
