use super::*;
use std::io::Read;

fn recorded(target: &str, headers: &[(&str, &str)], body: &[u8]) -> Recorded {
    let headers = headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    Recorded {
        method: if body.is_empty() { "GET" } else { "POST" }.to_owned(),
        target: target.to_owned(),
        headers,
        body: body.to_vec(),
        cut: false,
    }
}

fn template(recorded: &Recorded, unique: Option<u64>, key: Option<&str>, ids: &mut Ids) -> Template {
    Template::new(recorded, &Changes { host: "127.0.0.1:8080", unique, key }, ids).expect("a template")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    layers::wrap(&[Layer::Gzip], bytes).expect("packs")
}

#[test]
fn a_request_goes_out_as_recorded() {
    let request = recorded("/v1/t?a=1", &[("Host", "recorder"), ("Content-Length", "99"), ("X-Odd", "Yes")], br#"{"messageId":"m-1"}"#);
    let built = template(&request, None, None, &mut Ids::default()).build(0).expect("built");
    let text = String::from_utf8(built.bytes).expect("text");
    assert_eq!(text, "POST /v1/t?a=1 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nX-Odd: Yes\r\nContent-Length: 19\r\n\r\n{\"messageId\":\"m-1\"}");
    assert_eq!(built.ids, ["m-1"]);
}

#[test]
fn a_recorded_retry_keeps_its_id_within_a_repetition() {
    let mut ids = Ids::default();
    let body = |sent: &str| format!(r#"{{"batch":[{{"messageId":"m-1","p":1}},{{"messageId":"m-2"}}],"sentAt":"{sent}"}}"#);
    let first = recorded("/v1/batch", &[("Content-Length", "1")], body("10:00").as_bytes());
    let retry = recorded("/v1/batch", &[("Content-Length", "1")], &gzip(body("10:01").as_bytes()));
    let (first, retry) = (template(&first, Some(7), None, &mut ids), template(&retry, Some(7), None, &mut ids));
    for repetition in 0..3 {
        let (one, two) = (first.build(repetition).expect("built"), retry.build(repetition).expect("built"));
        assert_eq!(one.ids, two.ids);
        assert_eq!(one.ids.len(), 2);
        assert_ne!(one.ids[0], one.ids[1]);
        assert_ne!(one.ids, first.build(repetition + 1).expect("built").ids);
        let mut inside = String::new();
        flate2::read::GzDecoder::new(&two.body[..]).read_to_string(&mut inside).expect("still gzip");
        for (text, sent) in [(String::from_utf8(one.body).expect("text"), "10:00"), (inside, "10:01")] {
            let expected = body(sent).replace("m-1", &one.ids[0]).replace("m-2", &one.ids[1]);
            assert_eq!(text, expected, "nothing but the ids changes");
        }
        assert!(two.bytes.windows(16).any(|w| w.starts_with(format!("Length: {}\r\n", two.body.len()).as_bytes())));
    }
}

#[test]
fn ids_in_a_query_are_fresh_too() {
    let request = recorded("/i?e=pv&eid=a77ff164-eee9-4442-ad22-470786778b51&cx=e30", &[], b"");
    let built = template(&request, Some(1), None, &mut Ids::default()).build(5).expect("built");
    assert_eq!(
        String::from_utf8(built.bytes).expect("text"),
        format!("GET /i?e=pv&eid={}&cx=e30 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n", built.ids[0])
    );
    assert_ne!(built.ids, ["a77ff164-eee9-4442-ad22-470786778b51"]);
}

#[test]
fn another_write_key_takes_every_place_of_the_recorded_one() {
    let headers = [("Authorization", "Basic d2tfZGVtbzo="), ("X-Write-Key", "wk_demo:secret")];
    let body = gzip(br#"{"batch":[{"messageId":"m","properties":{"token":"phc_1","name":"wk_demo x"}}],"writeKey":"wk_demo"}"#);
    let request = recorded("/v1/projects/wk_demo/settings?writeKey=wk_demo&v=1", &headers, &body);
    let built = template(&request, None, Some("other"), &mut Ids::default()).build(0).expect("built");
    let (_, inside) = layers::unwrap(&built.body, None, None);
    assert_eq!(
        String::from_utf8(inside).expect("text"),
        r#"{"batch":[{"messageId":"m","properties":{"token":"other","name":"wk_demo x"}}],"writeKey":"other"}"#
    );
    let head = String::from_utf8_lossy(&built.bytes).into_owned();
    assert!(
        head.starts_with(
            "POST /v1/projects/other/settings?writeKey=other&v=1 HTTP/1.1\r\nAuthorization: Basic b3RoZXI6\r\nX-Write-Key: other:secret\r\n"
        ),
        "{head}"
    );
}

#[test]
fn chunked_requests_stay_chunked() {
    let request = recorded("/v1/b", &[("Transfer-Encoding", "chunked"), ("Expect", "100-continue")], b"{}");
    let built = template(&request, None, None, &mut Ids::default()).build(0).expect("built");
    assert_eq!(
        String::from_utf8(built.bytes).expect("text"),
        "POST /v1/b HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    );
}
