//! Stands before a REST catalogue and does to commits what networks and tired servers do.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What becomes of a commit. Other requests pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Pass,
    /// It reaches the server; its answer is lost.
    LoseAnswer,
    /// It does not reach the server, which seems to be in trouble.
    Refuse,
    /// The token is no longer good.
    Expire,
    /// No answer in time; it reaches the server just before the next commit does.
    BeforeTheNext,
    /// No answer in time; it reaches the server just after the next commit did.
    AfterTheNext,
}

pub struct Proxy {
    pub url: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    fates: VecDeque<Fate>,
    held: Option<(Fate, Vec<u8>)>,
    /// What the server said of a commit that came late.
    late: Vec<String>,
    /// Path and token of each request.
    seen: Vec<(String, Option<String>)>,
}

impl Proxy {
    pub fn start(server: String) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (url, state) = (format!("http://{}", listener.local_addr().expect("an address")), Arc::new(Mutex::new(State::default())));
        let theirs = state.clone();
        // Ends with the process; one request at a time, as one sink makes them.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                serve(client, &server, &theirs);
            }
        });
        Proxy { url, state }
    }
    /// Of the next commits, in turn.
    pub fn next(&self, fates: &[Fate]) {
        self.state.lock().expect("lock").fates.extend(fates);
    }
    pub fn late(&self) -> Vec<String> {
        self.state.lock().expect("lock").late.clone()
    }
    pub fn seen(&self) -> Vec<(String, Option<String>)> {
        self.state.lock().expect("lock").seen.clone()
    }
}

fn serve(mut client: TcpStream, server: &str, state: &Mutex<State>) {
    let Some(request) = receive(&mut client) else { return };
    let is_commit = request.starts_with(b"POST /v1/namespaces/forebay/tables/");
    let mut state = state.lock().expect("lock");
    let text = String::from_utf8_lossy(&request);
    let token = text.lines().find_map(|line| line.strip_prefix("authorization: Bearer ").map(str::to_owned));
    state.seen.push((text.split(' ').nth(1).unwrap_or_default().to_owned(), token));
    let fate = if is_commit { state.fates.pop_front().unwrap_or(Fate::Pass) } else { Fate::Pass };
    let held = if is_commit { state.held.take() } else { None };
    let mut late = |when: Fate| {
        if let Some((_, request)) = held.as_ref().filter(|(held, _)| *held == when) {
            let answer = forward(server, request);
            state.late.push(String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned());
        }
    };
    late(Fate::BeforeTheNext);
    let answer = match fate {
        Fate::Pass => forward(server, &request),
        Fate::LoseAnswer => {
            forward(server, &request);
            Vec::new()
        }
        Fate::Refuse => b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n".to_vec(),
        Fate::Expire => b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n".to_vec(),
        Fate::BeforeTheNext | Fate::AfterTheNext => b"HTTP/1.1 504 Gateway Timeout\r\ncontent-length: 0\r\n\r\n".to_vec(),
    };
    late(Fate::AfterTheNext);
    if matches!(fate, Fate::BeforeTheNext | Fate::AfterTheNext) {
        state.held = Some((fate, request));
    }
    // Who has gone gets no answer.
    let _ = client.write_all(&answer);
}

/// Head and body of a request, as they came.
fn receive(client: &mut TcpStream) -> Option<Vec<u8>> {
    let mut request = Vec::new();
    let mut chunk = [0; 16 << 10];
    loop {
        if let Some(end) = request.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&request[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok()).unwrap_or(0);
            if request.len() >= end + 4 + length {
                return Some(request);
            }
        }
        match client.read(&mut chunk).ok()? {
            0 => return None,
            n => request.extend_from_slice(&chunk[..n]),
        }
    }
}

/// The server's whole answer.
fn forward(server: &str, request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    let once = text.replacen("\r\n", "\r\nconnection: close\r\n", 1);
    let mut answer = Vec::new();
    if let Ok(mut stream) = TcpStream::connect(server) {
        let _ = stream.write_all(once.as_bytes()).and_then(|()| stream.read_to_end(&mut answer).map(drop));
    }
    answer
}
