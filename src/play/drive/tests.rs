use super::*;
use std::sync::Arc;
use std::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A server that answers what `script` says, one entry a request, 200 after its end; `None` cuts. Gives the bodies it saw.
async fn server(script: Vec<Option<u16>>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (script, log) = (Arc::new(Mutex::new(script.into_iter())), seen.clone());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (script, log) = (script.clone(), log.clone());
            tokio::spawn(async move {
                let mut bytes = Vec::new();
                loop {
                    let head = loop {
                        if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
                            break at + 4;
                        }
                        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                            return;
                        }
                    };
                    let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
                    let length = text
                        .split("content-length: ")
                        .nth(1)
                        .and_then(|t| t.split("\r\n").next())
                        .map_or(0, |l| l.parse().expect("a length"));
                    while bytes.len() < head + length {
                        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                            return;
                        }
                    }
                    let number = {
                        let mut log = log.lock().expect("whole");
                        log.push(String::from_utf8_lossy(&bytes[head..head + length]).into_owned());
                        log.len()
                    };
                    bytes.drain(..head + length);
                    let next = script.lock().expect("whole").next();
                    let Some(status) = next.unwrap_or(Some(200)) else { return };
                    let answer = format!("HTTP/1.1 {status} X\r\nForebay-Request-Id: r-{number}\r\nContent-Length: 2\r\n\r\nok");
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, seen)
}

fn recorded(id: &str, cut: bool) -> Recorded {
    let headers = vec![("Content-Length".to_owned(), "0".to_owned())];
    Recorded {
        method: "POST".to_owned(),
        target: "/v1/t".to_owned(),
        headers,
        body: format!("{{\"messageId\":\"{id}\"}}").into_bytes(),
        cut,
    }
}

fn options(host: String, folder: &std::path::Path) -> Options {
    let (acked, sent) = (Some(folder.join("acked")), Some(folder.join("sent")));
    Options { host, repeat: 1, unique: false, rate: None, connections: 1, faults: false, resend: false, acked, sent, key: None }
}

async fn run(recordings: &[Recorded], options: &Options) -> Summary {
    play(recordings, options, &indicatif::ProgressBar::hidden(), std::future::pending()).await.expect("played")
}

fn lines(path: &std::path::Path) -> Vec<String> {
    std::fs::read_to_string(path).expect("written").lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn in_order_and_acknowledged_by_what_was_answered() {
    let folder = tempfile::tempdir().expect("a folder");
    let (host, seen) = server(vec![Some(200), Some(500), Some(400)]).await;
    let summary = run(&[recorded("a", false), recorded("b", false), recorded("c", false)], &options(host, folder.path())).await;
    assert_eq!(seen.lock().expect("whole").len(), 3);
    assert_eq!((summary.requests, summary.events, summary.refused(), summary.retries), (3, 3, 2, 0));
    assert_eq!(lines(&folder.path().join("acked")), ["a"]);
    assert_eq!(lines(&folder.path().join("sent/r-2")), ["{\"messageId\":\"b\"}"]);
}

#[tokio::test]
async fn resend_ends_with_a_2xx_and_refusals_are_final() {
    let folder = tempfile::tempdir().expect("a folder");
    let (host, seen) = server(vec![Some(503), None, Some(429), Some(200), Some(400)]).await;
    let options = Options { resend: true, ..options(host, folder.path()) };
    let summary = run(&[recorded("a", false), recorded("b", false)], &options).await;
    assert_eq!(seen.lock().expect("whole").len(), 5);
    assert_eq!((summary.retries, summary.unanswered), (3, 0));
    assert_eq!(summary.answers.into_iter().collect::<Vec<_>>(), [(200, 1), (400, 1)]);
    assert_eq!(lines(&folder.path().join("acked")), ["a"]);
    assert_eq!(lines(&folder.path().join("sent/unanswered-0")), ["{\"messageId\":\"a\"}"]);
}

#[tokio::test]
async fn faults_cut_where_the_recorder_cut() {
    let folder = tempfile::tempdir().expect("a folder");
    for (faults, resend, counts) in [(false, false, (0, 0, 2)), (true, false, (1, 0, 1)), (true, true, (0, 1, 2))] {
        let (host, _) = server(vec![]).await;
        let options = Options { faults, resend, ..options(host, folder.path()) };
        let summary = run(&[recorded("a", true), recorded("b", false)], &options).await;
        assert_eq!((summary.cut, summary.retries, summary.answers.values().sum::<u64>()), counts);
    }
}

#[tokio::test]
async fn repetitions_are_spread_and_unique() {
    let folder = tempfile::tempdir().expect("a folder");
    let (host, seen) = server(vec![]).await;
    let options = Options { repeat: 20, unique: true, connections: 3, ..options(host, folder.path()) };
    let summary = run(&[recorded("a", false), recorded("a", false)], &options).await;
    assert_eq!((summary.requests, summary.answers[&200]), (40, 40));
    let mut bodies = seen.lock().expect("whole").clone();
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 20, "a recorded retry stays one, a repetition is new");
}
