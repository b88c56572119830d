use super::*;
use crate::testing::FakeObjects;
use forebay_schemas::id::RequestId;
use std::sync::atomic::Ordering;

const HOUR: i64 = 3_600_000_000;

fn name(hour: i64, gateway: &str, n: u128) -> SegmentName {
    SegmentName::new(Micros(hour * HOUR), gateway, RequestId(uuid::Uuid::from_u128(n)))
}

/// Two days of three gateways, hour by hour; the last hour of one is still in the spool, and one segment is in both.
fn landing(spool: &Path) -> (FakeObjects, Vec<SegmentName>) {
    let objects = FakeObjects::default();
    let mut names = Vec::new();
    for hour in 490_000..490_048 {
        for (n, gateway) in ["a", "c", "b"].into_iter().enumerate() {
            let name = name(hour, gateway, (hour as u128) << 8 | n as u128);
            let last = hour == 490_047;
            if !(last && gateway == "b") {
                objects.objects.lock().insert(name.object(), b"landed".to_vec());
            }
            if last && gateway != "a" {
                fs::write(spool.join(name.file()), b"kept").expect("writes");
            }
            names.push(name);
        }
    }
    objects.objects.lock().insert("raw/zz/of-somebody-else".to_owned(), Vec::new());
    (objects, names)
}

#[test]
fn segments_come_in_order_of_time_and_only_their_hours_are_listed() {
    let folder = tempfile::tempdir().expect("folder");
    let (objects, names) = landing(folder.path());
    let all = segments(folder.path(), &objects, None, None).expect("lists");
    assert_eq!(all.iter().map(|segment| segment.name.clone()).collect::<Vec<_>>(), names);
    let spooled: Vec<_> =
        all.iter().filter(|segment| matches!(segment.place, Place::Spool(_))).map(|s| (s.name.clone(), s.bytes)).collect();
    assert_eq!(spooled, [(names[143].clone(), 4)], "what is in both is an object");

    let at = |hour: i64, minutes: i64| Some(Micros(hour * HOUR + minutes * 60_000_000));
    let every = 48 * 3;
    for (from, to, expected, listed) in [
        (at(490_010, 30), at(490_012, 0), 30..36, every - 30),
        (at(490_010, 0), at(490_010, 1), 30..33, every - 30),
        (None, at(490_001, 0), 0..3, every),
        (at(490_047, 59), None, 141..144, 3),
        (at(490_048, 0), None, 0..0, 1),
        (at(490_020, 0), at(490_020, 0), 0..0, every - 60),
    ] {
        objects.listed.store(0, Ordering::SeqCst);
        let found = segments(folder.path(), &objects, from, to).expect("lists");
        assert_eq!(found.into_iter().map(|segment| segment.name).collect::<Vec<_>>(), names[expected]);
        assert!(objects.listed.load(Ordering::SeqCst) <= listed, "{from:?} {to:?}: {:?}", objects.listed);
    }
}

#[test]
fn a_landing_is_listed_no_further_than_its_readers_want() {
    let folder = tempfile::tempdir().expect("folder");
    let objects = FakeObjects::default();
    for n in 0..3 * LIST_MAX {
        objects.objects.lock().insert(name(490_000 + n as i64 / 100, "a", n as u128).object(), Vec::new());
    }
    let mut seen = 0;
    each_segment(folder.path(), &objects, None, None, &mut |_| {
        seen += 1;
        if seen == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .expect("lists");
    assert_eq!((seen, objects.listed.swap(0, Ordering::SeqCst)), (3, LIST_MAX));
    let to = Some(Micros(490_011 * HOUR));
    assert_eq!(segments(folder.path(), &objects, None, to).expect("lists").len(), 1_100);
    assert_eq!(objects.listed.load(Ordering::SeqCst), 2 * LIST_MAX, "not to the end");
}

#[test]
fn one_segment_is_found_by_its_name_alone() {
    let folder = tempfile::tempdir().expect("folder");
    let (objects, names) = landing(folder.path());
    let place = |named: &str| segment(folder.path(), &objects, named).expect("asks").map(|segment| (segment.place, segment.bytes));
    let (landed, both, spooled) = (&names[0], &names[142], &names[143]);
    for name in [landed, both] {
        assert_eq!(place(&name.object()), Some((Place::Object(name.object()), 6)));
        assert_eq!(place(&name.file()), Some((Place::Object(name.object()), 6)));
    }
    let path = folder.path().join(spooled.file());
    for named in [spooled.object(), spooled.file(), path.display().to_string()] {
        assert_eq!(place(&named), Some((Place::Spool(path.clone()), 4)), "{named}");
    }
    for named in ["", "raw/zz/of-somebody-else", &name(1, "a", 1).object()] {
        assert_eq!(place(named), None, "{named}");
    }
    assert_eq!(objects.listed.load(Ordering::SeqCst), 0);
}
