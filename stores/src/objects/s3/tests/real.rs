//! The bucket on a real server, which is also killed.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

struct Real {
    server: forebay_services::S3,
    options: S3Options,
    _dir: tempfile::TempDir,
}

fn real() -> Real {
    let server = forebay_services::S3::start().unwrap();
    server.create_bucket(BUCKET).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let keys = Some(keys(dir.path(), server.secret_key()));
    let options = S3Options { endpoint: Some(server.endpoint()), keys, ..plain_options() };
    Real { server, options, _dir: dir }
}

fn plain_options() -> S3Options {
    S3Options { bucket: BUCKET.to_owned(), prefix: "forebay/prod".to_owned(), endpoint: None, region: None, path_style: true, keys: None }
}

#[test]
fn conforms() {
    let (real, count) = (real(), AtomicUsize::new(0));
    conformance::suite(&|| {
        let nth = count.fetch_add(1, Ordering::Relaxed);
        Box::new(S3::new(real.options.at(BUCKET, &format!("suite/{nth}"))).unwrap())
    });
}

#[test]
fn more_objects_than_one_answer_holds() {
    let real = real();
    let objects = S3::new(real.options.at(BUCKET, "")).unwrap();
    let name = |n: usize| format!("raw/dt=2026-11-30/{n:05}");
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(n) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|n| *n < 2_100) {
                    assert_eq!(objects.put_if_absent(&name(n), Content::Bytes(name(n).as_bytes())).unwrap(), Put::Created);
                }
            });
        }
    });
    let all: Vec<_> = (0..2_100).map(|n| ObjectInfo { bytes: name(n).len() as u64, name: name(n) }).collect();
    assert_eq!(objects.list("raw/", None, 10_000).unwrap(), all);
    assert_eq!(objects.list("raw/", None, 1_500).unwrap(), all[..1_500]);
    assert_eq!(objects.list("raw/", Some(&name(700)), 1_200).unwrap(), all[701..1_901]);
    assert_eq!(objects.list("raw/dt=2026-11-30/020", None, 10_000).unwrap(), all[2_000..]);
    assert_eq!(objects.list("raw/dt=2026-12-01/", None, 10_000).unwrap(), []);
}

#[test]
fn what_stays_wrong_is_refused() {
    let real = real();
    let dir = tempfile::tempdir().unwrap();
    let wrong = S3Options { keys: Some(keys(dir.path(), "wrong")), ..real.options.clone() };
    let other = Keys { access_key_id: "nobody".to_owned(), ..real.options.keys.clone().unwrap() };
    let other = S3Options { keys: Some(other), ..real.options.clone() };
    for (options, said) in
        [(wrong, "SignatureDoesNotMatch"), (other, "XAdminUserNotFound"), (real.options.at("nowhere", ""), "NoSuchBucket")]
    {
        let objects = S3::new(options).unwrap();
        for error in [
            objects.put_if_absent("a", Content::Bytes(b"x")).unwrap_err(),
            objects.get("a").unwrap_err(),
            objects.size("a").unwrap_err(),
            objects.list("", None, 10).unwrap_err(),
            objects.delete("a").unwrap_err(),
        ] {
            assert!(matches!(&error, ObjectsError::Refused(text) if text.contains(said)), "{said}: {error:?}");
        }
    }
    // The secret is put right while the process runs.
    let file = dir.path().join("secret");
    let wrong = Keys { access_key_id: "forebay".to_owned(), secret_file: file.clone() };
    let objects = S3::new(S3Options { keys: Some(wrong), ..real.options.clone() }).unwrap();
    assert!(matches!(objects.put_if_absent("a", Content::Bytes(b"x")), Err(ObjectsError::Refused(_))));
    std::fs::write(file, real.server.secret_key()).unwrap();
    assert_eq!(objects.put_if_absent("a", Content::Bytes(b"x")).unwrap(), Put::Created);
}

/// This binary runs again in an environment of its own.
#[test]
fn credentials_come_by_the_standard_chain() {
    const ENDPOINT: &str = "FOREBAY_TEST_S3_ENDPOINT";
    const EXPECTED: &str = "FOREBAY_TEST_S3_EXPECTED";
    if let Ok(endpoint) = std::env::var(ENDPOINT) {
        let options = S3Options { endpoint: Some(endpoint), keys: None, ..plain_options() };
        let put = S3::new(options).unwrap().put_if_absent("a", Content::Bytes(b"x"));
        assert!(format!("{put:?}").contains(&std::env::var(EXPECTED).unwrap()), "{put:?}");
        return;
    }
    let real = real();
    let dir = tempfile::tempdir().unwrap();
    let profile = dir.path().join("credentials");
    let secret = real.server.secret_key();
    std::fs::write(&profile, format!("[backfill]\naws_access_key_id = forebay\naws_secret_access_key = {secret}\n")).unwrap();
    let profile = profile.display().to_string();
    for (env, expected) in [
        (vec![("AWS_ACCESS_KEY_ID", "forebay"), ("AWS_SECRET_ACCESS_KEY", secret)], "Ok(Created)"),
        (vec![("AWS_SHARED_CREDENTIALS_FILE", &*profile), ("AWS_PROFILE", "backfill")], "Ok(Same)"),
        (vec![("AWS_SHARED_CREDENTIALS_FILE", &*profile)], "Refused(\"there are no credentials: set objects.access_key_id"),
    ] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "objects::s3::tests::real::credentials_come_by_the_standard_chain"]);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("AWS_")) {
            child.env_remove(name);
        }
        child.env("HOME", dir.path()).env("AWS_EC2_METADATA_DISABLED", "true");
        child.env(ENDPOINT, real.server.endpoint()).env(EXPECTED, expected).envs(env);
        let output = child.output().unwrap();
        assert!(output.status.success(), "{expected}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

/// Writers go on while the server is killed again and again, and stopped: each object ends as its writer's, and no put is told otherwise.
#[test]
fn a_server_that_is_killed_loses_and_overwrites_nothing() {
    let real = real();
    let mut objects = S3::new(real.options.clone()).unwrap();
    (objects.patience.whole, objects.patience.answer) = (Duration::from_millis(500), Duration::from_secs(1));
    let (done, failed, over) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let content = |writer: usize, n: usize| -> Vec<u8> { (0..1u32 << 20).map(|at| (at as usize + 7 * writer + n) as u8).collect() };
    let name = |writer: usize, n: usize| format!("raw/{writer}-{n}");
    let counts: Vec<usize> = std::thread::scope(|scope| {
        let write = |writer: usize| {
            let mut n = 0;
            while !over.load(Ordering::Relaxed) {
                match objects.put_if_absent(&name(writer, n), Content::Bytes(&content(writer, n))) {
                    Ok(Put::Created | Put::Same) => {
                        n += 1;
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(ObjectsError::Io(_)) => {
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                    other => panic!("{other:?}"),
                }
            }
            n
        };
        let writers: Vec<_> = (0..3).map(|writer| scope.spawn(move || write(writer))).collect();
        let five_more = |count: &AtomicUsize| {
            let (before, until) = (count.load(Ordering::Relaxed), Instant::now() + Duration::from_secs(60));
            while count.load(Ordering::Relaxed) < before + 5 {
                assert!(Instant::now() < until, "the writers stand still");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        for round in 0..6 {
            five_more(&done);
            match round {
                2 => real.server.kill(),
                4 => real.server.pause().unwrap(),
                _ => {
                    real.server.restart().unwrap();
                    continue;
                }
            }
            five_more(&failed);
            if round == 2 { real.server.restart().unwrap() } else { real.server.resume().unwrap() }
        }
        five_more(&done);
        over.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    for (writer, count) in counts.iter().enumerate() {
        for n in 0..*count {
            assert_eq!(objects.get(&name(writer, n)).unwrap(), content(writer, n), "{}", name(writer, n));
        }
    }
    let listed = objects.list("raw/", None, usize::MAX).unwrap().len();
    let told: usize = counts.iter().sum();
    assert!((told..=told + counts.len()).contains(&listed), "{listed} objects, {told} puts");
}
