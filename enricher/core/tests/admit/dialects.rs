//! Each dialect's way of saying things ends in the same shape.

use crate::fixtures::{event, with};
use crate::told::{admit, told};
use forebay_enricher_core::{Options, UnclassifiedPolicy};
use forebay_schemas::catalog::Catalog;
use forebay_schemas::dialect::Dialect;
use forebay_schemas::time::Micros;
use forebay_schemas::wire::harvested::{Content, Harvested, UNREADABLE};

fn check(dialect: Dialect, payload: &str, expected: &str) {
    assert_eq!(told(&event(dialect, payload)), expected, "{payload}");
}

#[test]
fn native() {
    check(
        Dialect::Native,
        r#"{"event_id":"e","event_type":"product_viewed","event_time":"2026-11-30T11:59:00.5Z","anonymous_id":"a","user_id":"u","session_id":"s",
            "schema_version":"1-0-0","seq":1,"session_index":2,"page_id":"p","properties":{"product_id":"p-1","price":1.10},
            "context":{"timezone":"Europe/Berlin","locale":"de-DE","consent":{},"page":{"url":"https://shop.example/a?x=1&utm_source=n#f","title":"T"},
                       "device":{"type":"Phone","os":"Android"},"screen":{"width":390,"height":844}}}"#,
        "product_viewed 1-0-0 | 2026-11-30T11:59:00.500000Z client | user anonymous session seq=1 visit=2 | url=https://shop.example/a?utm_source=n path=/a title=T | \
         type=mobile os=Android locale=de-DE timezone=Europe/Berlin width=390 height=844 | source=n | {\"product_id\":\"p-1\",\"price\":1.10}",
    );
    check(
        Dialect::Native,
        r#"{"event_type":"product_viewed","anonymous_id":"","user_id":null}"#,
        "product_viewed 1-0-0 | 2026-11-30T12:00:00.000000Z received | {}",
    );
    check(
        Dialect::Native,
        r#"{"event_type":"product_viewed","schema_version":"7-0-0"}"#,
        "unknown_schema_version: schema_version: expected one of 1-0-0",
    );
}

#[test]
fn native_time_by_the_monotonic_clock() {
    let envelope = Some(r#"{"sent_mono_ms":61000}"#.to_owned());
    let event = Harvested { envelope, ..event(Dialect::Native, r#"{"event_type":"product_viewed","mono_ms":1000.5}"#) };
    assert_eq!(told(&event), "product_viewed 1-0-0 | 2026-11-30T11:59:00.000500Z corrected | {}");
}

#[test]
fn a_pixel_is_an_event() {
    let payload = "event_type=product_viewed&anonymous_id=a&properties.price=1.5&properties.name=caf%C3%A9+x&properties.position=";
    let event = Harvested { content: Content::Query, ..event(Dialect::Native, payload) };
    assert_eq!(
        told(&event),
        "product_viewed 1-0-0 | 2026-11-30T12:00:00.000000Z received | anonymous | {\"name\":\"café x\",\"position\":null,\"price\":1.5}"
    );
}

#[test]
fn segment_family() {
    check(
        Dialect::Segment,
        r#"{"type":"track","event":"Product Clicked","messageId":"m","anonymousId":"a","userId":7,"timestamp":"2026-11-30T11:00:00Z","sentAt":"2026-11-30T11:30:00Z",
            "properties":{"name":" a  b ","price":2,"name":"x"},
            "context":{"ip":"203.0.113.7","page":{"url":"https://shop.example/p","path":"/p","referrer":"$direct"},"library":{"name":"@segment/analytics-node","version":"3.1.0"},
                       "campaign":{"name":"spring","source":"mail"},"os":{"name":"iOS"},"screen":{"width":1,"height":2},"sessionId":1796021499446,"userAgent":"curl/8"}}"#,
        "product_clicked 1-0-0 | 2026-11-30T11:30:00.000000Z corrected | user anonymous session | url=https://shop.example/p path=/p | \
         os=iOS width=1 height=2 library=analytics-node/3.1.0 | source=mail name=spring | {\"price\":2,\"name\":\"x\"}",
    );
    check(
        Dialect::Segment,
        r#"{"type":"page","name":"Home","originalTimestamp":"2026-11-30T11:00:00Z","anonymousId":"a","properties":{"url":"https://pat:pw@shop.example/?q=1","title":"T"}}"#,
        "page_viewed 1-0-0 | 2026-11-30T11:00:00.000000Z client | anonymous | url=https://shop.example/ path=/ title=T | \
         {\"url\":\"https://shop.example/\",\"title\":\"T\",\"name\":\"Home\"}",
    );
    // RudderStack keeps the traits of an identify in the context.
    check(
        Dialect::Segment,
        r#"{"type":"identify","userId":"u","context":{"traits":{"firstName":"Pat","plan":"Pro "}}}"#,
        "user_identified 1-0-0 | 2026-11-30T12:00:00.000000Z received | user | {\"first_name\":\"[redacted]\",\"plan\":\"pro\"}",
    );
    check(
        Dialect::Segment,
        r#"{"type":"group","userId":"u","traits":{}}"#,
        "schema_violation: properties.group_id: missing (group_identified 1-0-0)",
    );
    check(
        Dialect::Segment,
        r#"{"type":"track","event":"Product Clicked","properties":[1]}"#,
        "schema_violation: properties: expected an object, got array",
    );
    let by_path = Harvested { envelope: Some(r#"{"type":"screen"}"#.to_owned()), ..event(Dialect::Segment, r#"{"name":"Cart"}"#) };
    assert_eq!(told(&by_path), "screen_viewed 1-0-0 | 2026-11-30T12:00:00.000000Z received | {\"name\":\"Cart\"}");
    // RudderStack's pixel: levels by dots.
    let pixel = Harvested {
        content: Content::Query,
        envelope: Some(r#"{"type":"track"}"#.to_owned()),
        ..event(
            Dialect::Segment,
            "event=Product+Clicked&anonymousId=a&properties.price=2&properties.name=x&context.page.url=https%3A%2F%2Fshop.example%2Fa&writeKey=k",
        )
    };
    assert_eq!(
        told(&pixel),
        "product_clicked 1-0-0 | 2026-11-30T12:00:00.000000Z received | anonymous | url=https://shop.example/a path=/a | {\"name\":\"x\",\"price\":2}"
    );
    check(Dialect::Segment, r#"{"type":"track","properties":{}}"#, "missing_event_type: payload: no event type or name");
    check(
        Dialect::Segment,
        r#"{"type":"track","event":"Product Clicked","properties":{"price":"1"}}"#,
        "schema_violation: properties.price: expected type [\"number\",\"null\"], got string (product_clicked 1-0-0)",
    );
}

#[test]
fn snowplow() {
    check(
        Dialect::Snowplow,
        r#"{"e":"se","se_ca":"cart","se_ac":"add","se_va":"3.50","eid":"e","tv":"js-4.10.1","tna":"sp1","aid":"shop","p":"web","lang":"en-US","res":"1280x720","tz":"UTC",
            "dtm":"1796039990000","stm":"1796039995000","vid":"2","sid":"s","duid":"d","uid":"u","nuid":"n","url":"https://shop.example/a?utm_campaign=x%20y","refr":"https://ref.example/?q=pat",
            "co":"{\"data\":[{\"schema\":\"iglu:com.snowplowanalytics.snowplow/client_session/jsonschema/1-0-2\",\"data\":{\"eventIndex\":4,\"sessionIndex\":9}}]}"}"#,
        "structured_event 1-0-0 | 2026-11-30T11:59:55.000000Z corrected | user anonymous session seq=4 visit=2 | url=https://shop.example/a?utm_campaign=x%20y path=/a referrer=https://ref.example/ | \
         locale=en-US timezone=UTC width=1280 height=720 library=js/4.10.1 | name=x y | {\"category\":\"cart\",\"action\":\"add\",\"value\":3.50}",
    );
    let link = "eyJzY2hlbWEiOiJ4IiwiZGF0YSI6eyJzY2hlbWEiOiJpZ2x1OmNvbS5zbm93cGxvd2FuYWx5dGljcy5zbm93cGxvdy9saW5rX2NsaWNrL2pzb25zY2hlbWEvMS0wLTEiLCJkYXRhIjp7InRhcmdldFVybCI6Imh0dHBzOi8veC5leGFtcGxlLz9hPWIifX19";
    check(
        Dialect::Snowplow,
        &format!(r#"{{"e":"ue","ue_px":"{link}"}}"#),
        "link_clicked 1-0-0 | 2026-11-30T12:00:00.000000Z received | {\"target_url\":\"https://x.example/\"}",
    );
    let query = Harvested {
        content: Content::Query,
        ..event(Dialect::Snowplow, "e=pv&page=%C3%9Cni&ttm=1796039990000&dtm=1&url=https%3A%2F%2Fshop.example%2Fa")
    };
    assert_eq!(told(&query), "page_viewed 1-0-0 | 2026-11-30T11:59:50.000000Z client | url=https://shop.example/a path=/a title=Üni | {}");
    for (payload, expected) in [
        (r#"{"e":"ue"}"#, "missing_event_type: ue_pr: a self-describing event is missing"),
        (r#"{"e":"ue","ue_pr":"{"}"#, "malformed: ue_pr: not JSON at byte 1"),
        (r#"{"e":"ue","ue_px":"***"}"#, "malformed: ue_px: not base64url"),
        (r#"{"e":"pv","co":"[\"\\ud800\"]"}"#, "lone_surrogate: co: half of a surrogate pair at byte 2"),
        (
            r#"{"e":"se","se_ca":"a","se_ac":"b","se_va":"x"}"#,
            "schema_violation: properties.value: expected type [\"number\",\"null\"], got string (structured_event 1-0-0)",
        ),
    ] {
        check(Dialect::Snowplow, payload, expected);
    }
}

#[test]
fn amplitude() {
    check(
        Dialect::Amplitude,
        r#"{"insert_id":"i","event_type":"Product Clicked","time":1796039990000,"device_id":"d","user_id":"u","session_id":1796039000000,"event_id":7,
            "os_name":"iOS","platform":"iOS","language":"en-US","library":"amplitude-ts/2.11.1","ip":"$remote","price":1,
            "event_properties":{"name":" a  b ","price":2,"[Amplitude] Page URL":"https://shop.example/a?x=1","[Amplitude] Page Title":"T"},"user_properties":{"$set":{"plan":"x"}}}"#,
        "product_clicked 1-0-0 | 2026-11-30T11:59:50.000000Z client | user anonymous session seq=7 | url=https://shop.example/a path=/a title=T | \
         type=mobile os=iOS locale=en-US library=amplitude-ts/2.11.1 | {\"name\":\"a b\",\"price\":2}",
    );
    // The old SDK: seconds, no session, no id but its own.
    check(
        Dialect::Amplitude,
        r#"{"uuid":"i","event_type":"Product Clicked","timestamp":1796039990000,"device_id":"d","user_id":null,"session_id":-1,"library":{"name":"amplitude-js","version":"8.21.9"}}"#,
        "product_clicked 1-0-0 | 2026-11-30T11:59:50.000000Z client | anonymous | library=amplitude-js/8.21.9 | {}",
    );
    check(
        Dialect::Amplitude,
        r#"{"event_type":"$identify","user_id":"u","event_properties":{},"user_properties":{"$setOnce":{"plan":"old"},"$set":{"plan":"Pro "},"$add":{"visits":1}}}"#,
        "user_identified 1-0-0 | 2026-11-30T12:00:00.000000Z received | user | {\"plan\":\"pro\"}",
    );
    check(
        Dialect::Amplitude,
        r#"{"event_type":"$groupidentify","user_id":"u","groups":{"Company":"acme"},"group_properties":{"$set":{"industry":"shops"}}}"#,
        "group_identified 1-0-0 | 2026-11-30T12:00:00.000000Z received | user | {\"group_type\":\"company\",\"group_id\":\"k1.5s8iB7tu2WMOAJeYNrASSQ\",\"industry\":\"shops\"}",
    );
    check(
        Dialect::Amplitude,
        r#"{"event_type":"session_start","device_id":"d"}"#,
        "session_started 1-0-0 | 2026-11-30T12:00:00.000000Z received | anonymous | {}",
    );
    check(Dialect::Amplitude, r#"{"event_properties":{}}"#, "missing_event_type: payload: no event type or name");
    check(
        Dialect::Amplitude,
        r#"{"event_type":"Product Clicked","event_properties":[]}"#,
        "schema_violation: properties: expected an object, got array",
    );
}

#[test]
fn mixpanel() {
    check(
        Dialect::Mixpanel,
        r#"{"event":"$mp_web_page_view","properties":{"time":1796039990.5,"distinct_id":"$device:d","$device_id":"d","$insert_id":"i","token":"t","$current_url":"https://shop.example/a?q=1",
            "current_url_path":"/a","current_page_title":"T","$referrer":"$direct","$screen_width":1280,"$screen_height":720,"$os":"Linux","$browser":"Chrome","mp_lib":"web","$lib_version":"2.83.0","utm_source":"n"}}"#,
        "page_viewed 1-0-0 | 2026-11-30T11:59:50.500000Z client | anonymous | url=https://shop.example/a path=/a title=T | \
         os=Linux browser=Chrome width=1280 height=720 library=web/2.83.0 | source=n | {}",
    );
    // Who is identified has a user's id; an old SDK's id of a device has no prefix.
    for (properties, who) in [
        (r#""distinct_id":"u","$device_id":"d","$user_id":"u""#, "user anonymous"),
        (r#""distinct_id":"u","$device_id":"d""#, "user anonymous"),
        (r#""distinct_id":"d","$device_id":"d""#, "anonymous"),
        (r#""distinct_id":"u""#, "user"),
    ] {
        let payload = format!(r#"{{"event":"Product Clicked","properties":{{{properties}}}}}"#);
        check(Dialect::Mixpanel, &payload, &format!("product_clicked 1-0-0 | 2026-11-30T12:00:00.000000Z received | {who} | {{}}"));
    }
    check(
        Dialect::Mixpanel,
        r#"{"$token":"t","$distinct_id":"u","$set":{"plan":"x"}}"#,
        "unknown_event_type: event type: no type of the catalogue is called {$a#a1dad0bb} by mixpanel",
    );
    check(Dialect::Mixpanel, r#"{"properties":{}}"#, "missing_event_type: payload: no event type or name");
}

#[test]
fn posthog() {
    check(
        Dialect::Posthog,
        r#"{"uuid":"x","event":"$pageview","timestamp":"2026-11-30T11:00:00Z","properties":{"$current_url":"https://shop.example/a#b","$pathname":"/a","title":"T","$referrer":"$direct",
            "distinct_id":"u","$device_id":"d","$session_id":"s","$is_identified":true,"$lib":"web","$lib_version":"1.449.2","$timezone":"UTC","$browser_language":"en-US","$screen_width":1,"$screen_height":2,
            "$raw_user_agent":"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/148.0.0.0 Safari/537.36","utm_source":"n","token":"t","$sdk_debug_x":1}}"#,
        "page_viewed 1-0-0 | 2026-11-30T11:00:00.000000Z client | user anonymous session | url=https://shop.example/a path=/a title=T | \
         type=desktop os=Linux browser=Chrome locale=en-US timezone=UTC width=1 height=2 library=web/1.449.2 | source=n | {\"title\":\"T\"}",
    );
    for (properties, ids) in [
        (r#"{"distinct_id":"d","$device_id":"d"}"#, "anonymous"),
        (r#"{"distinct_id":"x","$is_identified":false}"#, "anonymous"),
        (r#"{"distinct_id":"u"}"#, "user"),
        (r#"{"distinct_id":"$posthog_cookieless"}"#, ""),
    ] {
        let payload = format!(r#"{{"event":"product clicked","offset":60000,"properties":{properties}}}"#);
        let ids = if ids.is_empty() { String::new() } else { format!("{ids} | ") };
        check(Dialect::Posthog, &payload, &format!("product_clicked 1-0-0 | 2026-11-30T11:59:00.000000Z corrected | {ids}{{}}"));
    }
    check(
        Dialect::Posthog,
        r#"{"event":"$identify","distinct_id":"u","properties":{"$os":"iOS"},"$set":{"name":"Pat","plan":"pro"}}"#,
        "user_identified 1-0-0 | 2026-11-30T12:00:00.000000Z received | user | os=iOS | {\"name\":\"[redacted]\",\"plan\":\"pro\"}",
    );
}

fn ga4(envelope: &str, payload: &str) -> String {
    told(&Harvested { envelope: Some(envelope.to_owned()), ..event(Dialect::Ga4, payload) })
}

#[test]
fn ga4_who_and_when_stand_beside_the_list() {
    const LOGIN: &str = r#"{"name":"login","params":{"method":"Mail"}}"#;
    for (envelope, payload, expected) in [
        (
            r#"{"client_id":"c.1","user_id":"u","timestamp_micros":"1796039990500000","device":{"category":"mobile","operating_system":"Android","browser":"Chrome","language":"de-DE","screen_resolution":"390x844","brand":"x"}}"#,
            r#"{"name":"page_view","params":{"page_location":"https://shop.example/a?utm_source=n&q=pat#f","page_title":"T","page_referrer":"https://ref.example/?q=pat","session_id":"s","session_number":3,"engagement_time_msec":100,"debug_mode":true,"language":"en-us","screen_resolution":"1280x720","title":"own"}}"#,
            "page_viewed 1-0-0 | 2026-11-30T11:59:50.500000Z client | user anonymous session visit=3 | url=https://shop.example/a?utm_source=n path=/a title=T referrer=https://ref.example/ | \
             type=mobile os=Android browser=Chrome locale=en-us width=1280 height=720 | source=n | {\"title\":\"own\"}",
        ),
        // The event's own time comes first; a number is a time as well.
        (
            r#"{"app_instance_id":"i","timestamp_micros":1796039990000000}"#,
            r#"{"name":"login","timestamp_micros":1796039980000000,"params":{"method":"Mail"}}"#,
            "logged_in 1-0-0 | 2026-11-30T11:59:40.000000Z client | anonymous | {\"method\":\"mail\"}",
        ),
        (
            r#"{"client_id":"","timestamp_micros":"soon"}"#,
            LOGIN,
            "logged_in 1-0-0 | 2026-11-30T12:00:00.000000Z received | {\"method\":\"mail\"}",
        ),
        (r#"{"client_id":"c"}"#, r#"{"params":{}}"#, "missing_event_type: payload: no event type or name"),
        (r#"{}"#, r#"{"name":"login","params":[1]}"#, "schema_violation: properties: expected an object, got array"),
    ] {
        assert_eq!(ga4(envelope, payload), expected, "{payload}");
    }
    assert!(ga4("{}", r#"{"name":"user_engagement"}"#).starts_with("unknown_event_type: "));
    check(Dialect::Ga4, LOGIN, "logged_in 1-0-0 | 2026-11-30T12:00:00.000000Z received | {\"method\":\"mail\"}");
}

#[test]
fn ga4_names_are_ours() {
    const ITEM: &str = r#"{"item_id":"p-1","item_name":"Hat","item_brand":"b","item_category":"c","item_variant":"v","index":2,"price":1.10,"quantity":1}"#;
    for (name, params, expected) in [
        (
            "purchase",
            format!(
                r#"{{"transaction_id":"o-1","value":2.20,"currency":"EUR","tax":0.1,"items":[{ITEM},{{"item_id":"p-2","product_id":"own"}}]}}"#
            ),
            r#"order_completed 1-0-0 | {"order_id":"o-1","value":2.20,"currency":"EUR","tax":0.1,"products":[{"product_id":"p-1","name":"Hat","brand":"b","category":"c","variant":"v","position":2,"price":1.10,"quantity":1},{"product_id":"own"}]}"#,
        ),
        ("refund", r#"{"transaction_id":"o-1"}"#.to_owned(), r#"order_refunded 1-0-0 | {"order_id":"o-1"}"#),
        ("refund", "{}".to_owned(), "schema_violation: properties.order_id: missing (order_refunded 1-0-0)"),
        // Of the types that tell of one product the item is the event's own; what the event says itself stands.
        (
            "add_to_cart",
            format!(r#"{{"currency":"EUR","price":9,"items":[{ITEM}]}}"#),
            r#"product_added 1-0-0 | {"product_id":"p-1","name":"Hat","brand":"b","category":"c","variant":"v","position":2,"quantity":1,"currency":"EUR","price":9}"#,
        ),
        ("add_to_cart", format!(r#"{{"value":3,"items":[{ITEM},{ITEM}]}}"#), r#"product_added 1-0-0 | {"value":3}"#),
        ("view_item", r#"{"items":["x"]}"#.to_owned(), "product_viewed 1-0-0 | {}"),
        (
            "select_item",
            r#"{"item_list_id":"l","items":[{"item_id":"p","item_list_name":"L"}]}"#.to_owned(),
            r#"product_clicked 1-0-0 | {"product_id":"p","list_name":"L","list_id":"l"}"#,
        ),
        (
            "view_item_list",
            r#"{"item_list_name":"L","items":[{"item_id":"p"}]}"#.to_owned(),
            r#"product_list_viewed 1-0-0 | {"list_name":"L","products":[{"product_id":"p"}]}"#,
        ),
        ("search", r#"{"search_term":" red  hat "}"#.to_owned(), r#"search_performed 1-0-0 | {"query":"red hat"}"#),
        ("screen_view", r#"{"screen_name":"Cart","screen_class":"C"}"#.to_owned(), r#"screen_viewed 1-0-0 | {"name":"Cart","type":"C"}"#),
        (
            "select_promotion",
            r#"{"promotion_id":"p","promotion_name":"N","creative_name":"C","creative_slot":"S"}"#.to_owned(),
            r#"promotion_clicked 1-0-0 | {"promotion_id":"p","name":"N","creative":"C","position":"S"}"#,
        ),
        ("add_payment_info", r#"{"payment_type":"Card"}"#.to_owned(), r#"payment_info_entered 1-0-0 | {"payment_method":"card"}"#),
        ("share", r#"{"method":"Mail"}"#.to_owned(), r#"shared 1-0-0 | {"share_via":"mail"}"#),
        ("exception", r#"{"description":"boom","fatal":true}"#.to_owned(), r#"error_occurred 1-0-0 | {"message":"boom","is_fatal":true}"#),
        ("begin_checkout", r#"{"coupon":"C","items":[]}"#.to_owned(), r#"checkout_started 1-0-0 | {"coupon":"C","products":[]}"#),
        ("session_start", r#"{"session_number":"4"}"#.to_owned(), "session_started 1-0-0 | visit=4 | {}"),
    ] {
        let payload = format!(r#"{{"name":"{name}","params":{params}}}"#);
        let told = told(&event(Dialect::Ga4, &payload)).replace(" | 2026-11-30T12:00:00.000000Z received", "");
        assert_eq!(told, expected, "{payload}");
    }
}

#[test]
fn cloudevents() {
    check(
        Dialect::CloudEvents,
        r#"{"specversion":"1.0","id":"e","source":"/shop","type":"product_viewed","time":"2026-11-30T12:59:00.5+01:00","subject":"p-1","dataschema":"https://x.example/",
            "datacontenttype":"application/json","partitionkey":"p","traceparent":"00-1","userid":"u","anonymousid":"a","sessionid":"s","data":{"product_id":"p-1","price":1.10}}"#,
        "product_viewed 1-0-0 | 2026-11-30T11:59:00.500000Z client | user anonymous session | {\"product_id\":\"p-1\",\"price\":1.10}",
    );
    // A subject or partition key is nobody; data that is no object has no properties.
    for data in [r#""data":"text""#, r#""data":[{"price":1}]"#, r#""data":null"#, r#""data_base64":"e30=""#, r#""other":1"#] {
        let payload = format!(r#"{{"type":"Product Viewed","subject":"u","partitionkey":"p",{data}}}"#);
        check(Dialect::CloudEvents, &payload, "product_viewed 1-0-0 | 2026-11-30T12:00:00.000000Z received | {}");
    }
    check(Dialect::CloudEvents, r#"{"id":"e","source":"/s","data":{}}"#, "missing_event_type: payload: no event type or name");
}

#[test]
fn a_cloudevents_type_is_its_producers_to_name() {
    let payload = r#"{"type":"com.acme.thing_done","data":{"n":1}}"#;
    let known = event(Dialect::CloudEvents, payload);
    assert!(told(&known).starts_with("unknown_event_type: "), "the last label is no name");
    assert!(told(&event(Dialect::CloudEvents, r#"{"type":"com.acme.product_viewed"}"#)).starts_with("unknown_event_type: "));
    let schema =
        r#"{"type":"object","x-names":{"cloudevents":"com.acme.thing_done"},"properties":{"n":{"type":"integer","x-privacy":"keep"}}}"#;
    let catalog = Catalog::builtin().overlay(&[("thing_done/1-0-0.json".to_owned(), schema.to_owned())]).expect("a good schema");
    let trusted = admit(&with(catalog, Options::default()), &known).expect("a known type");
    assert_eq!((&*trusted.event_type, &*trusted.properties), ("thing_done", "{\"n\":1}"));
}

#[test]
fn what_has_no_place_is_an_extra() {
    let strict = with(Catalog::builtin(), Options { unclassified: UnclassifiedPolicy::Reject, ..Options::default() });
    let judged = |dialect, payload: &str| admit(&strict, &event(dialect, payload)).map(|_| ()).map_err(|why| why[..18].to_owned());
    const SILENT: &str = r#"{"name":"login","params":{"session_id":"s","session_number":1,"engagement_time_msec":1,"debug_mode":1,"page_location":"https://x.example/","page_path":"/","language":"en","screen_resolution":"1x1"}}"#;
    for (dialect, payload, refused) in [
        (Dialect::Ga4, SILENT, false),
        (Dialect::Ga4, r#"{"name":"login","params":{"other":1}}"#, true),
        (Dialect::Ga4, r#"{"name":"login","other":1}"#, true),
        (Dialect::CloudEvents, r#"{"type":"logged_in","subject":"s","dataschema":"d","partitionkey":"p","data":null}"#, false),
        (Dialect::CloudEvents, r#"{"type":"logged_in","data":"text"}"#, true),
        (Dialect::CloudEvents, r#"{"type":"logged_in","data_base64":"e30="}"#, true),
        (Dialect::CloudEvents, r#"{"type":"logged_in","other":1}"#, true),
    ] {
        let expected = if refused { Err("unclassified_field".to_owned()) } else { Ok(()) };
        assert_eq!(judged(dialect, payload), expected, "{payload}");
    }
}

#[test]
fn what_cannot_be_read() {
    let bytes = |full_length, envelope: Option<&str>| Harvested {
        content: Content::Bytes,
        full_length,
        envelope: envelope.map(str::to_owned),
        ..event(Dialect::Segment, "{")
    };
    for (event, expected) in [
        (bytes(None, Some(UNREADABLE)), "unreadable: body: could not be decoded or split into events"),
        (bytes(Some(5_000_000), Some(UNREADABLE)), "unreadable: body: could not be decoded or split into events"),
        (bytes(Some(5_000_000), None), "event_too_large: payload: 5000000 bytes are more than one event may have"),
        (bytes(None, None), "event_too_large: payload: 1 bytes are more than one event may have"),
        (event(Dialect::Segment, r#"{"v":NaN}"#), "malformed: payload: not JSON at byte 5"),
        (event(Dialect::Segment, "[1]"), "not_an_object: payload: expected an object, got array"),
        (event(Dialect::Segment, r#"{"a":"\ud83d"}"#), "lone_surrogate: payload: half of a surrogate pair at byte 6"),
        (event(Dialect::Segment, &"[".repeat(100_000)), "nesting_too_deep: payload: nested too deep at byte 64"),
        (Harvested { content: Content::Query, ..event(Dialect::Native, "a=%ff") }, "malformed: query: not UTF-8 at byte 0"),
    ] {
        assert_eq!(told(&event), expected);
    }
}

#[test]
fn the_gateways_sending_time_counts_first() {
    let payload = r#"{"type":"track","event":"Product Clicked","timestamp":"2026-11-30T11:00:00Z","sentAt":"2026-11-30T11:30:00Z"}"#;
    let event = Harvested { sent_at: Micros::parse_rfc3339("2026-11-30T11:10:00Z"), ..event(Dialect::Segment, payload) };
    assert_eq!(told(&event), "product_clicked 1-0-0 | 2026-11-30T11:50:00.000000Z corrected | {}");
}
