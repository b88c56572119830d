use super::layers::Origin;
use super::*;

fn load(text: &str, env: &[(&str, &str)], flags: &[(&'static str, &'static str, &str)]) -> Result<Config, ConfigError> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("forebay.toml");
    std::fs::write(&file, text).expect("written");
    let env = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let flags = flags.iter().map(|(flag, key, value)| (*flag, *key, (*value).to_owned())).collect();
    Config::load(&Inputs { file: Some(file), env, flags, moved_to: None })
}

#[test]
fn errors_name_the_place_the_key_and_what_was_meant() {
    for (text, line, key, message) in [
        ("[gateway]\nlisten = \"127.0.0.1:1\"\nlimits.wire_byte = \"1MiB\"\n", 3, "gateway.limits.wire_byte", "did you mean `wire_bytes`?"),
        ("\n[gatway]\n", 2, "gatway", "did you mean `gateway`?"),
        ("[enricher]\nzzzzzzzzzz = 1\n", 2, "enricher.zzzzzzzzzz", "unknown key; known are admin"),
        ("[enricher]\n\ndedup.ttl = \"soon\"\n", 3, "enricher.dedup.ttl", "expected a quantity like \"60s\""),
        ("[enricher]\nbackend = \"paper\"\n", 2, "enricher.backend", "unknown variant `paper`"),
        ("[enricher]\nlanes = 0\n", 2, "enricher.lanes", "between 1 and"),
        ("[enricher]\nlanes = 5\n", 2, "enricher.lanes", "more lanes than log.partitions"),
        ("[log]\npartitions = 0\n", 2, "log.partitions", "1"),
        ("[gateway]\nlisten = \"0.0.0.0:8080\"\n", 2, "gateway.listen", "reachable from other machines"),
        ("[gateway]\nadmin = \"0.0.0.0:8081\"\n", 2, "gateway.admin", "reachable from other machines"),
        ("[[source]]\nname = \"a\"\ndefault = true\n[[source]]\nname = \"b\"\ntypo = 1\n", 6, "source[1].typo", "unknown key"),
        ("[gateway\n", 1, "", ""),
        ("\n[data]\n", 2, "data", "the path of a folder"),
    ] {
        let error = load(text, &[], &[]).expect_err(text);
        assert!(error.place.ends_with(&format!("forebay.toml, line {line}")), "{text}: {error}");
        assert_eq!(error.key, key, "{text}: {error}");
        assert!(error.message.contains(message), "{text}: {error}");
    }
}

#[test]
fn a_folder_or_key_file_that_is_not_there_is_told_by_its_key() {
    for (text, line, key) in [
        ("[catalog]\ndir = \"/nowhere/schemas\"\n", 2, "catalog.dir"),
        ("[catalog]\n\nkeys.mask_file = \"/nowhere/mask.key\"\n", 3, "catalog.keys.mask_file"),
        ("[catalog.keys]\nbad_public_file = \"/nowhere/public.key\"\n", 2, "catalog.keys.bad_public_file"),
    ] {
        let error = load(text, &[], &[]).expect("the text is right").check_dev().expect_err(text);
        assert!(error.place.ends_with(&format!("forebay.toml, line {line}")), "{text}: {error}");
        assert_eq!(error.key, key, "{text}: {error}");
        assert!(error.message.starts_with("there is no /nowhere/"), "{text}: {error}");
    }
    load("", &[], &[]).expect("the defaults are right").check_dev().expect("keys of dev's own are made later");
}

#[test]
fn each_layer_lies_over_the_one_below() {
    let text = "data = \"/srv/forebay\"\n[gateway]\nlisten = \"127.0.0.1:1\"\nname = \"a\"\n[enricher]\ndedup.ttl = \"2s\"\n";
    let env = [
        ("FOREBAY__GATEWAY__NAME", "123"),
        ("FOREBAY__GATEWAY__LISTEN", "127.0.0.1:2"),
        ("FOREBAY__ENRICHER__LANES", "2"),
        ("FOREBAY_TOKEN", "x"),
    ];
    let config = load(text, &env, &[("--listen", "gateway.listen", "127.0.0.1:3")]).expect("loads");
    assert_eq!(config.gateway.listen.port(), 3);
    assert_eq!(config.gateway.name.as_deref(), Some("123"), "text that looks like a number");
    assert_eq!(config.enricher.lanes, 2);
    assert_eq!(config.log_dir(), Path::new("/srv/forebay/log"));
    assert_eq!(config.catalog.keys.mask_file.as_deref(), Some(Path::new("/srv/forebay/keys/mask.key")));
    let settings = config.settings();
    let origin = |key: &str| settings.iter().find(|s| s.key == key).expect(key).origin.clone();
    assert_eq!(origin("gateway.listen"), Origin::Flag("--listen"));
    assert_eq!(origin("gateway.name"), Origin::Env("FOREBAY__GATEWAY__NAME".to_owned()));
    assert!(matches!(origin("enricher.dedup.ttl"), Origin::File { line: 6, .. }));
    assert_eq!(origin("enricher.dedup.collision"), Origin::Default);
    assert_eq!(origin("source[0].name"), Origin::Default);
    let error = load("", &[("FOREBAY__GATEWAY__LISTN", "x")], &[]).expect_err("a typo");
    assert_eq!(error.to_string(), "FOREBAY__GATEWAY__LISTN: gateway.listn: unknown key; did you mean `listen`?");
    let error = load("", &[("FOREBAY__GATWAY__LISTEN", "x")], &[]).expect_err("a typo");
    assert_eq!(error.to_string(), "FOREBAY__GATWAY__LISTEN: gatway: unknown key; did you mean `gateway`?");
}

#[test]
fn the_environment_alone_can_make_lists() {
    let env: Vec<(String, String)> = (0..12)
        .flat_map(|n| {
            [("NAME", format!("s{n}")), ("APP_IDS__0", format!("app{n}"))].map(|(key, v)| (format!("FOREBAY__SOURCE__{n}__{key}"), v))
        })
        .collect();
    let env: Vec<(&str, &str)> = env.iter().map(|(k, v)| (&**k, &**v)).collect();
    let config = load("", &env, &[]).expect("loads");
    let names: Vec<String> = config.sources.iter().map(|s| format!("{} {}", s.name, s.app_ids.join(","))).collect();
    assert_eq!(names, (0..12).map(|n| format!("s{n} app{n}")).collect::<Vec<_>>());
    let added = [("FOREBAY__SOURCE__1__NAME", "b"), ("FOREBAY__SOURCE__1__DEFAULT", "true")];
    let config = load("[[source]]\nname = \"a\"\napp_ids = [\"x\"]\n", &added, &[]).expect("loads");
    assert_eq!(config.sources.iter().map(|s| &*s.name).collect::<Vec<_>>(), ["a", "b"]);
    let error = load("", &[("FOREBAY__SOURCE__5__NAME", "x")], &[]).expect_err("a gap");
    assert_eq!(error.to_string(), "FOREBAY__SOURCE__5__NAME: source[5].name: there is no item 5");
}

#[test]
fn the_effective_text_gives_the_same_again_also_elsewhere() {
    let config = load("data = \"/srv/forebay\"\n[enricher]\ndedup.ttl = \"2s\"\n", &[], &[]).expect("loads");
    let text = config.effective_text();
    assert!(text.contains("backend = \"rocksdb\""), "{text}");
    assert_eq!(load(&text, &[], &[]).expect("loads again").raw, config.effective());
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("forebay.toml"), text).expect("written");
    let moved = Inputs { file: Some(folder.path().join("forebay.toml")), moved_to: Some("/mnt/copy".into()), ..Inputs::default() };
    let moved = Config::load(&moved).expect("loads");
    assert_eq!((moved.data.as_path(), moved.log_dir().as_path()), (Path::new("/mnt/copy"), Path::new("/mnt/copy/log")));
}

#[test]
fn the_commented_default_says_what_the_defaults_are() {
    let plain = load("", &[], &[]).expect("defaults");
    assert_eq!(load(COMMENTED_DEFAULT, &[], &[]).expect("loads").raw, plain.raw, "everything is commented out");
    let mut text = String::new();
    let mut in_list = false;
    for line in COMMENTED_DEFAULT.lines() {
        in_list = if line.starts_with('[') { false } else { in_list || line.starts_with("# [[") };
        match line.strip_prefix("# ").filter(|l| !in_list && l.contains(" = ") && !l.contains("unset")) {
            Some(setting) => text.push_str(&format!("{setting}\n")),
            None => text.push_str(&format!("{line}\n")),
        }
    }
    let spelt = load(&text, &[], &[]).expect("loads");
    let values = |config: &Config| {
        config
            .settings()
            .into_iter()
            .map(|s| (s.key.clone(), s.text().replace("./forebay-data", "D").replace(&plain.data.display().to_string(), "D")))
            .collect::<Vec<_>>()
    };
    assert_eq!(values(&spelt), values(&plain));
}

/// The keys of a section, as the reader of the configuration tells them of one that it does not know; `None`: no section.
fn keys_of(section: &str) -> Option<Vec<String>> {
    let text = match section {
        "" => "zzzzzzzzzzzzzzzz = 1\n".to_owned(),
        "source" | "window" => format!("[[{section}]]\nzzzzzzzzzzzzzzzz = 1\n"),
        _ => format!("[{section}]\nzzzzzzzzzzzzzzzz = 1\n"),
    };
    let error = load(&text, &[], &[]).expect_err("no such key");
    let known =
        error.message.strip_prefix("unknown key; known are ").filter(|_| error.key.ends_with(".zzzzzzzzzzzzzzzz") || section.is_empty())?;
    Some(known.split(", ").map(str::to_owned).collect())
}

#[test]
fn the_commented_default_has_every_key() {
    let mut there: Vec<String> = Vec::new();
    let mut section = String::new();
    for line in COMMENTED_DEFAULT.lines() {
        let plain = line.trim_start_matches("# ");
        if let Some(header) = plain.strip_prefix('[') {
            section = header.trim_start_matches('[').split(']').next().expect("a header").to_owned();
        } else if let Some((key, rest)) = plain.split_once(" = ").filter(|(key, _)| line.starts_with('#') && !key.contains(' ')) {
            there.push(if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") });
            assert!(rest.contains(" # ") || rest.starts_with(['"', '[']), "{line}");
        }
    }
    let mut missing = Vec::new();
    let mut sections = vec![String::new()];
    let mut keys = 0;
    while let Some(section) = sections.pop() {
        for key in keys_of(&section).expect("a section") {
            let path = if section.is_empty() { key } else { format!("{section}.{key}") };
            if keys_of(&path).is_some() {
                sections.push(path);
                continue;
            }
            keys += 1;
            if !there.contains(&path) {
                missing.push(path);
            }
        }
    }
    assert!(missing.is_empty(), "src/config/default.toml lacks {missing:?}");
    assert!(keys > 60, "{keys}");
    let plain = load("", &[], &[]).expect("defaults");
    let unsaid: Vec<_> =
        plain.settings().into_iter().map(|s| s.key).filter(|key| !key.starts_with("source[") && !there.contains(key)).collect();
    assert!(unsaid.is_empty(), "{unsaid:?}");
}

#[test]
fn a_key_of_another_section_is_told_apart_from_a_typo() {
    for (text, message) in [
        ("[enricher]\ncatalogue = \"x\"\n", "unknown key here; there is `sink.table.catalogue`; known are admin"),
        ("[enricher]\nstart = \"x\"\n", "unknown key; known are admin"),
        ("[gateway]\ncommit_bytes = \"x\"\n", "unknown key here; there is `sink.table.commit_bytes`; known are name"),
    ] {
        let error = load(text, &[], &[]).expect_err(text);
        assert!(error.message.starts_with(message), "{error}");
    }
}

#[test]
fn settings_have_the_types_of_their_values() {
    let config = load("[gateway]\nproxy_hops = 2\n[sink.table]\ncompact = false\n", &[], &[]).expect("loads");
    let json = |key: &str| config.settings().iter().find(|s| s.key == key).expect(key).to_json()["value"].clone();
    assert_eq!(json("gateway.proxy_hops"), serde_json::json!(2));
    assert_eq!(json("sink.table.compact"), serde_json::json!(false));
    assert_eq!(json("gateway.limits.wire_bytes"), serde_json::json!("20MiB"));
    assert_eq!(json("source[0].origins"), serde_json::json!([]));
}

#[test]
fn on_kafka_nothing_of_the_folder_is_a_default_and_no_password_is_told() {
    let text = "[log]\nkind = \"kafka\"\nbrokers = [\"kafka-1:9092\"]\nsasl.mechanism = \"PLAIN\"\nsasl.username = \"u\"\n\
                [objects]\nkind = \"s3\"\nbucket = \"events\"\n";
    let config = load(text, &[("FOREBAY__LOG__SASL__PASSWORD", "hush-hush")], &[]).expect("loads");
    assert_eq!((&config.log.dir, &config.objects.dir, &config.catalog.keys.mask_file), (&None, &None, &None));
    let told: Vec<String> = config.settings().iter().map(|s| format!("{} {} {}", s.key, s.text(), s.to_json())).collect();
    assert!(told.iter().any(|line| line.starts_with("log.sasl.password (hidden)")), "{told:?}");
    assert!(told.iter().all(|line| !line.contains("hush-hush")), "{told:?}");
    // Deltas are kept for recovery, whatever stands there; Kafka would remove them by size.
    let text = text.replace("[objects]", "topics.delta.retention = \"1d\"\n[objects]");
    let config = load(&text, &[("FOREBAY__LOG__SASL__PASSWORD", "hush-hush")], &[]).expect("loads");
    assert_eq!(config.kafka_options().expect("whole").topic(Topic::Delta).retention, config.enricher.delta_retention());
    let text = text.replace("topics.delta.retention = \"1d\"", "topics.delta.max_bytes = \"1GiB\"");
    let config = load(&text, &[("FOREBAY__LOG__SASL__PASSWORD", "hush-hush")], &[]).expect("loads");
    assert_eq!(config.kafka_options().expect_err("by size").key, "log.topics.delta.max_bytes");
}
