//! The bucket on a server that does as a script says. The same on a real server: `real`.

mod server;
mod real;

use super::*;
use crate::objects::conformance;
use server::{BUCKET, Fault, Quirks, Server};
use std::sync::Arc;
use std::time::Duration;

type Script = Vec<(&'static str, Fault)>;

/// Keys of a configuration of one's own, so that nothing of this machine's AWS environment is looked at.
fn keys(dir: &std::path::Path, secret: &str) -> Keys {
    let secret_file = dir.join("secret");
    std::fs::write(&secret_file, format!("{secret}\n")).unwrap();
    Keys { access_key_id: "forebay".to_owned(), secret_file }
}

struct Rig {
    server: Server,
    objects: S3,
    _dir: tempfile::TempDir,
}

fn rig(quirks: Quirks, script: &[(&'static str, Fault)]) -> Rig {
    let server = Server::start(quirks, script);
    let dir = tempfile::tempdir().unwrap();
    let options = S3Options {
        bucket: BUCKET.to_owned(),
        prefix: "p".to_owned(),
        endpoint: Some(server.endpoint()),
        region: None,
        path_style: true,
        keys: Some(keys(dir.path(), "secret")),
    };
    let mut objects = S3::new(options).unwrap();
    objects.patience = Patience {
        answer: Duration::from_secs(2),
        whole: Duration::from_secs(4),
        first: Duration::from_millis(1),
        last: Duration::from_millis(10),
    };
    Rig { server, objects, _dir: dir }
}

const OURS: &[u8] = b"the content";
const THEIRS: &[u8] = b"another one";

#[test]
fn conforms() {
    let servers = Mutex::new(Vec::new());
    conformance::suite(&|| {
        let rig = rig(Quirks::default(), &[]);
        let objects = S3::new(rig.objects.options.clone()).unwrap();
        servers.lock().push(rig);
        Box::new(objects)
    });
}

/// Each put ends in the verdict that the store's content gives, whatever was heard of it, and nothing is overwritten.
#[test]
fn a_put_ends_in_the_right_verdict() {
    use Fault::*;
    let slow = || ("PUT", Answer(503, "SlowDown"));
    let cases: Vec<(&str, Script, Option<&[u8]>, Put)> = vec![
        ("told to slow down", vec![slow(), slow(), slow()], None, Put::Created),
        ("failed inside", vec![("PUT", Answer(500, "InternalError")), ("PUT", Answer(503, "ServiceUnavailable"))], None, Put::Created),
        ("timed out there", vec![("PUT", Answer(400, "RequestTimeout"))], None, Put::Created),
        ("spoilt on the way", vec![("PUT", Answer(400, "BadDigest"))], None, Put::Created),
        ("an HTML page of a proxy", vec![("PUT", Answer(502, "<html>"))], None, Put::Created),
        ("a conflict that passes", vec![("PUT", Answer(409, "ConditionalRequestConflict"))], None, Put::Created),
        ("a conflict with the same", vec![("PUT", TakenInBetween(OURS))], None, Put::Same),
        ("a conflict with another", vec![("PUT", TakenInBetween(THEIRS))], None, Put::Different),
        ("the answer lost", vec![("PUT", DoneAndCut)], None, Put::Same),
        ("no answer", vec![("PUT", DoneAndSilent)], None, Put::Same),
        ("the answer lost twice", vec![("PUT", DoneAndCut), ("HEAD", Cut)], None, Put::Same),
        ("the request lost", vec![("PUT", Cut), ("PUT", Cut)], None, Put::Created),
        ("the request lost, and the name taken", vec![("PUT", Cut)], Some(THEIRS), Put::Different),
        ("refused early", vec![("PUT", Early(412, "PreconditionFailed"))], Some(OURS), Put::Same),
        ("refused early, another", vec![("PUT", Early(412, "PreconditionFailed"))], Some(THEIRS), Put::Different),
        ("slow down while it is compared", vec![("HEAD", Answer(503, "SlowDown"))], Some(OURS), Put::Same),
        ("gone when it is compared", vec![("HEAD", Answer(404, "")), ("PUT", Answer(412, "PreconditionFailed"))], None, Put::Created),
        ("a size that differs", vec![], Some(b"more"), Put::Different),
    ];
    for forgets_checksums in [false, true] {
        for (what, script, there, verdict) in &cases {
            let rig = rig(Quirks { forgets_checksums, ..Quirks::default() }, script);
            if let Some(bytes) = there {
                rig.server.state.objects.lock().insert("p/a".to_owned(), bytes.to_vec());
            }
            assert_eq!(rig.objects.put_if_absent("a", Content::Bytes(OURS)).unwrap(), *verdict, "{what}");
            let kept = rig.server.state.objects.lock().get("p/a").cloned().unwrap();
            assert_eq!(kept == OURS, *verdict != Put::Different, "{what}");
            assert!(there.is_none_or(|bytes| kept == bytes), "{what}");
            assert!(rig.server.state.script.lock().is_empty(), "{what}: not all of the script was played");
        }
    }
}

/// The socket's buffers do not hold it: the client is still sending when it is answered, if at all, and cut.
#[test]
fn a_large_body_that_is_cut_under_its_own_answer_is_compared() {
    let large: Vec<u8> = (0..16u32 << 20).map(|n| (n % 251) as u8).collect();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, &large).unwrap();
    let early = || ("PUT", Fault::Early(412, "PreconditionFailed"));
    let same = || Some(large.clone());
    let different = || Some(vec![7; large.len()]);
    for (there, verdict, cuts_refusals) in [
        (same(), Put::Same, false),
        (same(), Put::Same, true),
        (different(), Put::Different, false),
        (different(), Put::Different, true),
        (None, Put::Created, false),
    ] {
        let script = if cuts_refusals { vec![] } else { vec![early()] };
        let rig = rig(Quirks { cuts_refusals, ..Quirks::default() }, &script);
        if let Some(bytes) = there {
            rig.server.state.objects.lock().insert("p/a".to_owned(), bytes);
        }
        assert_eq!(rig.objects.put_if_absent("a", Content::File(file.path())).unwrap(), verdict);
        let puts = rig.server.state.seen.lock().iter().filter(|seen| seen.starts_with("PUT")).count();
        assert_eq!(puts, if verdict == Put::Created { 2 } else { 1 }, "what is there is not sent again");
        assert_eq!(rig.objects.get("a").unwrap() == large, verdict != Put::Different);
    }
}

#[test]
fn patience_ends_and_the_caller_may_try_again() {
    let rig = rig(Quirks::default(), &[]);
    let faults = |count| (0..count).map(|_| ("PUT", Fault::Answer(503, "SlowDown"))).collect();
    *rig.server.state.script.lock() = faults(100_000);
    let error = rig.objects.put_if_absent("a", Content::Bytes(OURS)).unwrap_err();
    assert!(matches!(&error, ObjectsError::Io(e) if e.to_string().contains("503 SlowDown")), "{error}");
    *rig.server.state.script.lock() = faults(0);
    assert_eq!(rig.objects.put_if_absent("a", Content::Bytes(OURS)).unwrap(), Put::Created);
}

#[test]
fn a_refusal_says_what_to_do_and_is_not_tried_again() {
    for (status, code, said) in [
        (404, "NoSuchBucket", "create the bucket, or put objects.bucket right"),
        (403, "AccessDenied", "let these credentials get, put and list"),
        (403, "InvalidAccessKeyId", "check the access key and its secret"),
        (403, "SignatureDoesNotMatch", "check the access key and its secret"),
        (400, "ExpiredToken", "check the access key and its secret"),
        (301, "PermanentRedirect", "put objects.region right"),
        (400, "AuthorizationHeaderMalformed", "put objects.region right"),
        (501, "NotImplemented", "put with If-None-Match"),
        (400, "EntityTooLarge", "does not take this request"),
    ] {
        let rig = rig(Quirks::default(), &[("PUT", Fault::Answer(status, code)), ("GET", Fault::Answer(status, code))]);
        let error = rig.objects.put_if_absent("a", Content::Bytes(OURS)).unwrap_err();
        let refused = matches!(&error, ObjectsError::Refused(text) if text.contains(said) && text.contains(code) && text.contains(BUCKET));
        assert!(refused, "{error}");
        assert!(matches!(rig.objects.get("a"), Err(ObjectsError::Refused(_))), "{code}");
        assert_eq!(*rig.server.state.seen.lock(), ["PUT p/a", "GET p/a"]);
        assert_eq!(rig.objects.put_if_absent("a", Content::Bytes(OURS)).unwrap(), Put::Created, "once it is put right");
    }
}

#[test]
fn a_store_that_overwrites_is_refused_before_it_can() {
    let rig = rig(Quirks { overwrites: true, ..Quirks::default() }, &[]);
    rig.server.state.objects.lock().insert("p/a".to_owned(), THEIRS.to_vec());
    for _ in 0..2 {
        let error = rig.objects.put_if_absent("a", Content::Bytes(OURS)).unwrap_err();
        assert!(matches!(&error, ObjectsError::Refused(text) if text.contains("overwrites objects")), "{error}");
    }
    assert_eq!(rig.objects.get("a").unwrap(), THEIRS);
}

#[test]
fn a_clock_that_is_wrong_is_put_right_by_the_stores() {
    let rig = rig(Quirks { ahead: Duration::from_secs(3_600), ..Quirks::default() }, &[]);
    assert_eq!(rig.objects.put_if_absent("a", Content::Bytes(OURS)).unwrap(), Put::Created);
    assert_eq!(rig.objects.put_if_absent("a", Content::Bytes(THEIRS)).unwrap(), Put::Different);
    assert_eq!(*rig.server.state.seen.lock(), ["PUT p/a", "PUT p/a", "HEAD p/a"], "only the probe met it");
}

#[test]
fn reads_are_made_whole() {
    use Fault::*;
    let long: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
    let faults = [Torn, Cut, Answer(500, "InternalError"), Answer(503, "SlowDown"), TornAndSilent, DoneAndSilent];
    for fault in faults {
        let rig = rig(Quirks::default(), &[("GET", fault.clone())]);
        rig.server.state.objects.lock().insert("p/a".to_owned(), long.clone());
        assert_eq!(rig.objects.get("a").unwrap(), long, "{fault:?}");
        rig.server.state.script.lock().push_back(("GET", fault.clone()));
        assert_eq!(rig.objects.get_range("a", 100..150_000).unwrap(), long[100..150_000], "{fault:?}");
        rig.server.state.script.lock().push_back(("GET", fault.clone()));
        let listed = [ObjectInfo { name: "a".into(), bytes: 200_000 }];
        assert_eq!(rig.objects.list("", None, 10).unwrap(), listed, "{fault:?}");
    }
}

#[test]
fn no_credentials_and_no_secret_are_said() {
    let rig = rig(Quirks::default(), &[]);
    let options = rig.objects.options.clone();
    let missing = Keys { access_key_id: "forebay".to_owned(), secret_file: "/nonexistent/secret".into() };
    let objects = S3::new(S3Options { keys: Some(missing), ..options }).unwrap();
    let error = objects.get("a").unwrap_err();
    assert!(matches!(&error, ObjectsError::Refused(text) if text.contains("/nonexistent/secret cannot be read")), "{error}");
}

/// As roles do it at their end.
#[tokio::test]
async fn the_last_owner_may_be_an_async_task() {
    let rig = rig(Quirks::default(), &[]);
    let objects = Arc::new(rig.objects);
    let own = objects.clone();
    let put = tokio::task::spawn_blocking(move || own.put_if_absent("a", Content::Bytes(OURS)).unwrap());
    assert_eq!(put.await.unwrap(), Put::Created);
    drop(objects);
}
