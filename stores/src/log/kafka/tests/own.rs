//! What is this form's own: topics that are not as they must be, offsets that expired, keys as Java places them.

use super::*;
use crate::log::{CommitError, Transaction};
use bytes::Bytes;
use forebay_schemas::partition::{murmur2, partition_of};
use std::path::Path;

#[test]
fn opening_asks_nobody_and_silence_is_no_refusal() {
    let nobody = "127.0.0.1:1";
    let patience = Patience { answer: Duration::from_millis(500), ..Patience::default() };
    let options = KafkaOptions { patience, ..options_at(nobody, 2, "") };
    let log = KafkaLog::connect(options).unwrap();
    assert_eq!(log.partitions(Topic::Harvested), 2);
    let silent = |result: Result<(), LogError>| match result {
        Err(LogError::Io(text)) => assert!(text.contains("answer"), "{text}"),
        other => panic!("{other:?}"),
    };
    silent(log.append(vec![(HARVESTED, entry("x"))]));
    silent(log.bounds(HARVESTED).map(|_| ()));
    silent(log.reader(HARVESTED, 0).map(|_| ()));
    silent(log.committed("job/0", HARVESTED).map(|_| ()));
    silent(log.lane("job/0").map(|_| ()));
    log.wait_past(&[(HARVESTED, 0)], Duration::from_millis(1));
}

#[test]
fn a_topic_that_is_not_as_it_must_be_is_refused() {
    let brokers = Kafka::shared().brokers();
    let missing = options_at(&brokers, 2, "");
    let more = { KafkaOptions { partitions: 3, ..fresh_at(&brokers).0 } };
    for (options, said) in [(missing, "`forebay topics apply`"), (more, "has 2 partitions where log.partitions = 3")] {
        let log = KafkaLog::connect(options).unwrap();
        let refused = |result: Result<(), LogError>| match result {
            Err(LogError::Refused(text)) => assert!(text.contains(said), "{text}"),
            other => panic!("{other:?}"),
        };
        refused(log.append(vec![(HARVESTED, entry("x"))]));
        refused(log.bounds(HARVESTED).map(|_| ()));
        refused(log.reader(HARVESTED, 0).map(|_| ()));
        refused(log.topic_id(Topic::Harvested).map(|_| ()));
        let transaction = Transaction { outputs: vec![(TRUSTED, entry("x"))], offsets: Vec::new() };
        let committed = log.lane("job/refused").unwrap().commit(transaction);
        assert!(matches!(&committed, Err(CommitError::Refused(text)) if text.contains(said)), "{committed:?}");
    }
}

/// Each of them is a client with threads and records fetched ahead.
#[test]
fn h18_readers_of_one_partition_are_bounded() {
    let (_, log) = fresh_at(&Kafka::shared().brokers());
    let open = || log.reader(HARVESTED, 0);
    let mut readers: Vec<_> = (0..limit::LOG_READERS).map(|_| open().unwrap()).collect();
    let refused = open().map(|_| ()).unwrap_err();
    assert!(matches!(&refused, LogError::Io(text) if text.contains("has 16 readers already")), "{refused}");
    log.reader(TRUSTED, 0).unwrap();
    readers.pop();
    open().unwrap();
}

/// H40: a group that the brokers have forgotten.
#[test]
fn offsets_that_are_gone_are_none() {
    let kafka = Kafka::shared();
    let (options, log) = fresh_at(&kafka.brokers());
    let mut lane = log.lane("job/expired").unwrap();
    lane.commit(Transaction { outputs: Vec::new(), offsets: vec![(HARVESTED, committed(7, "seq=1"))] }).unwrap();
    assert_eq!(lane.committed(HARVESTED).unwrap(), Some(committed(7, "seq=1")));
    let name = options.name(Topic::Harvested);
    let args = ["--delete-offsets", "--group", "job/expired", "--topic", name];
    kafka.tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", &args).unwrap();
    assert_eq!(lane.committed(HARVESTED).unwrap(), None);
    assert_eq!(log.committed("job/expired", HARVESTED).unwrap(), None);
}

/// H22: what ends a partition may be no record at all.
#[test]
fn a_read_ends_behind_what_is_no_record() {
    let (_, log) = fresh_at(&Kafka::shared().brokers());
    let mut lane = log.lane("job/markers").unwrap();
    let mut reader = log.reader(TRUSTED, 0).unwrap();
    for nth in 1..=3 {
        lane.commit(Transaction { outputs: vec![(TRUSTED, entry(&nth.to_string()))], offsets: Vec::new() }).unwrap();
    }
    drop(lane);
    // The lane that opens next waits for the markers of the one before.
    drop(log.lane("job/markers").unwrap());
    let end = log.bounds(TRUSTED).unwrap().end;
    assert_eq!(end, 6, "a record and a marker each");
    let mut read = Vec::new();
    while reader.position() < end {
        read.extend(reader.read_to(end, 1, usize::MAX).unwrap());
    }
    assert_eq!((values(&read), reader.position()), (vec!["1".to_owned(), "2".to_owned(), "3".to_owned()], end));
    // From a marker on, and up to the middle: a record beyond is kept for the next read.
    assert_eq!(log.reader(TRUSTED, 5).unwrap().read_to(end, 1, 1).unwrap(), []);
    let mut reader = log.reader(TRUSTED, 0).unwrap();
    for (below, expected) in [(1, vec!["1"]), (2, vec![]), (3, vec!["2"]), (end, vec!["3"]), (end, vec![])] {
        assert_eq!(values(&reader.read_to(below, 1 << 20, 10).unwrap()), expected, "below {below}");
        assert!(reader.position() >= below || !expected.is_empty());
    }
}

#[test]
fn retention_that_passes_a_reader_is_told_and_never_jumped_over() {
    // Little is fetched ahead, so that the reader meets the hole.
    let options =
        options_at(&Kafka::shared().brokers(), 2, "client = { queued.max.messages.kbytes = 1, fetch.message.max.bytes = 1000 }\n");
    topics::apply(&options, false).unwrap();
    let log = KafkaLog::connect(options.clone()).unwrap();
    for nth in 0..200 {
        log.append(vec![(HARVESTED, entry(&format!("{nth:0200}")))]).unwrap();
    }
    let mut reader = log.reader(HARVESTED, 0).unwrap();
    assert_eq!(reader.read_to(200, 1, 1).unwrap().len(), 1);
    drop_before(&options, HARVESTED, 190);
    let mut expected = 1;
    let error = loop {
        match reader.read_to(200, 1, 1) {
            Ok(records) => {
                assert_eq!(records[0].offset, expected, "a jump");
                expected += 1;
            }
            Err(error) => break error,
        }
    };
    let bounds = Bounds { start: 190, end: 200 };
    let outside = |error: &LogError| matches!(error, LogError::OffsetOutOfRange { offset, bounds: b, topic_partition: HARVESTED } if *offset == expected && *b == bounds);
    assert!(outside(&error), "{error}");
    assert!(outside(&reader.read(1, 1).unwrap_err()) && reader.position() == expected);
}

#[test]
fn one_partition_is_read_by_several_at_once() {
    let (_, log) = fresh_at(&Kafka::shared().brokers());
    log.append((0..100).map(|nth| (HARVESTED, entry(&nth.to_string()))).collect()).unwrap();
    let mut readers: Vec<_> = (0..5).map(|from| log.reader(HARVESTED, from * 10).unwrap()).collect();
    for _ in 0..2 {
        for (nth, reader) in readers.iter_mut().enumerate() {
            let from = reader.position();
            let records = reader.read_to(from + 10, 1 << 20, 100).unwrap();
            assert_eq!(values(&records), (from..from + 10).map(|n| n.to_string()).collect::<Vec<_>>(), "reader {nth}");
        }
    }
    drop(readers);
    assert!(log.shared.fetchers.lock().iter().all(|fetcher| fetcher.is_idle()));
    assert_eq!(read_all(&log, HARVESTED).len(), 100);
    assert_eq!(log.shared.fetchers.lock().len(), 2, "one consumer and a spare");
}

/// A reader that nobody reads from keeps those who wait at the same place neither awake nor asleep.
#[test]
fn an_idle_reader_beside_another_does_not_wake_it_for_ever() {
    let (_, log) = fresh_at(&Kafka::shared().brokers());
    let (mut idle, mut busy) = (log.reader(HARVESTED, 0).unwrap(), log.reader(HARVESTED, 0).unwrap());
    // The end of the partition is something, too: who waits is waked by it once for each reader.
    let wait = Duration::from_millis(200);
    let slept = (0..50).any(|_| {
        assert_eq!(busy.read(1, 1).unwrap(), []);
        let begun = std::time::Instant::now();
        log.wait_past(&[(HARVESTED, 0)], wait);
        begun.elapsed() >= wait
    });
    assert!(slept, "it is waked by nothing");
    std::thread::scope(|scope| {
        let woken = scope.spawn(|| log.wait_past(&[(HARVESTED, 0)], Duration::from_secs(600)));
        log.append(vec![(HARVESTED, entry("x"))]).unwrap();
        woken.join().unwrap();
    });
    assert_eq!(values(&busy.read_to(1, 1, 1).unwrap()), values(&idle.read_to(1, 1, 1).unwrap()));
}

#[test]
fn topic_ids_are_those_that_kafka_tells() {
    let kafka = Kafka::shared();
    let (options, log) = fresh_at(&kafka.brokers());
    let id = log.topic_id(Topic::Harvested).unwrap();
    let told = kafka.tool("org.apache.kafka.tools.TopicCommand", &["--describe", "--topic", options.name(Topic::Harvested)]).unwrap();
    let told = told.split("TopicId: ").nth(1).unwrap().split_whitespace().next().unwrap();
    let bytes = uuid::Uuid::parse_str(&id).unwrap().into_bytes();
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let number = bytes.iter().fold(0u128, |number, byte| number << 8 | u128::from(*byte));
    let digit = |nth: u32| alphabet[usize::try_from(if nth == 21 { number << 4 & 63 } else { number >> (122 - 6 * nth) & 63 }).unwrap()];
    assert_eq!((0..22).map(|nth| char::from(digit(nth))).collect::<String>(), told);
}

#[test]
fn keys_lie_where_the_java_client_puts_them() {
    let mut noise = 1u64;
    let mut byte = || {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (noise >> 56) as u8
    };
    let mut keys: Vec<Vec<u8>> = (0..=300).flat_map(|length| [length; 3]).map(|length| (0..length).map(|_| byte()).collect()).collect();
    keys.extend(["ä", "日本語", "🦀🦀", "d2c7e1a0-0000-4000-8000-000000000001", "user@example.org"].map(|text| text.as_bytes().to_vec()));
    let dir = tempfile::tempdir().unwrap();
    let (asked, answered) = (dir.path().join("keys"), dir.path().join("answers"));
    let hex = |key: &Vec<u8>| key.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    std::fs::write(&asked, keys.iter().map(|key| hex(key) + "\n").collect::<String>()).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/interop/Murmur2.java");
    let mut program = forebay_services::java::source(&source).unwrap();
    program.args([&asked, &answered]);
    forebay_services::java::run(program).unwrap();
    let counts = [1, 2, 3, 4, 7, 64, 100, 1_024];
    let ours = keys.iter().map(|key| {
        let places = counts.map(|count| partition_of(key, count).to_string()).join(" ");
        format!("{} {places}\n", murmur2(key) as i32)
    });
    assert_eq!(ours.collect::<String>(), std::fs::read_to_string(&answered).unwrap());
}

#[test]
fn a_message_of_the_greatest_size_goes_through() {
    let (_, log) = fresh_at(&Kafka::shared().brokers());
    let largest = Entry { value: Some(Bytes::from(vec![7; limit::MESSAGE_BYTES])), ..Entry::default() };
    log.append(vec![(HARVESTED, largest.clone()), (HARVESTED, entry("beside"))]).unwrap();
    let mut lane = log.lane("job/large").unwrap();
    lane.commit(Transaction { outputs: vec![(TRUSTED, largest.clone())], offsets: vec![(HARVESTED, committed(1, ""))] }).unwrap();
    assert_eq!(read_all(&log, HARVESTED)[0].value, largest.value);
}
