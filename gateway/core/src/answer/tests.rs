//! Answers by dialect, and the closed list of refusals in the docs.

use super::*;
use crate::route::route;
use crate::testing::{accepted, request, request_id, with};
use http::Method;

fn answered(line: &str, header: Option<(&'static str, &str)>, body: &[u8]) -> String {
    let sent = header.into_iter().fold(request(line, body), |sent, (name, value)| with(sent, name, value));
    shown(&super::accepted(&accepted(&sent, "shop"), request_id(), "spool"))
}
fn shown(answer: &Answer) -> String {
    format!("{} {} {}", answer.status, answer.content_type.unwrap_or("-"), String::from_utf8_lossy(&answer.body))
}

#[test]
fn each_dialect_hears_its_own_word() {
    for (line, body, expected) in [
        ("POST /v1/t", "{}", "200 application/json {\"success\":true}"),
        ("POST /api/s/page", "{}", "200 application/json {\"ok\":true}"),
        ("POST /com.snowplowanalytics.snowplow/tp2", "{}", "200 text/plain; charset=utf-8 ok"),
        ("POST /e/", "{}", "200 application/json {\"status\":1}"),
        ("POST /batch/", "{}", "200 application/json {\"status\":\"Ok\"}"),
        (
            "POST /2/httpapi",
            r#"{"events":[{"insert_id":"a"}]}"#,
            "200 application/json {\"code\":200,\"events_ingested\":1,\"payload_size_bytes\":30,\"server_upload_time\":0}",
        ),
        (
            "POST /batch",
            r#"{"events":[]}"#,
            "200 application/json {\"code\":200,\"events_ingested\":0,\"payload_size_bytes\":13,\"server_upload_time\":0}",
        ),
        ("POST /", "e=[]", "200 text/plain; charset=utf-8 success"),
        ("POST /track?verbose=1", r#"{"properties":{"token":"k"}}"#, "200 application/json {\"status\":1,\"error\":null}"),
        ("POST /engage", r#"{"$token":"k","$set":{}}"#, "200 text/plain; charset=utf-8 1"),
        ("POST /track", r#"{"event":"x"}"#, "200 application/json {\"status\":1}"),
        (
            "POST /i/v1/analytics/events",
            r#"{"batch":[{"uuid":"a"},7]}"#,
            "200 application/json {\"results\":{\"a\":{\"result\":\"ok\"},\"00000000-0000-0000-0000-000000000001\":{\"result\":\"drop\",\"details\":\"not_an_object\"}}}",
        ),
        ("POST /import", "[{},{}]", "200 application/json {\"code\":200,\"num_records_imported\":2,\"status\":\"OK\"}"),
        (
            "POST /v1/events",
            r#"[{"event_id":"a\"b"},7]"#,
            "200 application/json {\"request_id\":\"00000000-0000-0000-0000-000000000007\",\"accepted\":1,\"durability\":\"spool\",\"events\":[{\"index\":0,\"event_id\":\"a\\\"b\",\"status\":\"accepted\"},{\"index\":1,\"event_id\":\"00000000-0000-0000-0000-000000000001\",\"status\":\"rejected\",\"reason\":\"not_an_object\"}]}",
        ),
    ] {
        assert_eq!(answered(line, None, body.as_bytes()), expected, "{line}");
    }
    for body in [r#"{"events":[{"name":"x"}]}"#, r#"{"events":[]}"#, "{\"events\":[{]", ""] {
        assert_eq!(answered("POST /mp/collect", None, body.as_bytes()), "204 - ", "kept, so 204: {body}");
    }
    let events = answered("POST /v1/cloudevents", None, br#"{"id":"a","type":"x"}"#);
    assert_eq!(
        events,
        "200 application/json {\"request_id\":\"00000000-0000-0000-0000-000000000007\",\"accepted\":1,\"durability\":\"spool\",\"events\":[{\"index\":0,\"event_id\":\"a\",\"status\":\"accepted\"}]}"
    );
    let pixel = super::accepted(&accepted(&request("GET /i?e=pv", b""), "shop"), request_id(), "spool");
    assert_eq!((pixel.status, pixel.content_type, pixel.body.len()), (200, Some("image/gif"), 43));
    assert!(pixel.headers.iter().any(|(n, v)| n == CACHE_CONTROL && v == "no-cache, no-store, must-revalidate"));
}

#[test]
fn what_cannot_be_read_is_200_for_browsers_and_400_for_servers() {
    let origin = Some(("origin", "https://shop.example"));
    for (line, header, expected) in [
        (
            "POST /v1/batch",
            None,
            "400 application/json {\"success\":false,\"code\":\"unreadable\",\"message\":\"the body could not be read; it is kept as it arrived\"}",
        ),
        ("POST /v1/batch", origin, "200 application/json {\"success\":true}"),
        ("POST /v1/t", None, "200 application/json {\"success\":true}"),
        ("POST /com.snowplowanalytics.snowplow/tp2", None, "200 text/plain; charset=utf-8 ok"),
        ("POST /e/", None, "200 application/json {\"status\":1}"),
        (
            "POST /batch/",
            None,
            "400 application/json {\"type\":\"validation_error\",\"code\":\"unreadable\",\"detail\":\"the body could not be read; it is kept as it arrived\",\"attr\":null}",
        ),
    ] {
        assert_eq!(answered(line, header, b"{\"batch\":[{]"), expected, "{line} {header:?}");
    }
    assert!(
        answered("POST /v1/events", None, b"{").starts_with("400 application/problem+json {\"type\":\"urn:forebay:refusal:unreadable\"")
    );
    assert!(
        answered("POST /v1/cloudevents", None, b"{")
            .starts_with("400 application/problem+json {\"type\":\"urn:forebay:refusal:unreadable\"")
    );
    assert!(answered("POST /v1/events", origin, b"{").ends_with("\"status\":\"rejected\",\"reason\":\"unreadable\"}]}"));
}

#[test]
fn refusals_mean_for_the_sdk_what_they_mean_for_us() {
    let refused = |line: &str, reason: RefusalReason| {
        let (method, target) = line.split_once(' ').expect("method and target");
        let route = route(&Method::from_bytes(method.as_bytes()).expect("a method"), target);
        super::refused(&route, &Refusal::from(reason).retry_after(3), request_id())
    };
    for (line, reason, expected) in [
        (
            "POST /v1/t",
            RefusalReason::RateLimited,
            "429 application/json {\"success\":false,\"code\":\"rate_limited\",\"message\":\"this source sends faster than its rate\"}",
        ),
        (
            "POST /e/",
            RefusalReason::RateLimited,
            "503 application/json {\"type\":\"server_error\",\"code\":\"rate_limited\",\"detail\":\"this source sends faster than its rate\",\"attr\":null}",
        ),
        (
            "POST /i/v1/analytics/events",
            RefusalReason::RateLimited,
            "503 application/json {\"type\":\"server_error\",\"code\":\"rate_limited\",\"detail\":\"this source sends faster than its rate\",\"attr\":null}",
        ),
        (
            "POST /2/httpapi",
            RefusalReason::RateLimited,
            "429 application/json {\"code\":429,\"error\":\"this source sends faster than its rate\",\"reason\":\"rate_limited\"}",
        ),
        ("POST /", RefusalReason::Overloaded, "503 text/plain; charset=utf-8 overloaded"),
        (
            "POST /import",
            RefusalReason::UnknownWriteKey,
            "401 application/json {\"code\":401,\"error\":\"the write key belongs to no source\",\"status\":\"unknown_write_key\"}",
        ),
        ("POST /groups", RefusalReason::Overloaded, "503 text/plain; charset=utf-8 0"),
        ("POST /com.snowplowanalytics.snowplow/tp2", RefusalReason::Overloaded, "503 text/plain; charset=utf-8 overloaded"),
        (
            "POST /api/s/page",
            RefusalReason::UnknownWriteKey,
            "401 application/json {\"ok\":false,\"error\":\"unknown_write_key\",\"message\":\"the write key belongs to no source\"}",
        ),
        ("POST /mp/collect", RefusalReason::RateLimited, "429 - "),
        ("POST /mp/collect", RefusalReason::UnknownWriteKey, "401 - "),
        ("POST /mp/collect", RefusalReason::SpoolFull, "503 - "),
        (
            "POST /v1/cloudevents",
            RefusalReason::RateLimited,
            "429 application/problem+json {\"type\":\"urn:forebay:refusal:rate_limited\",\"title\":\"rate limited\",\"status\":429,\"detail\":\"this source sends faster than its rate\",\"reason\":\"rate_limited\",\"request_id\":\"00000000-0000-0000-0000-000000000007\"}",
        ),
        (
            "GET /nowhere",
            RefusalReason::NotFound,
            "404 application/problem+json {\"type\":\"urn:forebay:refusal:not_found\",\"title\":\"not found\",\"status\":404,\"detail\":\"nothing is served at this path\",\"reason\":\"not_found\",\"request_id\":\"00000000-0000-0000-0000-000000000007\"}",
        ),
    ] {
        let answer = refused(line, reason);
        assert_eq!(shown(&answer), expected);
        assert!(answer.headers.iter().any(|(n, v)| n == RETRY_AFTER && v == "3"));
    }
    let pixel = refused("GET /i?e=pv", RefusalReason::SpoolFull);
    assert_eq!((pixel.status, pixel.content_type), (503, Some("image/gif")));
    let allow = refused("GET /v1/batch", RefusalReason::MethodNotAllowed);
    assert!(allow.status == 405 && allow.headers.iter().any(|(n, v)| n == ALLOW && v == "POST, OPTIONS"));
}

#[test]
fn startup_answers_are_what_the_sdks_look_for() {
    let json = |method: &str, target: &str| -> serde_json::Value {
        let Route::Startup(route) = route(&Method::from_bytes(method.as_bytes()).expect("a method"), target) else { panic!("{target}") };
        let answer = startup(&route);
        assert_eq!((answer.status, answer.content_type), (200, Some("application/json")), "{target}");
        serde_json::from_slice(&answer.body).expect("JSON")
    };
    let settings = json("GET", "/v1/projects/wk%22x/settings");
    assert_eq!(settings["integrations"]["Segment.io"]["apiKey"], "wk\"x");
    assert_eq!(settings["plan"]["track"]["__default"]["enabled"], true);
    let config = json("GET", "/sourceConfig/?writeKey=wk");
    assert_eq!(config["source"]["config"]["statsCollection"]["errors"]["enabled"], false);
    assert!(config["source"]["destinations"].as_array().is_some_and(Vec::is_empty) && config["source"]["enabled"] == true);
    assert_eq!(json("POST", "/decide/?v=3")["featureFlags"], serde_json::json!({}));
    assert_eq!(json("POST", "/flags/?v=2")["errorsWhileComputingFlags"], false);
    assert_eq!(json("GET", "/array/phc/config")["token"], "phc");
    assert_eq!(json("POST", "/debug/mp/collect?api_secret=s"), serde_json::json!({"validationMessages": []}));
    for (method, target) in [("POST", "/decide/?v=3"), ("POST", "/flags/?v=2"), ("GET", "/array/phc/config")] {
        // posthog-js loads `/static/surveys.js` for any answer but none.
        assert!(json(method, target).get("surveys").is_none(), "{target}");
    }
    let script = startup(&StartupRoute::PosthogConfigScript { token: "phc".to_owned() });
    assert!(script.body.starts_with(b"(function(){window._POSTHOG_REMOTE_CONFIG=") && script.content_type == Some(SCRIPT));
    let limits: serde_json::Value = serde_json::from_slice(&limits(&Limits::default()).body).expect("JSON");
    assert_eq!(limits["events"], 10_000);
}

/// `docs/errors.md` has a row for each reason, with the status that the code gives.
#[test]
fn the_docs_name_every_refusal() {
    let docs = include_str!("../../../../docs/errors.md");
    let (kept, refused) = docs.split_once("## Refused").expect("two tables");
    for reason in RefusalReason::ALL {
        let row = refused.lines().find(|line| line.contains(&format!("`{}`", reason.name())));
        let row = row.unwrap_or_else(|| panic!("docs/errors.md lacks {}", reason.name()));
        assert!(row.contains(&reason.status().to_string()), "{}: {row}", reason.name());
    }
    assert!(kept.contains(&format!("`{UNREADABLE}`")));
}
