//! What every object store must do, as tests over the trait. Each form runs `suite` on an empty store of its own.

use super::{Content, ObjectInfo, Objects, ObjectsError, Put};
use forebay_schemas::limit;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Barrier;

pub(super) fn suite(open: &dyn Fn() -> Box<dyn Objects>) {
    a_name_is_taken_once(&*open());
    names_are_checked(&*open());
    one_of_many_writers_wins(&*open());
    listing_is_paged_in_name_order(open);
}

fn a_name_is_taken_once(objects: &dyn Objects) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let long: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
    file.write_all(&long).unwrap();
    let mut almost = long.clone();
    *almost.last_mut().unwrap() ^= 1;

    assert!(matches!(objects.get("raw/dt=2026-11-30/hr=10/a.avro"), Err(ObjectsError::NotFound(_))));
    let puts = [
        ("raw/dt=2026-11-30/hr=10/a.avro", Content::File(file.path()), Put::Created),
        ("raw/dt=2026-11-30/hr=10/a.avro", Content::File(file.path()), Put::Same),
        ("raw/dt=2026-11-30/hr=10/a.avro", Content::Bytes(&long), Put::Same),
        ("raw/dt=2026-11-30/hr=10/a.avro", Content::Bytes(&almost), Put::Different),
        ("raw/dt=2026-11-30/hr=10/a.avro", Content::Bytes(&long[1..]), Put::Different),
        ("raw/dt=2026-11-30/hr=10/a.avro", Content::Bytes(b""), Put::Different),
        ("empty", Content::Bytes(b""), Put::Created),
        ("empty", Content::Bytes(b""), Put::Same),
        ("empty", Content::Bytes(b"x"), Put::Different),
    ];
    for (nth, (name, content, expected)) in puts.into_iter().enumerate() {
        assert_eq!(objects.put_if_absent(name, content).unwrap(), expected, "put {nth}");
    }
    assert_eq!(objects.get("raw/dt=2026-11-30/hr=10/a.avro").unwrap(), long);
    assert_eq!(objects.get("empty").unwrap(), b"");
    assert!(matches!(objects.get("raw/dt=2026-11-30"), Err(ObjectsError::NotFound(_))), "a prefix is no object");
    assert!(matches!(objects.put_if_absent("gone", Content::File("/nonexistent".as_ref())), Err(ObjectsError::Io(_))));
    assert!(matches!(objects.get("gone"), Err(ObjectsError::NotFound(_))));
}

fn names_are_checked(objects: &dyn Objects) {
    let (part, long) = ("x".repeat(limit::OBJECT_PART_BYTES + 1), "a/".repeat(limit::OBJECT_NAME_BYTES / 2) + "a");
    let bad = ["", "/a", "a/", "a//b", ".", "a/../b", "a/./b", "../a", ".tmp-1", "a/.tmp-1/b", "a\0b", "a\nb", "a\\b", &part, &long];
    for name in bad {
        assert!(matches!(objects.put_if_absent(name, Content::Bytes(b"x")), Err(ObjectsError::BadName(_))), "{name:?}");
        assert!(matches!(objects.get(name), Err(ObjectsError::BadName(_))), "{name:?}");
    }
    assert_eq!(objects.list("", None, 10).unwrap(), [], "nothing came of it");
    for name in [".hidden", "a b/ü=ö", &part[1..]] {
        assert_eq!(objects.put_if_absent(name, Content::Bytes(b"x")).unwrap(), Put::Created, "{name:?}");
    }
}

fn one_of_many_writers_wins(objects: &dyn Objects) {
    let writers = 8;
    let barrier = Barrier::new(writers);
    let put = |nth: usize| {
        barrier.wait();
        objects.put_if_absent("one/name", Content::Bytes(&[nth as u8 / 2; 5_000])).unwrap()
    };
    let answers: Vec<Put> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..writers).map(|nth| scope.spawn(move || put(nth))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let count = |kind| answers.iter().filter(|answer| **answer == kind).count();
    assert_eq!((count(Put::Created), count(Put::Same), count(Put::Different)), (1, 1, writers - 2));
    assert_eq!(objects.list("one", None, 10).unwrap(), [ObjectInfo { name: "one/name".into(), bytes: 5_000 }]);
}

/// Compared with a sorted map, on names whose order as text differs from their order as paths.
fn listing_is_paged_in_name_order(open: &dyn Fn() -> Box<dyn Objects>) {
    let part = prop::sample::select(vec!["a", "a-b", "a.b", "a0", "b", "hr=1", "hr=10", "hr=2"]);
    let name = prop::collection::vec(part, 1..4).prop_map(|parts| parts.join("/"));
    let prefixes = prop::sample::select(vec!["", "a", "a/", "a-", "hr=1", "a/hr=1", "b/a0/", "zz"]);
    let case = (prop::collection::btree_set(name.clone(), 0..12), prefixes, prop::option::of(name), 1..5usize);
    proptest!(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() }, |((names, prefix, after, page) in case)| {
        // A name below another name is a folder's limit, not the contract's: leave such out.
        let names: Vec<&String> = names.iter().filter(|name| !names.iter().any(|other| name.starts_with(&format!("{other}/")))).collect();
        let objects = open();
        let mut model = BTreeMap::new();
        for name in names {
            objects.put_if_absent(name, Content::Bytes(name.as_bytes())).unwrap();
            model.insert(name.clone(), name.len() as u64);
        }
        let expected: Vec<ObjectInfo> = model.into_iter()
            .filter(|(name, _)| name.starts_with(prefix) && after.as_ref().is_none_or(|after| name > after))
            .map(|(name, bytes)| ObjectInfo { name, bytes }).collect();
        let (mut listed, mut from) = (Vec::new(), after.clone());
        loop {
            let more = objects.list(prefix, from.as_deref(), page).unwrap();
            prop_assert!(more.len() <= page);
            let Some(last) = more.last() else { break };
            from = Some(last.name.clone());
            listed.extend(more);
        }
        prop_assert_eq!(listed, expected);
    });
}
