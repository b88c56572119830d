use super::http::Http;
use super::*;
use crate::config::Secret;
use forebay_services::RegistrySpec;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn options(url: &str) -> RegistryOptions {
    RegistryOptions { url: url.to_owned(), username: None, password: None, ca_file: None }
}

fn with(options: &RegistryOptions) -> Result<Registry, LogError> {
    let text = "kind = \"kafka\"\nbrokers = [\"a:1\"]\ntopics.bad.name = \"rejects\"\n";
    let kafka = toml::from_str::<crate::config::LogConfig>(text).unwrap().kafka().unwrap();
    Registry::new(options, &kafka)
}

fn registry(url: &str) -> Registry {
    with(&options(url)).unwrap()
}

/// What somebody else registers; the id that it gets.
fn post(url: &str, subject: &str, schema: &str) -> u64 {
    let answer = Http::new(&options(url)).unwrap().post(&format!("/subjects/{subject}/versions"), &json!({"schema": schema})).unwrap();
    answer.body["id"].as_u64().unwrap_or_else(|| panic!("{} {}", answer.status, answer.body))
}

fn framed(id: u32) -> Vec<u8> {
    [&[0][..], &id.to_be_bytes(), b"datum"].concat()
}

#[test]
fn ids_go_out_as_the_registry_gave_them_and_come_in_as_built_in() {
    let server = forebay_services::Registry::start().unwrap();
    // So that no id of the registry is the built-in one by chance.
    post(&server.url(), "other", "\"string\"");
    let registry = registry(&server.url());
    assert_eq!(registry.registered(Topic::Bad).unwrap(), None);
    let mut ids = BTreeSet::new();
    for topic in Topic::ALL {
        let mut value = framed(topic.schema_id());
        registry.outgoing(topic, &mut value).unwrap();
        let id = get_id(&value).unwrap();
        assert_ne!(id, topic.schema_id());
        assert_eq!(value, framed(id));
        ids.insert(id);
        registry.incoming(topic, &mut value).unwrap();
        assert_eq!(value, framed(topic.schema_id()));
    }
    assert_eq!(ids.len(), Topic::ALL.len());
    let answer = Http::new(&options(&server.url())).unwrap().get("/subjects").unwrap();
    let ours = ["delta", "harvested", "late", "repartition", "trusted", "windows"].map(|topic| format!("forebay.{topic}-value"));
    assert_eq!(answer.body, json!([ours.as_slice(), &["other".to_owned(), "rejects-value".to_owned()]].concat()));

    // Once met, it is not needed; another process is given the same ids.
    server.kill();
    let mut value = framed(Topic::Trusted.schema_id());
    registry.outgoing(Topic::Trusted, &mut value).unwrap();
    let id = get_id(&value).unwrap();
    let second = with(&options(&server.url())).unwrap();
    assert!(matches!(second.id(Topic::Trusted), Err(LogError::Io(said)) if said.contains("/subjects/forebay.trusted-value/versions")));
    server.restart().unwrap();
    assert_eq!(second.id(Topic::Trusted).unwrap(), id);
    assert_eq!(second.registered(Topic::Trusted).unwrap(), Some(id));
}

#[test]
fn another_text_of_our_schema_is_our_schema() {
    let server = forebay_services::Registry::start().unwrap();
    let ours = wire::schema(Topic::Trusted);
    let told = ours.replace("An event that downstream teams may query", "Ours");
    assert_ne!(ours, told);
    let first = post(&server.url(), "forebay.trusted-value", &told);
    let registry = registry(&server.url());
    assert_eq!(u64::from(registry.id(Topic::Trusted).unwrap()), first);
    let second = u32::try_from(post(&server.url(), "forebay.trusted-value", ours)).unwrap();
    assert_ne!(u64::from(second), first);
    let mut value = framed(second);
    registry.incoming(Topic::Trusted, &mut value).unwrap();
    assert_eq!(value, framed(Topic::Trusted.schema_id()));
}

#[test]
fn a_version_that_we_cannot_read_is_refused_with_its_place() {
    let server = forebay_services::Registry::start().unwrap();
    let ours = wire::schema(Topic::Harvested);
    let more = ours.replace(r#""bytes"]"#, r#""bytes", "form"]"#);
    let fewer = ours.replace(r#"{"name": "envelope", "type": ["null", "string"], "default": null},"#, "");
    assert!(ours != more && ours != fewer);
    post(&server.url(), "forebay.harvested-value", &fewer);
    let older = registry(&server.url());
    assert_eq!(older.registered(Topic::Harvested).unwrap(), None);
    older.id(Topic::Harvested).unwrap();

    let id = post(&server.url(), "forebay.harvested-value", &more);
    let registry = registry(&server.url());
    let Err(LogError::Refused(said)) = registry.outgoing(Topic::Harvested, &mut framed(Topic::Harvested.schema_id())) else {
        panic!("refused")
    };
    let place = "forebay.HarvestedEvent.content: the enum has no symbol \"form\" and no default";
    assert!(said.contains(&format!("forebay.harvested-value version 3 (id {id}) cannot be read")) && said.contains(place), "{said}");
}

#[test]
fn values_of_other_schemas_are_refused_and_none_is_skipped() {
    let server = forebay_services::Registry::start().unwrap();
    let registry = registry(&server.url());
    let refused = |id: u32| match registry.incoming(Topic::Trusted, &mut framed(id)) {
        Err(LogError::Refused(said)) => said,
        other => panic!("{other:?}"),
    };
    assert!(refused(77).contains("a value names schema id 77, which is not registered for forebay.trusted-value"));
    let newer = wire::schema(Topic::Trusted).replace("\"schema_version\"", "\"version_of_schema\"");
    let id = u32::try_from(post(&server.url(), "forebay.trusted-value", &newer)).unwrap();
    assert!(
        refused(id)
            .contains(&format!("a value of forebay.trusted-value names schema id {id}, which is none that this version of Forebay reads"))
    );
    // Without framing there is no id: the reader of the value says what it is.
    for value in [&b""[..], b"\0\0\0", b"text of some kind"] {
        let mut read = value.to_vec();
        registry.incoming(Topic::Trusted, &mut read).unwrap();
        registry.outgoing(Topic::Trusted, &mut read).unwrap();
        assert_eq!(read, value);
    }
}

#[test]
fn credentials_and_certificates_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let made = std::process::Command::new("openssl")
        .args("req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=registry -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=CA:FALSE -keyout key.pem -out cert.pem".split(' '))
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let server = forebay_services::Registry::with(RegistrySpec {
        user: Some(("forebay".to_owned(), "sesame".to_owned())),
        tls: Some((cert.clone(), key)),
        ..RegistrySpec::default()
    })
    .unwrap();
    let url = server.url();
    let user = |password: &str, ca_file| RegistryOptions {
        username: Some("forebay".to_owned()),
        password: Some(Secret::new(password.to_owned())),
        ca_file,
        ..options(&url)
    };
    with(&user("sesame", Some(cert.clone()))).unwrap().id(Topic::Delta).unwrap();
    let Err(LogError::Refused(said)) = with(&user("wrong", Some(cert.clone()))).unwrap().id(Topic::Delta) else { panic!("refused") };
    assert!((said.contains("401") || said.contains("403")) && !said.contains("wrong"), "{said}");
    let Err(LogError::Io(said)) = with(&user("sesame", None)).unwrap().id(Topic::Delta) else { panic!("not trusted") };
    assert!(said.to_lowercase().contains("certificate"), "{said}");
    let Err(LogError::Refused(said)) = with(&user("sesame", Some(folder.path().join("none.pem")))) else { panic!("refused") };
    assert!(said.contains("none.pem cannot be read"), "{said}");
}

/// A server that answers 503 this often, and then as a registry without subjects.
fn failing(times: usize) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4_096];
            let _ = stream.read(&mut request).unwrap();
            let (status, body) = match count.fetch_add(1, Ordering::SeqCst) {
                n if n < times => ("503 Service Unavailable", r#"{"error_code":50301,"message":"electing"}"#),
                _ => ("404 Not Found", r#"{"error_code":40401,"message":"no such subject"}"#),
            };
            write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()).unwrap();
        }
    });
    (url, asked)
}

#[test]
fn a_registry_that_cannot_now_is_asked_again() {
    let (url, asked) = failing(2);
    assert_eq!(registry(&url).registered(Topic::Bad).unwrap(), None);
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    let (url, asked) = failing(usize::MAX);
    assert!(matches!(registry(&url).registered(Topic::Bad), Err(LogError::Io(said)) if said.contains("503 electing")));
    assert_eq!(asked.load(Ordering::SeqCst), limit::REGISTRY_TRIES as usize);
}

#[test]
fn what_is_no_registry_is_said() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4_096]).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello").unwrap();
        }
    });
    assert!(
        matches!(registry(&url).id(Topic::Bad), Err(LogError::Refused(said)) if said.contains("an answer that no schema registry gives"))
    );
}
