//! As much of HTTP/1.1 as asking a local service takes.

use crate::{Failure, Result};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// Status and body. An error is one of transport.
pub fn request(address: &str, method: &str, target: &str, body: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    write!(stream, "{method} {target} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n")?;
    write!(stream, "content-length: {length}\r\n\r\n{body}")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| Failure(format!("no HTTP answer: {answer}")))?;
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or_else(|| Failure(format!("no HTTP status: {head}")))?;
    Ok((status, body.to_owned()))
}

/// Whether something answers there, whatever it says.
pub fn answers(address: &str, target: &str) -> bool {
    request(address, "GET", target, "").is_ok()
}
