use super::*;
use serde_json::json;

fn source(fields: serde_json::Value) -> SourceConfig {
    serde_json::from_value(fields).expect("a source")
}

#[test]
fn defaults_are_written_and_read_back() {
    let text = serde_json::to_value(Config::default()).expect("writes");
    assert_eq!(text["listen"], "127.0.0.1:8080");
    assert_eq!(
        text["spool"],
        json!({"dir": null, "max_bytes": "10GiB", "segment_bytes": "64MiB", "segment_age": "1m", "codec": "zstandard"})
    );
    assert_eq!(serde_json::from_value::<Config>(text).expect("reads"), Config::default());
    assert_eq!(serde_json::from_value::<Config>(json!({})).expect("reads"), Config::default());
    assert_eq!(validate(&Config::default(), &[SourceConfig::dev()]), Ok(()));
    let dev = serde_json::to_value(SourceConfig::dev()).expect("writes");
    assert_eq!(serde_json::from_value::<SourceConfig>(dev).expect("reads"), SourceConfig::dev());
}

#[test]
fn wrong_words_are_refused_by_type() {
    for bad in [
        json!({"lisen": "127.0.0.1:1"}),
        json!({"spool": {"codec": "snappy"}}),
        json!({"spool": {"max_bytes": 5}}),
        json!({"limits": {"x": 1}}),
    ] {
        assert!(serde_json::from_value::<Config>(bad.clone()).is_err(), "{bad}");
    }
    for bad in [
        json!({}),
        json!({"name": "a", "write_keys": ["wk_demo"]}),
        json!({"name": "a", "write_keys": [format!("sha256:{}", "é".repeat(32))]}),
        json!({"name": "a", "dialects": ["klingon"]}),
        json!({"name": "a", "ack": "memory"}),
        json!({"name": "a", "ip": "hash"}),
        json!({"name": "a", "write_keys": [{"key": format!("sha256:{}", "0".repeat(64)), "expires": "soon"}]}),
    ] {
        assert!(serde_json::from_value::<SourceConfig>(bad.clone()).is_err(), "{bad}");
    }
}

#[test]
fn a_wrong_write_key_is_told_what_is_expected() {
    for (key, expected) in [
        (json!("wk_demo"), "expected \"sha256:\" and the 64 hex digits of the key's SHA-256"),
        (json!(5), "expected \"sha256:<64 hex>\" or { key = "),
        (json!({"key": format!("sha256:{}", "0".repeat(64)), "expires": "soon"}), "expected a time like"),
        (json!({"key": format!("sha256:{}", "0".repeat(64))}), "missing field `expires`"),
        (json!({"key": "x", "expire": "x"}), "unknown field `expire`"),
    ] {
        let error = serde_json::from_value::<WriteKey>(key.clone()).expect_err("a wrong key").to_string();
        assert!(error.contains(expected), "{key}: {error}");
    }
}

#[test]
fn what_contradicts_itself_is_refused_with_its_key() {
    let key = format!("sha256:{}", "ab".repeat(32));
    let keyed = || source(json!({"name": "shop", "write_keys": [key]}));
    let origins = |list: &[&str]| source(json!({"name": "shop", "default": true, "origins": list}));
    let reachable = Config { listen: "0.0.0.0:8080".parse().expect("address"), ..Config::default() };
    let with = |change: &dyn Fn(&mut Config)| {
        let mut config = Config::default();
        change(&mut config);
        config
    };
    let cases: Vec<(Config, Vec<SourceConfig>, Option<&str>)> = vec![
        (reachable.clone(), vec![keyed()], None),
        (reachable.clone(), vec![SourceConfig::dev()], Some("gateway.listen")),
        (Config::default(), vec![source(json!({"name": "a", "default": true, "ack": "object", "rate": 1, "in_flight": 1_024}))], None),
        (Config::default(), vec![source(json!({"name": "a", "default": true, "rate": 0}))], Some("source[0].rate")),
        (Config::default(), vec![source(json!({"name": "a", "default": true, "in_flight": 1_025}))], Some("source[0].in_flight")),
        (
            with(&|config| config.limits.object_ack_timeout = config.spool.segment_age),
            vec![source(json!({"name": "a", "default": true, "ack": "object"}))],
            Some("source[0].ack"),
        ),
        (reachable.clone(), vec![], Some("gateway.listen")),
        (reachable.clone(), vec![keyed(), source(json!({"name": "b", "default": true}))], Some("gateway.listen")),
        (reachable, vec![source(json!({"name": "b", "app_ids": ["web"]}))], None),
        (Config::default(), vec![keyed(), keyed()], Some("source[1].name")),
        (Config::default(), vec![keyed(), source(json!({"name": "b", "write_keys": [key]}))], Some("source[1].write_keys")),
        (Config::default(), vec![source(json!({"name": "b"}))], Some("source[0].write_keys")),
        (Config::default(), vec![source(json!({"name": "B d", "default": true}))], Some("source[0].name")),
        (Config::default(), vec![origins(&["https://a.example", "http://localhost:3000", "http://[::1]:80", "null"])], None),
        (Config::default(), vec![origins(&["https://a.example/"])], Some("source[0].origins")),
        (Config::default(), vec![origins(&["*"])], Some("source[0].origins")),
        (Config::default(), vec![origins(&["a.example"])], Some("source[0].origins")),
        (Config::default(), vec![SourceConfig::dev(), source(json!({"name": "b", "default": true}))], Some("source[1].default")),
        (with(&|c| c.name = Some("../x".into())), vec![], Some("gateway.name")),
        (with(&|c| c.admin = Some(c.listen)), vec![], Some("gateway.admin")),
        (with(&|c| c.admin = Some("0.0.0.0:8080".parse().expect("address"))), vec![], Some("gateway.admin")),
        (with(&|c| c.admin = Some("127.0.0.2:8080".parse().expect("address"))), vec![], None),
        (with(&|c| (c.listen.set_port(0), c.admin = Some(c.listen)).1), vec![], None),
        (with(&|c| c.limits.in_flight = 0), vec![], Some("gateway.limits.in_flight")),
        (with(&|c| c.limits.memory = Size(1)), vec![], Some("gateway.limits.memory")),
        (with(&|c| c.spool.max_bytes = Size(1)), vec![], Some("gateway.spool.max_bytes")),
        (with(&|c| c.spool.segment_bytes = Size(limit::SEGMENT_BYTES + 1)), vec![], Some("gateway.spool.segment_bytes")),
    ];
    for (config, sources, expected) in cases {
        assert_eq!(validate(&config, &sources).err().map(|e| e.key).as_deref(), expected);
    }
}
