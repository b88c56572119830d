//! Canaries: what no schema lets pass does not come out, whole, percent- or base64-encoded (law E2).

use crate::fixtures::{event, pipeline, with};
use crate::told::admit;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use forebay_enricher_core::{Options, Pipeline, UnknownEvent};
use forebay_schemas::catalog::{Catalog, Field, Privacy, Shape};
use forebay_schemas::dialect::Dialect;
use forebay_schemas::wire::harvested::Harvested;
use serde_json::{Map, Value, json};

/// Hands out strings that stand nowhere else.
struct Plant(Vec<String>);

impl Plant {
    /// A plain word: for fields that are not scanned.
    fn word(&mut self) -> String {
        self.keep(|n| format!("Zqxvkwpj{n:03}"))
    }
    /// One of the five kinds that `scan` finds, as it is or encoded. The canary is the part that tells who it is.
    fn secret(&mut self) -> String {
        let n = self.0.len();
        let (secret, canary) = match n % 5 {
            0 => (format!("zqxvkwpj{n:03}@example.com"), format!("zqxvkwpj{n:03}")),
            1 => (format!("+49 170 5550{n:03}"), format!("170 5550{n:03}")),
            2 => (card(n), card(n)),
            3 => (format!("203.0.{}.77", n % 256), format!("203.0.{}.77", n % 256)),
            _ => (format!("tok_9f8e7d6c5b4a{n:03}"), format!("9f8e7d6c5b4a{n:03}")),
        };
        self.0.push(canary);
        match n % 4 {
            0 | 1 => secret,
            2 => secret.bytes().map(|b| format!("%{b:02X}")).collect(),
            _ => URL_SAFE_NO_PAD.encode(secret),
        }
    }
    fn text(&mut self) -> String {
        format!("ask {} now", self.secret())
    }
    fn url(&mut self) -> String {
        let words = [0; 5].map(|_| self.word());
        let secret = self.secret().replace(' ', "%20");
        format!("https://{}:{}@shop.example/reset/{secret}/x?{}={}&utm_source=a#{}", words[0], words[1], words[2], words[3], words[4])
    }
    fn keep(&mut self, make: impl Fn(usize) -> String) -> String {
        let text = make(self.0.len());
        self.0.push(text.clone());
        text
    }
}

/// A number with a right check digit.
fn card(n: usize) -> String {
    let body = format!("411111111111{n:03}");
    let sum: usize = body
        .bytes()
        .rev()
        .enumerate()
        .map(|(i, b)| if i % 2 == 0 { usize::from(b - b'0') * 2 / 10 + usize::from(b - b'0') * 2 % 10 } else { usize::from(b - b'0') })
        .sum();
    format!("{body}{}", (10 - sum % 10) % 10)
}

/// Every form in which it could hide, in small letters.
fn forms(canary: &str) -> Vec<String> {
    let percent: String = canary.bytes().map(|b| format!("%{b:02x}")).collect();
    let shifted = (0..3).map(|pad| {
        let text = STANDARD.encode(format!("{}{canary}", "x".repeat(pad)));
        text[(pad * 8).div_ceil(6)..text.len() - 4].to_lowercase()
    });
    let url: String = canary.replace(' ', "%20");
    [canary.to_lowercase(), url.to_lowercase(), percent].into_iter().chain(shifted).collect()
}

/// Everything that anyone but the holder of the bad events' key may see of the event.
fn shown(pipeline: &Pipeline, event: &Harvested) -> String {
    let direct = format!("{:?}", pipeline.admit(event));
    match admit(pipeline, event) {
        Ok(trusted) => format!("{direct}\n{trusted:?}"),
        Err(reject) => format!("{direct}\n{reject}"),
    }
}

fn check(pipeline: &Pipeline, event: &Harvested, plant: &Plant) {
    let shown = shown(pipeline, event).to_lowercase();
    for canary in &plant.0 {
        for form in forms(canary) {
            assert!(!shown.contains(&form), "{canary} came out as {form} of\n{}\n{shown}", String::from_utf8_lossy(&event.payload));
        }
    }
}

/// A value for each field of a type, by what its schema does with it.
fn fill(field: &Field, document: &Value, plant: &mut Plant) -> Option<Value> {
    match &field.shape {
        Shape::Object(members) => {
            let mut object: Map<String, Value> = Map::new();
            for (name, field) in members {
                if let Some(value) = fill(field, &document["properties"][name], plant) {
                    object.insert(name.clone(), value);
                }
            }
            object.insert(plant.word(), json!(plant.word()));
            object.insert("other".to_owned(), json!({plant.word(): [plant.word(), {"x": plant.word()}]}));
            Some(object.into())
        }
        Shape::Array(items) => Some(json!([fill(items, &document["items"], plant)?])),
        Shape::Scalar => {
            let url = field.sanitize.iter().any(|step| matches!(step, forebay_schemas::catalog::Sanitize::Url(_)));
            match field.privacy {
                Some(Privacy::Keep) => keepable(document),
                Some(Privacy::Scan) if url => Some(plant.url().into()),
                Some(Privacy::Scan) => Some(plant.text().into()),
                _ => Some(plant.word().into()),
            }
        }
    }
}

/// Something that may stand in a field that is kept.
fn keepable(document: &Value) -> Option<Value> {
    let types = document["type"].to_string();
    match &document["enum"] {
        Value::Array(values) => values.first().cloned(),
        _ if types.contains("number") || types.contains("integer") => Some(json!(7)),
        _ if types.contains("boolean") => Some(json!(true)),
        _ => None,
    }
}

#[test]
fn every_field_of_every_type() {
    let (catalog, pipeline) = (Catalog::builtin(), pipeline());
    let mut trusted = 0;
    for event_type in catalog.types() {
        let mut plant = Plant(Vec::new());
        let properties = fill(&event_type.newest().fields, &event_type.newest().document, &mut plant);
        let context = json!({
            "page": {"url": plant.url(), "title": plant.text(), "referrer": plant.url(), "custom": plant.word()},
            "device": {"type": plant.word(), "os": plant.word(), "browser": plant.word(), "library": plant.word(), "id": plant.word()},
            "campaign": {"source": plant.text(), "name": plant.text()},
            "locale": plant.word(), "timezone": plant.word(), "user_agent": plant.word(), "ip": plant.word(), plant.word(): plant.word()
        });
        let payload = json!({
            "event_id": "e", "event_type": event_type.name, "user_id": plant.word(), "anonymous_id": plant.word(), "session_id": plant.word(),
            "page_id": plant.word(), "properties": properties, "context": context, plant.word(): plant.word()
        });
        let event = Harvested { user_agent: Some(plant.word()), ..event(Dialect::Native, &payload.to_string()) };
        trusted += usize::from(pipeline.admit(&event).is_ok());
        check(&pipeline, &event, &plant);
    }
    assert!(trusted * 2 > catalog.types().count(), "only {trusted} events got as far as masking");
}

#[test]
fn a_field_that_is_kept_on_purpose_is_seen() {
    let mut plant = Plant(Vec::new());
    let event = event(Dialect::Native, &json!({"event_type": "page_viewed", "properties": {"name": plant.word()}}).to_string());
    let schema = |privacy| {
        let name = json!({"type": "string", "pattern": "^[^\\s@]{0,64}$", "x-privacy": privacy});
        let text = json!({"type": "object", "properties": {"name": name}}).to_string();
        Catalog::builtin().overlay(&[("page_viewed/1-0-1.json".to_owned(), text)]).expect("a good schema")
    };
    let leaks = |privacy| shown(&with(schema(privacy), Options::default()), &event).contains(&plant.0[0]);
    assert!(leaks("keep") && !leaks("hash") && !leaks("redact") && !leaks("drop") && !leaks("truncate-ip"));
}

#[test]
fn every_corner_of_each_dialect() {
    let mut plant = Plant(Vec::new());
    let segment = json!({
        "type": "track", "event": "Product Clicked", "anonymousId": plant.word(), "userId": plant.word(), "groupId": plant.word(), "name": plant.word(),
        "properties": {plant.word(): plant.word(), "nested": {plant.word(): [plant.word()]}, "name": plant.text(), "url": plant.url()},
        "context": {"ip": plant.word(), "userAgent": plant.word(), "traits": {"email": plant.word()}, "page": {"url": plant.url(), "path": format!("/a/{}", plant.secret()), "title": plant.text(), "search": plant.word()},
                    "library": {"name": plant.word(), "version": plant.word()}, "os": {"name": plant.word()}, "device": {"id": plant.word()}, "sessionId": plant.word(), "locale": plant.word(), "timezone": plant.word()},
        "integrations": {plant.word(): true}, "_metadata": {"x": plant.word()}, plant.word(): plant.word()
    });
    let context = json!({"data": [{"schema": format!("iglu:com.acme/{}/jsonschema/1-0-0", plant.word()), "data": {"name": plant.word()}},
                                  {"schema": "iglu:com.snowplowanalytics.snowplow/client_session/jsonschema/1-0-2", "data": {"userId": plant.word(), "sessionId": plant.word()}}]});
    let snowplow = json!({
        "e": "pv", "duid": plant.word(), "uid": plant.word(), "sid": plant.word(), "nuid": plant.word(), "url": plant.url(), "refr": plant.url(), "page": plant.text(),
        "ip": plant.word(), "ua": plant.word(), "fp": plant.word(), "co": context.to_string(), "tna": plant.word(), "tv": plant.word(), "lang": plant.word(), "tz": plant.word(), plant.word(): plant.word()
    });
    let link = json!({"data": {"schema": format!("iglu:com.acme/{}/jsonschema/1-0-0", plant.word()), "data": {"x": plant.word()}}});
    let described = json!({"e": "ue", "duid": plant.word(), "ue_px": URL_SAFE_NO_PAD.encode(link.to_string())});
    let posthog = json!({
        "event": "$pageview", "properties": {"distinct_id": plant.word(), "$device_id": plant.word(), "$user_id": plant.word(), "$session_id": plant.word(), "$window_id": plant.word(), "token": plant.word(),
            "$current_url": plant.url(), "$pathname": format!("/a/{}", plant.secret()), "title": plant.text(), "$raw_user_agent": plant.word(), "$os": plant.word(), "$browser": plant.word(), "$ip": plant.word(),
            "$lib": plant.word(), "$lib_version": plant.word(), "$el_text": plant.word(), "utm_source": plant.text(), plant.word(): plant.word(), "$set": {"email": plant.word()}},
        "$set": {"email": plant.word()}, "$set_once": {plant.word(): plant.word()}, plant.word(): plant.word()
    });
    let amplitude = json!({
        "event_type": "Product Clicked", "device_id": plant.word(), "user_id": plant.word(), "session_id": plant.word(), "insert_id": plant.word(), "ip": plant.word(), "os_name": plant.word(), "platform": plant.word(),
        "language": plant.word(), "library": plant.word(), "user_agent": plant.word(), "city": plant.word(), "event_properties": {"name": plant.text(), "[Amplitude] Page URL": plant.url(), "[Amplitude] Page Title": plant.text(), plant.word(): plant.word()},
        "user_properties": {"$set": {"email": plant.word()}}, "groups": {plant.word(): plant.word()}, plant.word(): plant.word()
    });
    let identified = json!({
        "event_type": "$identify", "user_id": plant.word(), "user_properties": {"$set": {"email": plant.word(), plant.word(): plant.word()}, "$setOnce": {"name": plant.word()}, plant.word(): {"x": plant.word()}}
    });
    let mixpanel = json!({
        "event": "$mp_web_page_view", "properties": {"distinct_id": plant.word(), "$device_id": plant.word(), "$user_id": plant.word(), "$insert_id": plant.word(), "token": plant.word(), "$current_url": plant.url(), "$referrer": plant.url(),
            "current_page_title": plant.text(), "current_url_path": format!("/a/{}", plant.secret()), "$os": plant.word(), "$browser": plant.word(), "mp_lib": plant.word(), "$lib_version": plant.word(), "utm_source": plant.text(), plant.word(): plant.word()},
        plant.word(): plant.word()
    });
    let profile = json!({"$token": plant.word(), "$distinct_id": plant.word(), "$ip": plant.word(), "$set": {"$email": plant.word(), plant.word(): plant.word()}});
    let ga4 = json!({
        "name": "purchase", "timestamp_micros": plant.word(), plant.word(): plant.word(),
        "params": {"transaction_id": plant.word() + "@x", "coupon": plant.text(), "items": [{"item_name": plant.text(), plant.word(): plant.word()}, plant.word()], plant.word(): plant.word(),
            "session_id": plant.word(), "session_number": plant.word(), "page_location": plant.url(), "page_title": plant.text(), "page_referrer": plant.url(), "language": plant.word(), "screen_resolution": plant.word()}
    });
    let item = json!({"name": "add_to_cart", "params": {"items": [{"item_name": plant.text(), "item_id": {"x": plant.word()}, plant.word(): plant.word()}]}});
    let viewed = json!({"name": "page_view", "params": {"session_id": plant.word(), "page_location": plant.url(), "page_title": plant.text(), "page_referrer": plant.url(), "engagement_time_msec": plant.word()}});
    let ga4_envelope = json!({
        "client_id": plant.word(), "app_instance_id": plant.word(), "user_id": plant.word(), "timestamp_micros": plant.word(), "user_agent": plant.word(),
        "user_properties": {plant.word(): {"value": plant.word()}}, "user_data": {"sha256_email_address": plant.word()}, "consent": plant.word(), plant.word(): plant.word(),
        "device": {"category": plant.word(), "language": plant.word(), "operating_system": plant.word(), "browser": plant.word(), "screen_resolution": plant.word(), "model": plant.word()}
    });
    let cloudevents = json!({
        "specversion": "1.0", "type": "product_viewed", "id": plant.word(), "source": plant.url(), "subject": plant.text(), "time": plant.word(), "dataschema": plant.url(), "datacontenttype": plant.word(),
        "partitionkey": plant.word(), "userid": plant.word(), "anonymousid": plant.word(), "sessionid": plant.word(), "traceparent": plant.word(), plant.word(): plant.word(),
        "data": {"name": plant.text(), "url": plant.url(), plant.word(): plant.word(), "nested": {plant.word(): [plant.word()]}}, "data_base64": plant.word()
    });
    let text = json!({"type": "product_viewed", "data": plant.text()});
    let foreign = json!({"type": format!("com.acme.{}", plant.word()), "source": plant.word(), "data": {plant.word(): plant.word()}});
    let invalid = json!({"type": "track", "event": "Product Clicked", "properties": {"price": {"nested": plant.word()}, "name": [plant.word()], plant.word(): 1}});
    let unknown = json!({"type": "track", "event": plant.word(), "properties": {plant.word(): plant.word()}});
    let version = json!({"event_type": "page_viewed", "schema_version": plant.word()});
    let pipelines = [
        pipeline(),
        with(Catalog::builtin(), Options { unclassified: forebay_enricher_core::UnclassifiedPolicy::Reject, ..Options::default() }),
    ];
    for (dialect, payload) in [
        (Dialect::Segment, segment),
        (Dialect::Segment, invalid),
        (Dialect::Segment, unknown),
        (Dialect::Snowplow, snowplow),
        (Dialect::Snowplow, described),
        (Dialect::Posthog, posthog),
        (Dialect::Amplitude, amplitude),
        (Dialect::Amplitude, identified),
        (Dialect::Mixpanel, mixpanel),
        (Dialect::Mixpanel, profile),
        (Dialect::Ga4, ga4),
        (Dialect::Ga4, item),
        (Dialect::Ga4, viewed),
        (Dialect::CloudEvents, cloudevents),
        (Dialect::CloudEvents, text),
        (Dialect::CloudEvents, foreign),
        (Dialect::Native, version),
    ] {
        let envelope = (dialect == Dialect::Ga4).then(|| ga4_envelope.to_string());
        let event = Harvested { envelope, ..event(dialect, &payload.to_string()) };
        pipelines.iter().for_each(|pipeline| check(pipeline, &event, &plant));
        // Cut anywhere, it is broken JSON: the reject quotes none of it.
        for at in (0..payload.to_string().len()).step_by(37) {
            let cut = Harvested { payload: event.payload.slice(..at), ..event.clone() };
            check(&pipelines[0], &cut, &plant);
        }
    }
}

#[test]
fn an_envelope_tells_a_plain_type_and_masked_ids_alone() {
    let pipeline = with(Catalog::builtin(), Options { unknown_event: UnknownEvent::Envelope, ..Options::default() });
    let mut plant = Plant(Vec::new());
    let payload = json!({"type": "track", "event": "Left Page", "userId": plant.word(), "properties": {plant.word(): plant.word()}, "context": {"page": {"url": plant.url()}}});
    let known = event(Dialect::Segment, &payload.to_string());
    check(&pipeline, &known, &plant);
    let trusted = admit(&pipeline, &known).expect("an envelope");
    assert_eq!((&*trusted.event_type, &*trusted.schema_version, &*trusted.properties), ("left_page", "0-0-0", "{}"));
    assert!(trusted.user_id.is_some());
    for name in [plant.secret(), "9".to_owned(), "日本語".to_owned(), "x".repeat(100)] {
        let event = event(Dialect::Segment, &json!({"type": "track", "event": name}).to_string());
        check(&pipeline, &event, &plant);
        assert!(admit(&pipeline, &event).expect_err("no plain name").starts_with("unknown_event_type: "), "{name}");
    }
}
