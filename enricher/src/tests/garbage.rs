//! Records that no gateway of ours wrote, and events too large to be told.

use super::*;
use bytes::Bytes;
use forebay_enricher_core::seal::BadPrivateKey;
use forebay_schemas::wire::harvested;
use forebay_stores::log::{Entry, TopicPartition};
use proptest::prelude::*;

const INPUT: TopicPartition = TopicPartition { topic: Topic::Harvested, partition: 0 };

fn world() -> World {
    World::new(Kind::Memory, testing::pipeline(Duration::from_secs(3600), Collision::Bad))
}

fn outcomes(world: &World) -> BTreeMap<(String, Outcome), u64> {
    let (task, _) = &world.life.as_ref().expect("started").tasks[0];
    task.totals().everything().outcomes.into_iter().map(|(source, outcome, count)| ((source, outcome), count)).collect()
}

fn append(world: &World, key: &[u8], value: Option<Bytes>) {
    let entry = Entry { key: Bytes::copy_from_slice(key), value, headers: Vec::new() };
    world.log.append(vec![(INPUT, entry)]).expect("fake");
}

fn encoded(change: impl FnOnce(&mut harvested::Harvested)) -> Bytes {
    let mut event = testing::harvested(1, Body::Fact(1), testing::START);
    change(&mut event);
    harvested::encode(&event).into()
}

#[test]
fn h29_a_record_without_a_key_is_unkeyable() {
    let mut world = world();
    world.start().expect("starts");
    append(&world, b"", Some(encoded(|_| {})));
    append(&world, b"", Some(encoded(|event| event.payload = "not json".into())));
    append(&world, b"a", Some(encoded(|_| {})));
    append(&world, b"", Some(encoded(|_| {})));
    append(&world, b"", Some(Bytes::from_static(b"\0")));
    world.run().expect("commits");
    let expected = [("unknown", Reason::Unreadable, 1), (SOURCE, Reason::Unkeyable, 3)];
    let mut expected: BTreeMap<_, _> =
        expected.into_iter().map(|(source, reason, count)| ((source.to_owned(), Outcome::Bad(reason)), count)).collect();
    expected.insert((SOURCE.to_owned(), Outcome::Trusted), 1);
    assert_eq!(outcomes(&world), expected);
    assert_eq!(world.trusted(0), [(2, "e1".to_owned())], "what was unkeyable left no trace");
}

#[test]
fn records_of_others_become_one_unreadable_event_each() {
    let mut world = world();
    world.start().expect("starts");
    let whole = encoded(|_| {});
    let long = "x".repeat(limit::NAME_BYTES + 1);
    for value in [
        Bytes::new(),
        Bytes::from_static(b"\0\0\0\0\x01"),
        Bytes::from_static(b"{\"json\":true}"),
        whole.slice(..whole.len() - 1),
        whole.slice(..7),
        Bytes::from([&whole[..], b"more"].concat()),
        Bytes::from([&[0, 0, 0, 9, 9], &whole[5..]].concat()),
        encoded(|event| event.source.clone_from(&long)),
        encoded(|event| event.gateway.clone_from(&long)),
        Bytes::from(vec![0xff; limit::MESSAGE_BYTES - 1_000]),
    ] {
        append(&world, b"k", Some(value));
    }
    world.run().expect("commits");
    assert_eq!(outcomes(&world), [(("unknown".to_owned(), Outcome::Bad(Reason::Unreadable)), 10)].into());
    assert_eq!(world.bad(0).iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
}

/// Ticks by the thousand under names that nobody has cost no more than a bound.
#[test]
fn ticks_of_others_do_not_grow_the_state() {
    let mut world = world();
    world.start().expect("starts");
    world.log.append(vec![testing::tick(0, &"g".repeat(limit::NAME_BYTES + 1), testing::START)]).expect("fake");
    for n in 0..limit::GATEWAYS * 2 {
        world.log.append(vec![testing::tick(0, &format!("g{n}"), testing::START)]).expect("fake");
    }
    world.run().expect("commits");
    let (task, _) = &world.life().tasks[0];
    assert!(task.progress().encode(Format::writing(1)).len() < limit::GATEWAYS * 24);
    assert!(outcomes(&world).is_empty());
}

/// The largest trusted event that passes fills a message of the log to its last byte or nearly; the next one is bad.
#[test]
fn h11_outputs_are_within_the_logs_bound_or_become_something_that_is() {
    let mut world = world();
    world.start().expect("starts");
    let payload = |id: usize, name: &str| {
        format!(r#"{{"event_id":"e{id}","event_type":"product_viewed","anonymous_id":"a","properties":{{"name":"{name}"}}}}"#)
    };
    let sized = |id: usize, letters: usize| {
        encoded(|event| {
            event.event_id = forebay_schemas::id::EventId::new(format!("{id:04}")).expect("short");
            event.payload = payload(id, &"x".repeat(letters)).into();
        })
    };
    // How much stands around the name in a trusted event's message.
    append(&world, b"a", Some(sized(0, 1_000)));
    world.run().expect("commits");
    let around = world.log.records(Topic::Trusted, 0)[0].value.as_ref().expect("has a value").len() - 1_000;
    let largest = limit::MESSAGE_BYTES - limit::RECORD_OVERHEAD_BYTES - 4 - around;
    // The lengths that stand around a text of megabytes take two bytes more than those around one of a kilobyte.
    for (id, letters) in (largest - 5..=largest + 1).enumerate() {
        append(&world, b"a", Some(sized(1 + id, letters)));
    }
    // A trusted event that is larger than what it was made from: each address becomes a longer mark.
    append(
        &world,
        b"a",
        Some(encoded(|event| {
            event.event_id = forebay_schemas::id::EventId::new("marks").expect("short");
            event.payload = payload(100, &"a@b.co ".repeat((limit::MESSAGE_BYTES - 100_000) / 7)).into();
        })),
    );
    world.run().expect("nothing is refused by the log");
    let counts = outcomes(&world);
    let count = |outcome| counts.get(&(SOURCE.to_owned(), outcome)).copied().unwrap_or(0);
    assert_eq!(count(Outcome::Trusted) + count(Outcome::Bad(Reason::EventTooLarge)), 9, "{counts:?}");
    let longest = world.log.records(Topic::Trusted, 0).iter().map(|record| record.value.as_ref().expect("has a value").len()).max();
    assert_eq!(longest.expect("some") + 4 + limit::RECORD_OVERHEAD_BYTES, limit::MESSAGE_BYTES, "a full message is told: {counts:?}");
}

/// A reject is sealed whole if it fits, and else as its beginning; its clear part says how long it was.
#[test]
fn h11_rejects_of_any_size_can_be_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let keys = crate::keys::ensure(dir.path()).expect("made");
    let loaded = crate::keys::load(&keys, BTreeMap::new()).expect("usable");
    let private = std::fs::read_to_string(keys.bad_private_file.expect("made")).expect("a file");
    let private = BadPrivateKey::parse(&private).expect("a key");
    let options = forebay_enricher_core::Options::default();
    let catalog = Arc::new(forebay_schemas::catalog::Catalog::builtin());
    let mut world = World::new(Kind::Memory, Arc::new(Pipeline::new(catalog, options, loaded).expect("compiles")));
    world.start().expect("starts");
    let around = encoded(|event| event.payload = Bytes::new()).len();
    let mut lengths = Vec::new();
    for value_bytes in [1_000, limit::OUTPUT_BYTES, limit::OUTPUT_BYTES + 1, limit::MESSAGE_BYTES - 200] {
        let length = value_bytes - around - 3;
        append(&world, b"a", Some(encoded(|event| event.payload = vec![b'x'; length].into())));
        lengths.push(length);
    }
    // Records that something else than the payload makes as large as a message may be.
    let long = "x".repeat(limit::MESSAGE_BYTES - 400);
    let stretches: [fn(&mut harvested::Harvested, String); 4] = [
        |event, long| event.user_agent = Some(long),
        |event, long| event.client_ip = Some(long),
        |event, long| event.envelope = Some(long),
        |event, long| event.headers = vec![(long, String::new())],
    ];
    for stretch in stretches {
        append(
            &world,
            b"a",
            Some(encoded(|event| {
                event.payload = "not json".into();
                stretch(event, long.clone());
            })),
        );
        lengths.push("not json".len());
    }
    world.run().expect("nothing is refused by the log");
    let records = world.log.records(Topic::Bad, 0);
    assert_eq!(records.len(), lengths.len());
    for (n, (record, length)) in records.iter().zip(&lengths).enumerate() {
        let bad = bad::decode(record.value.as_ref().expect("has a value")).expect("decodes");
        let opened = forebay_enricher_core::deliver::open(&bad, &private).expect("opens");
        let event = harvested::decode(&opened.into()).expect("decodes");
        let whole = n < 2;
        assert_eq!(event.payload.len(), if whole { *length } else { limit::CUT_BYTES.min(*length) }, "reject {n}");
        assert_eq!(event.full_length, (!whole).then_some(*length as u64), "reject {n}");
    }
}

fn mutilated() -> impl Strategy<Value = Vec<u8>> {
    let whole = encoded(|_| {}).to_vec();
    let changed = (prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6), any::<prop::sample::Index>(), any::<bool>())
        .prop_map(move |(bytes, end, cut)| {
            let mut value = whole.clone();
            bytes.iter().for_each(|(at, byte)| *at.get_mut(&mut value) = *byte);
            let end = end.index(value.len());
            value.truncate(if cut { end } else { value.len() });
            value
        });
    prop_oneof![3 => changed, 1 => prop::collection::vec(any::<u8>(), 0..64)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    /// Whatever stands on the topic, each record has one outcome, and what is good among it is told.
    #[test]
    fn whatever_stands_on_the_topic_totals_balance(garbage in prop::collection::vec((prop::option::of(mutilated()), any::<bool>()), 1..40)) {
        let mut world = world();
        world.start().expect("starts");
        let mut records = 0;
        for (n, (value, keyed)) in (0..).zip(&garbage) {
            records += 1 + u64::from(value.is_some());
            append(&world, if *keyed { b"k" } else { b"" }, value.clone().map(Bytes::from));
            append(&world, b"k", Some(encoded(|event| event.event_id = forebay_schemas::id::EventId::new(format!("good{n}")).expect("short"))));
        }
        world.run().expect("commits");
        prop_assert_eq!(outcomes(&world).values().sum::<u64>(), records);
        let good: Vec<_> = world.trusted(0).into_iter().filter(|(_, id)| id.starts_with("good")).collect();
        prop_assert_eq!(good.len(), garbage.len());
        world.end(Restart::FromDeltas);
        world.start().expect("starts");
        prop_assert_eq!(outcomes(&world).values().sum::<u64>(), records);
    }
}
