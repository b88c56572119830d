//! One suite for all backends: what is said of the trait holds for each.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const FORMAT: Format = Format::writing(1);

fn origin() -> Origin {
    Origin { harvested: "h".into(), delta: "d".into(), partitions: 4 }
}
fn meta(seq: i64) -> Meta {
    Meta { seq, offset: seq * 10, origin: origin(), deltas_from: None }
}
fn put(key: &[u8], value: &[u8]) -> Op {
    Op { key: key.to_vec(), value: Some(value.to_vec()) }
}
fn delete(key: &[u8]) -> Op {
    Op { key: key.to_vec(), value: None }
}
fn all(backend: &dyn Backend, from: &[u8], to: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    let scanned = backend.scan(from, to, &mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    });
    scanned.expect("scans");
    found
}
fn many(backend: &dyn Backend, keys: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
    let mut values = vec![None; keys.len()];
    backend.get_many(keys, &mut |place, value| values[place] = Some(value.to_vec())).expect("reads");
    values
}
fn on_both(check: impl Fn(&Stores)) {
    for kind in [Kind::Memory, Kind::RocksDb] {
        let dir = tempfile::tempdir().expect("a folder");
        check(&Stores::new(kind, dir.path(), 4, FORMAT));
    }
}

#[test]
fn commits_are_whole_and_carry_their_position() {
    on_both(|stores| {
        let backend = stores.open(3).expect("opens");
        assert_eq!(backend.meta(), Ok(None));
        backend.apply(&[put(b"\0\0\x01a", b"1"), put(b"\0\0\x01b", b"2"), put(b"\0\x01\x01c", b"")], &meta(1)).expect("applies");
        backend.apply(&[put(b"\0\0\x01a", b"3"), delete(b"\0\0\x01b"), delete(b"\0\0\x01x")], &meta(2)).expect("applies");
        assert_eq!(backend.meta(), Ok(Some(meta(2))));
        assert_eq!(backend.get(b"\0\0\x01a"), Ok(Some(b"3".to_vec())));
        assert_eq!(many(&*backend, &[b"\0\0\x01a", b"\0\0\x01b", b"\0\x01\x01c"]), [Some(b"3".to_vec()), None, Some(vec![])]);
        assert_eq!(all(&*backend, b"\0\0", b"\0\x01"), [(b"\0\0\x01a".to_vec(), b"3".to_vec())]);
        assert_eq!(all(&*backend, b"\0\0", b"\0\x02").len(), 2);
        assert!(backend.bytes() > 0);
    });
}

#[test]
fn reclaimed_ranges_are_gone_and_their_neighbours_stay() {
    on_both(|stores| {
        let backend = stores.open(0).expect("opens");
        let hashes = [[0u8; 16], [0x7f; 16], [0xff; 16]];
        let keys = |generation| hashes.map(|hash| key::seen(generation, hash));
        let ops: Vec<Op> =
            (1..=4).flat_map(keys).map(|key| put(&key, b"v")).chain([put(&key::plain(key::Uid::Totals, b"t"), b"n")]).collect();
        backend.apply(&ops, &meta(1)).expect("applies");
        backend.flush().expect("flushes");
        backend.reclaim(&key::seen_ranges(0, 3).collect::<Vec<_>>()).expect("reclaims");
        for (generation, there) in [(1, 0), (2, 0), (3, 3), (4, 3)] {
            let keys = keys(generation);
            assert_eq!(many(&*backend, &keys.each_ref().map(|key| key.as_slice())).into_iter().flatten().count(), there);
        }
        assert_eq!(backend.get(&key::plain(key::Uid::Totals, b"t")), Ok(Some(b"n".to_vec())));
        assert_eq!(backend.meta(), Ok(Some(meta(1))));
        // The range is gone, not forbidden.
        backend.apply(&[put(&key::seen(1, hashes[0]), b"w")], &meta(2)).expect("applies");
        assert_eq!(backend.get(&key::seen(1, hashes[0])), Ok(Some(b"w".to_vec())));
    });
}

#[test]
fn state_of_an_unknown_operator_is_refused() {
    on_both(|stores| {
        let backend = stores.open(0).expect("opens");
        let known: Vec<Op> = key::Uid::ALL.iter().map(|uid| put(&key::plain(*uid, b"k"), b"v")).collect();
        backend.apply(&known, &meta(1)).expect("applies");
        assert_eq!(check_uids(&*backend), Ok(()));
        backend.apply(&[put(b"\0\x3f\xc8k", b"v")], &meta(2)).expect("applies");
        assert_eq!(check_uids(&*backend), Err(StateError::UnknownUid(0xc8)));
    });
}

#[test]
fn rocksdb_comes_back_at_a_whole_commit() {
    let dir = tempfile::tempdir().expect("a folder");
    let crashed = tempfile::tempdir().expect("a folder");
    {
        let stores = Stores::new(Kind::RocksDb, dir.path(), 4, FORMAT);
        let backend = stores.open(0).expect("opens");
        backend.apply(&[put(b"\0\0\x01a", b"1")], &meta(1)).expect("applies");
        backend.flush().expect("flushes");
        backend.apply(&[put(b"\0\0\x01a", b"2")], &meta(2)).expect("applies");
        copy(dir.path(), crashed.path());
    }
    let read = |dir: &Path| {
        let backend = Stores::new(Kind::RocksDb, dir, 4, FORMAT).open(0).expect("opens");
        (backend.meta().expect("reads"), backend.get(b"\0\0\x01a").expect("reads"))
    };
    assert_eq!(read(crashed.path()), (Some(meta(1)), Some(b"1".to_vec())), "what was not flushed is as if it never was");
    assert_eq!(read(dir.path()), (Some(meta(2)), Some(b"2".to_vec())), "closing flushes");
    let stores = Stores::new(Kind::RocksDb, dir.path(), 4, FORMAT);
    stores.condemn(0);
    assert_eq!(stores.open(0).expect("opens").meta(), Ok(None), "a condemned store begins empty");
    assert_eq!(stores.open(0).expect("opens").meta(), Ok(None));
    // A store with a hole is emptied too.
    let table = std::fs::read_dir(crashed.path().join("0"))
        .expect("a folder")
        .flatten()
        .find(|file| file.path().extension().is_some_and(|e| e == "sst"));
    std::fs::remove_file(table.expect("was flushed").path()).expect("there");
    assert_eq!(read(crashed.path()), (None, None));
}

/// What a kill leaves: files as they lie. A store removes files it no longer needs meanwhile; then it is done again.
pub fn copy(from: &Path, to: &Path) {
    while try_copy(from, to).is_err() {
        std::fs::remove_dir_all(to).expect("was made");
    }
}

fn try_copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    let names = || -> std::io::Result<Vec<_>> {
        let mut names = std::fs::read_dir(from)?.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    };
    let before = names()?;
    for name in &before {
        if from.join(name).is_dir() {
            try_copy(&from.join(name), &to.join(name))?;
        } else {
            std::fs::copy(from.join(name), to.join(name))?;
        }
    }
    if names()? == before { Ok(()) } else { Err(std::io::ErrorKind::Interrupted.into()) }
}

#[derive(Clone, Debug)]
enum Step {
    Apply(Vec<(u8, Option<u8>)>),
    Reclaim(u8, u8),
    Flush,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => prop::collection::vec((0u8..40, prop::option::weighted(0.7, any::<u8>())), 0..10).prop_map(Step::Apply),
        2 => (0u8..40, 0u8..40).prop_map(|(a, b)| Step::Reclaim(a.min(b), a.max(b))),
        1 => Just(Step::Flush),
    ];
    prop::collection::vec(step, 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn both_are_an_ordered_map(steps in steps()) {
        on_both(|stores| {
            let backend = stores.open(0).expect("opens");
            let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
            let key = |n: u8| vec![0, 0, n];
            for (seq, step) in (1..).zip(&steps) {
                match step {
                    Step::Apply(writes) => {
                        let ops: Vec<Op> = writes.iter().map(|(k, v)| Op { key: key(*k), value: v.map(|v| vec![v]) }).collect();
                        backend.apply(&ops, &meta(seq)).expect("applies");
                        for op in ops {
                            match op.value {
                                Some(value) => drop(model.insert(op.key, value)),
                                None => drop(model.remove(&op.key)),
                            }
                        }
                    }
                    Step::Reclaim(from, to) => {
                        backend.reclaim(&[(key(*from), key(*to))]).expect("reclaims");
                        model.retain(|k, _| *k < key(*from) || *k >= key(*to));
                    }
                    Step::Flush => backend.flush().expect("flushes"),
                }
            }
            assert_eq!(all(&*backend, &[0, 0], &[0, 1]), model.clone().into_iter().collect::<Vec<_>>());
            let keys: Vec<Vec<u8>> = (0..40).map(key).collect();
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            assert_eq!(many(&*backend, &keys), keys.iter().map(|key| model.get(*key).cloned()).collect::<Vec<_>>());
        });
    }
}
