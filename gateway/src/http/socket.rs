//! A connection's bytes, and the answers that the protocol layer gives before a request exists.
//!
//! Owns: putting reason, CORS headers and request id into those answers (414, 431, 400), which hyper writes bare.
//! Does not own: answers of ours; they pass untouched.
//! Invariants: a bare answer is known by the lack of `Forebay-Request-Id`, which every answer of ours carries in its
//! head; no more than `TAIL_BYTES` of what was read are remembered.

use super::handler::App;
use super::reply::{Outcome, respond};
use bytes::{Buf, Bytes};
use forebay_gateway_core::{Answer, Refusal, RefusalReason, Route, answer};
use forebay_schemas::limit;
use http::header::ORIGIN;
use http::{HeaderMap, HeaderValue};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The end of a request's head, where `Origin` stands behind a target that is too long.
const TAIL_BYTES: usize = 4 << 10;

pub struct Socket {
    stream: TcpStream,
    app: Arc<App>,
    tail: Vec<u8>,
    /// An answer in the place of a bare one, and the length of that one.
    instead: Option<(Bytes, usize)>,
}

impl Socket {
    pub fn new(stream: TcpStream, app: Arc<App>) -> Socket {
        Socket { stream, app, tail: Vec::new(), instead: None }
    }

    fn remember(&mut self, read: &[u8]) {
        let kept = TAIL_BYTES.saturating_sub(read.len()).min(self.tail.len());
        self.tail.drain(..self.tail.len() - kept);
        self.tail.extend_from_slice(&read[read.len().saturating_sub(TAIL_BYTES)..]);
    }

    /// The whole answer that is sent for a bare one.
    fn dress(&self, status: u16) -> Bytes {
        let request_id = self.app.intake.id();
        let given = match status {
            414 => Some(Refusal::over(RefusalReason::TargetTooLong, limit::TARGET_BYTES)),
            431 => Some(Refusal::over(RefusalReason::HeadersTooLarge, limit::HEADERS_BYTES)),
            _ => None,
        };
        let answer = match &given {
            Some(refusal) => {
                self.app.metrics.events_refused.with_label_values(&["none", refusal.reason.name()]).inc();
                answer::refused(&Route::NotFound, refusal, request_id)
            }
            None => Answer { status, content_type: None, headers: Vec::new(), body: Bytes::new() },
        };
        let mut head = HeaderMap::new();
        if let Some(origin) = origin(&self.tail) {
            head.insert(ORIGIN, origin);
        }
        let body = answer.body.clone();
        let outcome = Outcome { close: true, ..Outcome::new(answer, request_id, &Route::NotFound) };
        let response = respond(&self.app, &head, &Route::NotFound, outcome);
        let mut out = format!("HTTP/1.1 {}\r\ncontent-length: {}\r\n", response.status(), body.len()).into_bytes();
        for (name, value) in response.headers() {
            out.extend_from_slice(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&body);
        out.into()
    }

    /// Writes what stands in the place of a bare answer; that one then counts as written.
    fn poll_instead(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<usize>>> {
        while let Some((bytes, length)) = &mut self.instead {
            if bytes.is_empty() {
                let length = *length;
                self.instead = None;
                return Poll::Ready(Ok(Some(length)));
            }
            match ready!(Pin::new(&mut self.stream).poll_write(context, bytes))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => bytes.advance(written),
            }
        }
        Poll::Ready(Ok(None))
    }

    fn look(&mut self, written: &[u8]) {
        if self.instead.is_none()
            && let Some(status) = bare(written)
        {
            self.instead = Some((self.dress(status), written.len()));
        }
    }
}

/// The status of an error that has no body and is not ours.
fn bare(written: &[u8]) -> Option<u16> {
    let rest = written.strip_prefix(b"HTTP/1.1 ")?;
    if !matches!(rest.first(), Some(b'4' | b'5')) || !rest.ends_with(b"\r\n\r\n") {
        return None;
    }
    let text = std::str::from_utf8(rest).ok()?;
    let ours = text.contains("forebay-request-id:");
    text.get(..3)?.parse().ok().filter(|_| !ours && text.contains("\r\ncontent-length: 0\r\n"))
}

/// The last `Origin` line of what was read.
fn origin(tail: &[u8]) -> Option<HeaderValue> {
    let lines = tail.split(|b| *b == b'\n').rev();
    let value = lines.filter_map(|line| {
        let (name, value) = line.split_at_checked(7)?;
        name.eq_ignore_ascii_case(b"origin:").then_some(value.trim_ascii())
    });
    value.take(1).find_map(|value| HeaderValue::from_bytes(value).ok())
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        self.remember(&buffer.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.look(bytes);
        match ready!(self.poll_instead(context))? {
            Some(length) => Poll::Ready(Ok(length)),
            None => Pin::new(&mut self.stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, context: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if let [only] = slices {
            self.look(only);
        }
        match ready!(self.poll_instead(context))? {
            Some(length) => Poll::Ready(Ok(length)),
            None => Pin::new(&mut self.stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bare_errors_are_dressed() {
        for (written, expected) in [
            ("HTTP/1.1 414 URI Too Long\r\nconnection: close\r\ncontent-length: 0\r\ndate: x\r\n\r\n", Some(414)),
            ("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n", Some(400)),
            ("HTTP/1.1 405 x\r\nforebay-request-id: 1\r\ncontent-length: 0\r\n\r\n", None),
            ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", None),
            ("HTTP/1.1 404 x\r\ncontent-length: 3\r\n\r\nabc", None),
            ("", None),
        ] {
            assert_eq!(bare(written.as_bytes()), expected, "{written}");
        }
    }

    #[test]
    fn the_origin_of_a_head_that_was_cut_in_front_is_found() {
        for (tail, expected) in [
            ("xxx HTTP/1.1\r\nHost: a\r\nORIGIN:  https://a.example \r\nAccept: */*\r\n\r\n", Some("https://a.example")),
            ("Origin: a\r\nOrigin: b\r\n\r\n", Some("b")),
            ("x-origin: a\r\n\r\n", None),
            ("", None),
        ] {
            assert_eq!(origin(tail.as_bytes()).as_ref().and_then(|value| value.to_str().ok()), expected, "{tail}");
        }
    }
}
