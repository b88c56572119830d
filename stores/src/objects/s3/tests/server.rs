//! An S3 server in this process that does what the real one cannot be made to do: a real store in memory, and a script of faults.

use aws_smithy_types::DateTime;
use aws_smithy_types::base64;
use aws_smithy_types::date_time::Format;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

/// What the next request of a method meets.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Nothing is done, and this is answered.
    Answer(u16, &'static str),
    /// Another writer takes the name, and this one is told to come again.
    TakenInBetween(&'static [u8]),
    /// It is done and nobody hears of it.
    DoneAndCut,
    /// It is done and the answer does not come; the connection stays.
    DoneAndSilent,
    /// The body is read and the connection closed; nothing is done.
    Cut,
    /// The connection is closed without the body being read, after this answer.
    Early(u16, &'static str),
    /// Half of the answer's body.
    Torn,
    /// Half of the answer's body; the connection stays.
    TornAndSilent,
}

#[derive(Default)]
pub struct Quirks {
    /// Checksums are not kept.
    pub forgets_checksums: bool,
    /// `If-None-Match` is not known.
    pub overwrites: bool,
    /// A put whose name is taken is cut, without an answer that anybody could read.
    pub cuts_refusals: bool,
    /// How far the server's clock is ahead.
    pub ahead: Duration,
}

#[derive(Default)]
pub struct State {
    pub objects: Mutex<BTreeMap<String, Vec<u8>>>,
    pub script: Mutex<VecDeque<(&'static str, Fault)>>,
    /// `METHOD key` of each request, the probe's apart.
    pub seen: Mutex<Vec<String>>,
    quirks: Quirks,
    stopped: AtomicBool,
}

pub struct Server {
    pub state: Arc<State>,
    address: SocketAddr,
}

pub const BUCKET: &str = "events";

impl Server {
    pub fn start(quirks: Quirks, script: &[(&'static str, Fault)]) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let script = Mutex::new(script.iter().cloned().collect());
        let state = Arc::new(State { quirks, script, ..State::default() });
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().take_while(|_| !shared.stopped.load(Ordering::SeqCst)) {
                let shared = shared.clone();
                std::thread::spawn(move || serve(&stream.unwrap(), &shared));
            }
        });
        Server { state, address }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

struct Request {
    method: String,
    key: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
}

/// Requests of one connection until it ends; how it ends is the client's affair.
fn serve(stream: &TcpStream, state: &State) {
    let mut reader = BufReader::new(stream);
    while let Some(request) = head(&mut reader) {
        let length = request.headers.get("content-length").map_or(0, |text| text.parse().unwrap());
        if !answer(stream, &mut reader, state, &request, length) {
            return;
        }
    }
}

fn head(reader: &mut impl BufRead) -> Option<Request> {
    let mut lines = reader.lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    let first = lines.next()?;
    let header = |line: String| line.split_once(':').map(|(name, value)| (name.to_lowercase(), value.trim().to_owned())).unwrap();
    let headers = lines.map(header).collect();
    let mut words = first.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pair = |pair: &str| pair.split_once('=').map(|(name, value)| (name.to_owned(), decoded(value)));
    let key = path.strip_prefix(&format!("/{BUCKET}")).unwrap().trim_start_matches('/');
    Some(Request { method, key: decoded(key), query: query.split('&').filter_map(pair).collect(), headers })
}

fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).unwrap()
}

/// Whether the connection goes on.
fn answer(stream: &TcpStream, reader: &mut impl Read, state: &State, request: &Request, length: usize) -> bool {
    let fault = if request.key.contains(".tmp-") { None } else { state.next_fault(request) };
    let taken = request.method == "PUT" && fault.is_none() && state.objects.lock().contains_key(&request.key);
    if taken && state.quirks.cuts_refusals && !request.key.contains(".tmp-") {
        return false;
    }
    if let Some(Fault::Early(status, code)) = fault {
        send(stream, state, &error(status, code), request);
        return false;
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return false;
    }
    match fault {
        Some(Fault::Answer(status, code)) => send(stream, state, &error(status, code), request),
        Some(Fault::TakenInBetween(other)) => {
            state.objects.lock().insert(request.key.clone(), other.to_vec());
            send(stream, state, &error(409, "ConditionalRequestConflict"), request)
        }
        Some(Fault::Cut) => false,
        Some(Fault::DoneAndCut) => {
            state.perform(request, body);
            false
        }
        Some(Fault::DoneAndSilent) => {
            state.perform(request, body);
            silence(reader)
        }
        Some(fault @ (Fault::Torn | Fault::TornAndSilent)) => {
            let whole = state.perform(request, body);
            let bytes = render(&whole, state, request);
            let _ = (&mut &*stream).write_all(&bytes[..bytes.len() - whole.body.len() / 2]);
            if matches!(fault, Fault::TornAndSilent) { silence(reader) } else { false }
        }
        Some(Fault::Early(..)) => unreachable!(),
        None => {
            let whole = state.perform(request, body);
            send(stream, state, &whole, request)
        }
    }
}

/// Until the client goes.
fn silence(reader: &mut impl Read) -> bool {
    let _ = reader.read(&mut [0]);
    false
}

struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// As told in the head: `HEAD` has no body.
    length: usize,
}

fn plain(status: u16, headers: Vec<(&'static str, String)>, body: Vec<u8>) -> Answer {
    Answer { status, headers, length: body.len(), body }
}

fn error(status: u16, code: &str) -> Answer {
    plain(status, vec![], format!("<Error><Code>{code}</Code><Message>as the script says</Message></Error>").into_bytes())
}

fn send(mut stream: &TcpStream, state: &State, answer: &Answer, request: &Request) -> bool {
    stream.write_all(&render(answer, state, request)).is_ok()
}

fn render(answer: &Answer, state: &State, request: &Request) -> Vec<u8> {
    let date = DateTime::from(SystemTime::now() + state.quirks.ahead).fmt(Format::HttpDate).unwrap();
    let mut text = format!("HTTP/1.1 {} x\r\nDate: {date}\r\nContent-Length: {}\r\n", answer.status, answer.length);
    for (name, value) in &answer.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    let mut bytes = (text + "\r\n").into_bytes();
    if request.method != "HEAD" {
        bytes.extend_from_slice(&answer.body);
    }
    bytes
}

impl State {
    fn next_fault(&self, request: &Request) -> Option<Fault> {
        self.seen.lock().push(format!("{} {}", request.method, request.key));
        let mut script = self.script.lock();
        let place = script.iter().position(|(method, _)| *method == request.method)?;
        script.remove(place).map(|(_, fault)| fault)
    }

    fn perform(&self, request: &Request, body: Vec<u8>) -> Answer {
        if self.quirks.ahead > Duration::ZERO && self.skewed(request) {
            return error(403, "RequestTimeTooSkewed");
        }
        let mut objects = self.objects.lock();
        match (request.method.as_str(), objects.get(&request.key)) {
            ("GET", _) if request.key.is_empty() => list(&objects, &request.query),
            ("PUT", there) => {
                assert_eq!(request.headers["x-amz-checksum-sha256"], base64::encode(Sha256::digest(&body)));
                assert_eq!(request.headers["if-none-match"], "*");
                if there.is_some() && !self.quirks.overwrites {
                    return error(412, "PreconditionFailed");
                }
                objects.insert(request.key.clone(), body);
                plain(200, vec![("ETag", "\"x\"".to_owned())], vec![])
            }
            ("DELETE", _) => {
                objects.remove(&request.key);
                plain(204, vec![], vec![])
            }
            ("HEAD", None) => plain(404, vec![], vec![]),
            (_, None) => error(404, "NoSuchKey"),
            (_, Some(bytes)) => self.whole_or_part(request, bytes),
        }
    }

    fn whole_or_part(&self, request: &Request, bytes: &[u8]) -> Answer {
        if let Some(range) = request.headers.get("range") {
            let (from, to) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
            let (from, to) = (from.parse::<usize>().unwrap(), to.parse::<usize>().unwrap().min(bytes.len().saturating_sub(1)));
            if from >= bytes.len() {
                return error(416, "InvalidRange");
            }
            let told = format!("bytes {from}-{to}/{}", bytes.len());
            return plain(206, vec![("Content-Range", told)], bytes[from..=to].to_vec());
        }
        let checksum = ("x-amz-checksum-sha256", base64::encode(Sha256::digest(bytes)));
        plain(200, if self.quirks.forgets_checksums { vec![] } else { vec![checksum] }, bytes.to_vec())
    }

    /// As S3 has it: by more than a quarter of an hour.
    fn skewed(&self, request: &Request) -> bool {
        let at = &request.headers["x-amz-date"];
        let text = format!("{}-{}-{}T{}:{}:{}Z", &at[..4], &at[4..6], &at[6..8], &at[9..11], &at[11..13], &at[13..15]);
        let signed = SystemTime::try_from(DateTime::from_str(&text, Format::DateTime).unwrap()).unwrap();
        let now = SystemTime::now() + self.quirks.ahead;
        now.duration_since(signed).unwrap_or_else(|e| e.duration()) > Duration::from_secs(900)
    }
}

fn list(objects: &BTreeMap<String, Vec<u8>>, query: &BTreeMap<String, String>) -> Answer {
    let text = |name: &str| query.get(name).map_or("", String::as_str);
    let max: usize = text("max-keys").parse().unwrap();
    let ours = |(key, _): &(&String, &Vec<u8>)| key.starts_with(text("prefix")) && key.as_str() > text("start-after");
    let all: Vec<_> = objects.iter().filter(ours).collect();
    let mut xml = format!("<ListBucketResult><IsTruncated>{}</IsTruncated>", all.len() > max);
    for (key, bytes) in all.iter().take(max) {
        xml.push_str(&format!("<Contents><Key>{key}</Key><Size>{}</Size></Contents>", bytes.len()));
    }
    plain(200, vec![], (xml + "</ListBucketResult>").into_bytes())
}
