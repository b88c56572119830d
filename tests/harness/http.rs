//! HTTP/1.1 by hand: tests must be able to say what no client library would.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }
}

pub fn connect(address: &str) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    Ok(stream)
}

pub fn head(method: &str, target: &str, headers: &[(&str, &str)]) -> String {
    let mut head = format!("{method} {target} HTTP/1.1\r\n");
    if !headers.iter().any(|(n, _)| n.eq_ignore_ascii_case("host")) {
        head.push_str("host: 127.0.0.1\r\n");
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    head
}

pub fn request(address: &str, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> std::io::Result<Answer> {
    let mut stream = connect(address)?;
    let length = body.len().to_string();
    let mut all = headers.to_vec();
    if !body.is_empty() || method == "POST" {
        all.push(("content-length", &length));
    }
    all.push(("connection", "close"));
    stream.write_all(head(method, target, &all).as_bytes())?;
    // A server that refuses early closes its reading side: what it answered still counts.
    let written = stream.write_all(body);
    let answer = read_answer(&mut stream, method);
    match (answer, written) {
        (Ok(answer), _) => Ok(answer),
        (Err(_), Err(e)) | (Err(e), Ok(())) => Err(e),
    }
}

pub fn get(address: &str, target: &str, token: Option<&str>) -> std::io::Result<Answer> {
    let bearer = token.map(|t| format!("Bearer {t}"));
    let headers: Vec<(&str, &str)> = bearer.iter().map(|b| ("authorization", b.as_str())).collect();
    let host = [("host", address)];
    request(address, "GET", target, &[&host[..], &headers[..]].concat(), b"")
}

pub fn read_answer(stream: &mut TcpStream, method: &str) -> std::io::Result<Answer> {
    let mut bytes = Vec::new();
    let mut chunk = [0u8; 16 << 10];
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        let n = stream.read(&mut chunk)?;
        if n == 0 {
            return Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "closed before an answer"));
        }
        bytes.extend_from_slice(&chunk[..n]);
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let mut lines = head.split("\r\n");
    let status: u16 = lines.next().and_then(|l| l.split(' ').nth(1)).and_then(|s| s.parse().ok()).expect("a status line");
    let headers: Vec<(String, String)> = lines.filter_map(|l| l.split_once(": ")).map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
    let mut answer = Answer { status, headers, body: bytes[head_end..].to_vec() };
    if status == 100 {
        return read_answer(stream, method);
    }
    if method == "HEAD" || status == 204 || status == 304 {
        return Ok(answer);
    }
    let length = answer.header("content-length").and_then(|v| v.parse::<usize>().ok());
    let chunked = answer.header("transfer-encoding").is_some_and(|v| v.contains("chunked"));
    while length.is_none_or(|l| answer.body.len() < l) && !(chunked && answer.body.ends_with(b"0\r\n\r\n")) {
        let n = stream.read(&mut chunk)?;
        if n == 0 {
            break;
        }
        answer.body.extend_from_slice(&chunk[..n]);
    }
    if chunked {
        answer.body = dechunk(&answer.body);
    }
    Ok(answer)
}

fn dechunk(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(line_end) = rest.windows(2).position(|w| w == b"\r\n") {
        let size =
            usize::from_str_radix(String::from_utf8_lossy(&rest[..line_end]).split(';').next().expect("a size").trim(), 16).expect("hex");
        if size == 0 {
            break;
        }
        body.extend_from_slice(&rest[line_end + 2..line_end + 2 + size]);
        rest = &rest[line_end + 2 + size + 2..];
    }
    body
}
