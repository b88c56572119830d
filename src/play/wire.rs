//! One HTTP/1.1 connection that sends bytes as they are and reads what is answered.
//!
//! By hand, because recorded requests must go out with their own header names, order and framing, at the cost of a copy.

use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longest wait for one answer.
const ANSWER_WAIT: Duration = Duration::from_secs(60);
const CONNECT_WAIT: Duration = Duration::from_secs(10);
/// An answer's head, and an answer's body.
const HEAD_BYTES_MAX: usize = 64 << 10;
const BODY_BYTES_MAX: usize = 16 << 20;

pub struct Connection {
    address: String,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub request_id: Option<String>,
    pub body: Vec<u8>,
}

/// Why there is no answer. `sent`: bytes may have reached the server.
#[derive(Debug)]
pub struct NoAnswer {
    pub sent: bool,
    pub cause: std::io::Error,
}

impl Connection {
    pub fn new(address: String) -> Connection {
        Connection { address, stream: None, buffer: Vec::with_capacity(4096) }
    }

    /// Sends a request and cuts the connection without waiting for the answer.
    pub async fn send_and_cut(&mut self, request: &[u8]) -> Result<(), NoAnswer> {
        self.connect().await?;
        let mut stream = self.stream.take().expect("just connected");
        stream.write_all(request).await.map_err(|cause| NoAnswer { sent: true, cause })
    }

    async fn connect(&mut self) -> Result<(), NoAnswer> {
        // A kept connection that the server has closed meanwhile is opened anew; one that breaks later is not: its request may have arrived.
        if self.stream.as_ref().is_none_or(is_closed) {
            let refused = |cause| NoAnswer { sent: false, cause };
            let connecting = tokio::time::timeout(CONNECT_WAIT, TcpStream::connect(&self.address));
            let stream = connecting.await.map_err(|_| refused(std::io::ErrorKind::TimedOut.into()))?.map_err(refused)?;
            stream.set_nodelay(true).map_err(refused)?;
            self.stream = Some(stream);
        }
        Ok(())
    }

    /// Sends a request and reads its answer.
    pub async fn exchange(&mut self, request: &[u8], method: &str) -> Result<Answer, NoAnswer> {
        self.buffer.clear();
        self.connect().await?;
        let mut stream = self.stream.take().expect("just connected");
        let lost = |cause| NoAnswer { sent: true, cause };
        let written = stream.write_all(request).await;
        // A server that refuses early may close its reading side: what it answered still counts.
        let reading = tokio::time::timeout(ANSWER_WAIT, read_answer(&mut stream, &mut self.buffer, method));
        let answer = reading.await.map_err(|_| lost(std::io::ErrorKind::TimedOut.into()))?;
        match (answer, written) {
            (Ok((answer, keep)), written) => {
                if keep && written.is_ok() {
                    self.stream = Some(stream);
                }
                Ok(answer)
            }
            (Err(_), Err(cause)) | (Err(cause), Ok(())) => Err(lost(cause)),
        }
    }
}

fn is_closed(stream: &TcpStream) -> bool {
    !matches!(stream.try_read(&mut [0]), Err(e) if e.kind() == std::io::ErrorKind::WouldBlock)
}

/// The answer, and whether the connection may be used again.
async fn read_answer(stream: &mut TcpStream, buffer: &mut Vec<u8>, method: &str) -> std::io::Result<(Answer, bool)> {
    loop {
        let end = read_head(stream, buffer).await?;
        let head = Head::parse(&buffer[..end])?;
        buffer.drain(..end);
        if head.status >= 200 {
            return read_body(stream, buffer, method, head).await;
        }
    }
}

async fn read_head(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<usize> {
    let mut searched = 0usize;
    loop {
        if let Some(at) = memchr_head_end(&buffer[searched..]) {
            return Ok(searched + at + 4);
        }
        if buffer.len() > HEAD_BYTES_MAX {
            return Err(invalid("the answer's head is too long"));
        }
        searched = buffer.len().saturating_sub(3);
        more(stream, buffer).await?;
    }
}

fn memchr_head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|w| w == b"\r\n\r\n")
}

struct Head {
    status: u16,
    request_id: Option<String>,
    length: Option<usize>,
    chunked: bool,
    close: bool,
}

impl Head {
    fn parse(bytes: &[u8]) -> std::io::Result<Head> {
        let text = std::str::from_utf8(bytes).map_err(|_| invalid("the answer's head is not text"))?;
        let mut lines = text.split("\r\n");
        let status_line = lines.next().unwrap_or_default();
        let status = status_line.strip_prefix("HTTP/1.").and_then(|l| l.split(' ').nth(1)).and_then(|s| s.parse().ok());
        let mut head = Head {
            status: status.ok_or_else(|| invalid("the answer has no status line"))?,
            request_id: None,
            length: None,
            chunked: false,
            close: status_line.starts_with("HTTP/1.0"),
        };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                head.length = Some(value.parse().map_err(|_| invalid("the answer's length is no number"))?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                head.chunked = value.contains("chunked");
            } else if name.eq_ignore_ascii_case("connection") {
                head.close = value.eq_ignore_ascii_case("close");
            } else if name.eq_ignore_ascii_case("forebay-request-id") {
                head.request_id = Some(value.to_owned());
            }
        }
        Ok(head)
    }
}

async fn read_body(stream: &mut TcpStream, buffer: &mut Vec<u8>, method: &str, head: Head) -> std::io::Result<(Answer, bool)> {
    let answer = |body| Answer { status: head.status, request_id: head.request_id.clone(), body };
    if method == "HEAD" || matches!(head.status, 204 | 304) {
        return Ok((answer(Vec::new()), !head.close));
    }
    if head.chunked {
        return Ok((answer(read_chunks(stream, buffer).await?), !head.close));
    }
    let Some(length) = head.length else {
        while more(stream, buffer).await.is_ok() {}
        return Ok((answer(std::mem::take(buffer)), false));
    };
    if length > BODY_BYTES_MAX {
        return Err(invalid("the answer is too long"));
    }
    while buffer.len() < length {
        more(stream, buffer).await?;
    }
    let rest = buffer.split_off(length);
    Ok((answer(std::mem::replace(buffer, rest)), !head.close))
}

async fn read_chunks(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line_end = loop {
            if let Some(at) = buffer.windows(2).position(|w| w == b"\r\n") {
                break at;
            }
            more(stream, buffer).await?;
        };
        let size =
            std::str::from_utf8(&buffer[..line_end]).ok().and_then(|line| usize::from_str_radix(line.split(';').next()?.trim(), 16).ok());
        let size = size.ok_or_else(|| invalid("the answer's chunk has no size"))?;
        if body.len() + size > BODY_BYTES_MAX {
            return Err(invalid("the answer is too long"));
        }
        let end = line_end + 2 + size + 2;
        while buffer.len() < end {
            more(stream, buffer).await?;
        }
        body.extend_from_slice(&buffer[line_end + 2..line_end + 2 + size]);
        buffer.drain(..end);
        if size == 0 {
            return Ok(body);
        }
    }
}

async fn more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<()> {
    buffer.reserve(8 << 10);
    if stream.read_buf(buffer).await? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

fn invalid(message: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, message)
}
