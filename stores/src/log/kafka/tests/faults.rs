//! Brokers that are killed, stopped and cut off, and other holders of a lane.

use super::*;
use crate::log::{CommitError, Transaction};
use forebay_services::KafkaSpec;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::time::Instant;

/// One broker for these tests, one of them at a time.
fn faulty() -> MutexGuard<'static, Kafka> {
    static FAULTY: LazyLock<Mutex<Kafka>> = LazyLock::new(|| Mutex::new(Kafka::start(KafkaSpec::default()).unwrap()));
    FAULTY.lock()
}

/// Made at the broker itself; for a log that goes by its proxy.
fn proxied(kafka: &Kafka, partitions: i32) -> (KafkaOptions, KafkaOptions) {
    let direct = options_at(&kafka.brokers(), partitions, "");
    topics::apply(&direct, false).unwrap();
    let proxied = KafkaOptions { brokers: vec![kafka.proxied()], ..direct.clone() };
    (direct, proxied)
}

/// Polls until it is so.
fn wait_for(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Everything acknowledged is there, in the order of its thread; twice only what was sent again after an error.
#[test]
fn what_was_acknowledged_survives_the_broker() {
    let kafka = faulty();
    let options = options_at(&kafka.brokers(), 2, "");
    topics::apply(&options, false).unwrap();
    let log = KafkaLog::connect(options).unwrap();
    let (stop, acked) = (AtomicBool::new(false), [AtomicI64::new(0), AtomicI64::new(0)]);
    let failed: Vec<Vec<i64>> = std::thread::scope(|scope| {
        let stops = Stops(&stop);
        let threads: Vec<_> = (0..2)
            .map(|thread| {
                let (log, stop, acked) = (&log, &stop, &acked[thread]);
                scope.spawn(move || {
                    let (mut nth, mut failed) = (0, Vec::new());
                    while !stop.load(Ordering::Relaxed) {
                        let entries = (0..4).map(|part| (at(Topic::Harvested, part % 2), entry(&format!("{thread} {nth:06} {part}"))));
                        match log.append(entries.collect()) {
                            Ok(()) => {
                                nth += 1;
                                acked.store(nth, Ordering::Relaxed);
                            }
                            Err(LogError::Io(_)) => failed.push(nth),
                            Err(other) => panic!("{other}"),
                        }
                    }
                    failed
                })
            })
            .collect();
        let progress = |what: &str| {
            let before = [0, 1].map(|thread: usize| acked[thread].load(Ordering::Relaxed));
            wait_for(what, || (0..2).all(|thread| acked[thread].load(Ordering::Relaxed) > before[thread] + 50));
        };
        progress("a broker that is well");
        for _ in 0..2 {
            kafka.kill(1).unwrap();
            kafka.restart(1).unwrap();
            progress("after a kill");
        }
        kafka.pause(1).unwrap();
        std::thread::sleep(Duration::from_secs(3));
        kafka.resume(1).unwrap();
        progress("after a stop");
        drop(stops);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for partition in 0..2 {
        let read = values(&read_all(&log, at(Topic::Harvested, partition)));
        for (thread, failed) in failed.iter().enumerate() {
            let mut times: BTreeMap<&str, usize> = BTreeMap::new();
            let mut first = Vec::new();
            for value in read.iter().filter(|value| value.starts_with(&thread.to_string())) {
                let seen = times.entry(value).or_default();
                *seen += 1;
                if *seen == 1 {
                    first.push(value);
                }
            }
            assert!(first.is_sorted(), "thread {thread} in partition {partition}");
            for nth in 0..acked[thread].load(Ordering::Relaxed) {
                for part in [partition, partition + 2] {
                    let seen = times.get(&*format!("{thread} {nth:06} {part}")).copied().unwrap_or(0);
                    let sent_again = failed.iter().filter(|failed| **failed == nth).count();
                    assert!((1..=1 + sent_again).contains(&seen), "append {nth} of thread {thread} is there {seen} times");
                }
            }
        }
    }
}

#[test]
fn what_was_given_up_is_not_sent_later() {
    let kafka = faulty();
    let (_, through) = proxied(&kafka, 2);
    let patience = Patience { append: Duration::from_secs(2), ..Patience::default() };
    let log = KafkaLog::connect(KafkaOptions { patience, ..through }).unwrap();
    log.append(vec![(HARVESTED, entry("first"))]).unwrap();
    kafka.cut(1).unwrap();
    let given_up = (0..3).map(|_| (HARVESTED, entry("given up"))).collect();
    assert!(matches!(log.append(given_up), Err(LogError::Io(_))));
    kafka.heal(1).unwrap();
    wait_for("brokers are found again", || log.append(vec![(HARVESTED, entry("after"))]).is_ok());
    let mut reader = log.reader(HARVESTED, 0).unwrap();
    let mut read = Vec::new();
    // Time enough for a producer that would try again.
    for _ in 0..30 {
        read.extend(values(&reader.read(1 << 20, 100).unwrap()));
        log.wait_past(&[(HARVESTED, reader.position())], Duration::from_millis(100));
    }
    assert_eq!(read.first().map(String::as_str), Some("first"));
    assert!(read.len() > 1 && read[1..].iter().all(|value| value == "after"), "{read:?}");
}

#[test]
fn a_reader_tells_that_no_broker_answers_and_goes_on_by_itself() {
    let kafka = faulty();
    let (direct, through) = proxied(&kafka, 2);
    let (near, far) = (&KafkaLog::connect(direct).unwrap(), &KafkaLog::connect(through).unwrap());
    near.append(vec![(HARVESTED, entry("before"))]).unwrap();
    let mut reader = far.reader(HARVESTED, 0).unwrap();
    assert_eq!(values(&reader.read_to(1, 1 << 20, 10).unwrap()), ["before"]);
    kafka.cut(1).unwrap();
    wait_for("the reader says so", || match reader.read(1 << 20, 10) {
        Ok(records) => {
            assert_eq!(records, []);
            false
        }
        Err(LogError::Io(text)) => text.contains("no answer"),
        Err(other) => panic!("{other}"),
    });
    near.append(vec![(HARVESTED, entry("meanwhile"))]).unwrap();
    kafka.heal(1).unwrap();
    let mut read = Vec::new();
    wait_for("the reader goes on", || {
        match reader.read(1 << 20, 10) {
            Ok(records) => read.extend(records),
            Err(LogError::Io(_)) => {}
            Err(other) => panic!("{other}"),
        }
        !read.is_empty()
    });
    assert_eq!(values(&read), ["meanwhile"]);
    // Waiting is as it was: woken by what comes, and asleep until then.
    far.wait_past(&[(HARVESTED, reader.position())], Duration::from_millis(1));
    std::thread::scope(|scope| {
        let position = reader.position();
        let waits = scope.spawn(move || far.wait_past(&[(HARVESTED, position)], Duration::from_secs(600)));
        near.append(vec![(HARVESTED, entry("after"))]).unwrap();
        waits.join().unwrap();
    });
    assert_eq!(values(&reader.read_to(3, 1 << 20, 10).unwrap()), ["after"]);
}

const CHILD: &str = "FOREBAY_TEST_KAFKA_LANE";

/// A process that commits 1, 2, 3 … as lane `job/0` and says on stdout how each ended. What is unknown is settled by opening
/// the lane anew.
fn commit_for_ever(text: &str) -> ! {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(120));
        std::process::abort();
    });
    let words: Vec<&str> = text.split(' ').collect();
    let mut options = options_at(words[0], 2, "");
    for (topic, name) in options.topics.iter_mut().zip(&words[1..]) {
        topic.name = (*name).to_owned();
    }
    let seconds = Duration::from_secs;
    options.patience = Patience { commit: seconds(3), transaction: seconds(5), ..Patience::default() };
    let log = KafkaLog::connect(options).unwrap();
    let say = |line: String| std::io::stdout().write_all(format!("\n{line}\n").as_bytes()).unwrap();
    let mut lane = log.lane("job/0").unwrap();
    let mut done = lane.committed(HARVESTED).unwrap().map_or(0, |committed| committed.offset);
    loop {
        let next = done + 1;
        let outputs = (0..4).map(|part| (at(Topic::Trusted, part % 2), entry(&next.to_string()))).collect();
        let offsets = vec![(HARVESTED, committed(next, &format!("seq={next}")))];
        match lane.commit(Transaction { outputs, offsets }) {
            Ok(()) => {
                done = next;
                say(format!("committed {next}"));
            }
            Err(CommitError::Fenced(_)) => {
                assert!(matches!(lane.committed(HARVESTED), Err(LogError::Fenced(_))));
                say("fenced".to_owned());
                std::process::abort();
            }
            Err(CommitError::Unknown(_)) => {
                say(format!("unknown {next}"));
                lane = loop {
                    match log.lane("job/0") {
                        Ok(lane) => break lane,
                        Err(LogError::Io(_)) => {}
                        Err(other) => panic!("{other}"),
                    }
                };
                done = lane.committed(HARVESTED).unwrap().map_or(0, |committed| committed.offset);
                say(format!("settled {done}"));
            }
            Err(other) => panic!("{other}"),
        }
    }
}

struct Other {
    child: Child,
    out: Lines<BufReader<ChildStdout>>,
    err: Lines<BufReader<ChildStderr>>,
}

impl Other {
    fn start(test: &str, options: &KafkaOptions, failpoint: &str) -> Other {
        let names: Vec<&str> = options.topics.iter().map(|topic| &*topic.name).collect();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &format!("log::kafka::tests::faults::{test}"), "--nocapture"]);
        command.env(CHILD, format!("{} {}", options.brokers.join(","), names.join(" "))).env("FOREBAY_FAILPOINT", failpoint);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap()).lines();
        let err = BufReader::new(child.stderr.take().unwrap()).lines();
        Other { child, out, err }
    }

    /// The next line that begins so, and the number in it.
    fn says(&mut self, beginning: &str) -> i64 {
        let line = self.out.by_ref().map(|line| line.unwrap()).find(|line| line.starts_with(beginning));
        let line = line.unwrap_or_else(|| {
            let said: Vec<String> = self.err.by_ref().map_while(Result::ok).collect();
            panic!("it ended before it said {beginning}: {}", said.join("\n"))
        });
        line.split(' ').nth(1).map_or(0, |number| number.parse().unwrap())
    }

    /// It stands at its failpoint.
    fn holds(&mut self) {
        let held = self.err.by_ref().map(|line| line.unwrap()).any(|line| line.starts_with("failpoint"));
        assert!(held, "it ended before its failpoint");
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal).unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

const PLACES: [TopicPartition; 2] =
    [TopicPartition { topic: Topic::Trusted, partition: 0 }, TopicPartition { topic: Topic::Trusted, partition: 1 }];

/// Reads trusted beside the lane: what is seen is of a commit whose offset is committed.
fn watch(log: &KafkaLog, stop: &AtomicBool) {
    let mut readers = PLACES.map(|place| log.reader(place, 0).unwrap());
    while !stop.load(Ordering::Relaxed) {
        for reader in &mut readers {
            for value in values(&reader.read(1 << 20, 1_000).unwrap()) {
                let told = log.committed("job/0", HARVESTED).unwrap().map_or(0, |committed| committed.offset);
                assert!(told >= value.parse().unwrap(), "an output of commit {value} was seen when {told} was committed");
            }
        }
        let positions = [0, 1].map(|nth: usize| (PLACES[nth], readers[nth].position()));
        log.wait_past(&positions, Duration::from_millis(50));
    }
}

/// Every commit up to the last is there once and whole.
fn check_whole(log: &KafkaLog, last: i64) {
    for place in PLACES {
        let expected: Vec<String> = (1..=last).flat_map(|seq| [seq, seq]).map(|seq| seq.to_string()).collect();
        let mut reader = log.reader(place, 0).unwrap();
        let mut read = Vec::new();
        wait_for("outputs of the last commit", || {
            read.extend(values(&reader.read(1 << 20, 10_000).unwrap()));
            read.len() >= expected.len()
        });
        assert_eq!(read, expected);
    }
}

/// Also when a check has failed.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

enum Fault {
    Cut,
    /// What is asked arrives, what is answered does not.
    AnswersLost,
}

#[test]
fn a_commit_that_is_cut_off_is_settled_by_what_the_log_holds() {
    if let Ok(text) = std::env::var(CHILD) {
        commit_for_ever(&text);
    }
    let kafka = faulty();
    for (point, fault, is_committed) in [
        ("lane.before_produce", Fault::Cut, false),
        ("lane.after_produce", Fault::Cut, false),
        ("lane.after_produce", Fault::AnswersLost, false),
        ("lane.after_offsets", Fault::Cut, false),
        ("lane.after_offsets", Fault::AnswersLost, true),
        ("lane.after_commit", Fault::Cut, false),
    ] {
        let (direct, through) = proxied(&kafka, 2);
        let (log, stop) = (KafkaLog::connect(direct).unwrap(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let watched = scope.spawn(|| watch(&log, &stop));
            let stops = Stops(&stop);
            let test = "a_commit_that_is_cut_off_is_settled_by_what_the_log_holds";
            let mut other = Other::start(test, &through, &format!("pause:{point}:3:1500"));
            other.holds();
            match fault {
                Fault::Cut => kafka.cut(1).unwrap(),
                Fault::AnswersLost => {
                    let timeout = serde_json::json!({ "timeout": 0 });
                    kafka.toxiproxy().unwrap().toxic(&Kafka::proxy_name(1), "timeout", "downstream", &timeout).unwrap();
                }
            }
            let unknown = other.says("unknown");
            kafka.heal(1).unwrap();
            let settled = other.says("settled");
            assert_eq!(settled, if is_committed { unknown } else { unknown - 1 }, "{point}");
            assert_eq!(other.says("committed"), settled + 1, "it goes on");
            drop(other);
            drop(stops);
            watched.join().unwrap();
        });
        // Whoever opens the lane settles what the process that was killed had begun.
        let last = log.lane("job/0").unwrap().committed(HARVESTED).unwrap().map_or(0, |committed| committed.offset);
        check_whole(&log, last);
    }
}

/// H36: the brokers forget a lane that commits nothing for long.
#[test]
fn a_lane_that_was_forgotten_goes_on() {
    let soon = [("transactional.id.expiration.ms", "1000"), ("transaction.remove.expired.transaction.cleanup.interval.ms", "500")];
    let properties = soon.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let kafka = Kafka::start(KafkaSpec { proxied: false, properties, ..KafkaSpec::default() }).unwrap();
    let (_, log) = fresh_at(&kafka.brokers());
    let commit = |lane: &mut dyn Lane, seq: i64| {
        let outputs = PLACES.iter().flat_map(|place| [(*place, entry(&seq.to_string())), (*place, entry(&seq.to_string()))]).collect();
        lane.commit(Transaction { outputs, offsets: vec![(HARVESTED, committed(seq, ""))] })
    };
    let mut lane = log.lane("job/0").unwrap();
    commit(&mut *lane, 1).unwrap();
    wait_for("it is forgotten", || {
        let known = kafka.tool("org.apache.kafka.tools.TransactionsCommand", &["list"]).unwrap();
        !known.contains("job/0")
    });
    match commit(&mut *lane, 2) {
        Ok(()) => {}
        Err(CommitError::Unknown(_) | CommitError::Aborted(_)) => {
            lane = log.lane("job/0").unwrap();
            assert_eq!(lane.committed(HARVESTED).unwrap(), Some(committed(1, "")));
            commit(&mut *lane, 2).unwrap();
        }
        Err(other) => panic!("{other}"),
    }
    check_whole(&log, 2);
}

/// Nobody opens its lane: readers are held up for as long as a transaction may take, and no longer.
#[test]
fn h20_a_transaction_that_a_killed_process_left_ends_by_its_own_time() {
    if let Ok(text) = std::env::var(CHILD) {
        commit_for_ever(&text);
    }
    let kafka = faulty();
    let (direct, _) = proxied(&kafka, 2);
    let test = "h20_a_transaction_that_a_killed_process_left_ends_by_its_own_time";
    let mut other = Other::start(test, &direct, "pause:lane.after_produce:2:60000");
    other.holds();
    drop(other);
    let log = KafkaLog::connect(direct).unwrap();
    log.append(vec![(PLACES[0], entry("behind it"))]).unwrap();
    let mut reader = log.reader(PLACES[0], 0).unwrap();
    let mut read = Vec::new();
    wait_for("what stands behind the transaction", || {
        read.extend(values(&reader.read(1 << 20, 100).unwrap()));
        read.last().is_some_and(|value| value == "behind it")
    });
    assert_eq!(read, ["1", "1", "behind it"], "nothing of the transaction is seen");
}

#[test]
fn a_zombie_is_fenced_by_its_successor() {
    if let Ok(text) = std::env::var(CHILD) {
        commit_for_ever(&text);
    }
    let kafka = faulty();
    let (direct, _) = proxied(&kafka, 2);
    let mut zombie = Other::start("a_zombie_is_fenced_by_its_successor", &direct, "");
    zombie.says("committed");
    zombie.signal(rustix::process::Signal::STOP);
    let log = KafkaLog::connect(direct).unwrap();
    let mut lane = log.lane("job/0").unwrap();
    let stood = lane.committed(HARVESTED).unwrap().map_or(0, |committed| committed.offset);
    let mut commit = |seq: i64| {
        let outputs = (0..4).map(|part| (PLACES[part % 2], entry(&seq.to_string()))).collect();
        lane.commit(Transaction { outputs, offsets: vec![(HARVESTED, committed(seq, ""))] }).unwrap();
    };
    commit(stood + 1);
    zombie.signal(rustix::process::Signal::CONT);
    zombie.says("fenced");
    commit(stood + 2);
    check_whole(&log, stood + 2);
}

/// A broker that stood still is fenced until its next heartbeat, and tells of no broker meanwhile, itself included. Upon
/// that librdkafka may forget the last broker it has and look for none (its issue 5301).
#[test]
fn brokers_that_told_of_none_are_found_again() {
    let properties = vec![("broker.heartbeat.interval.ms".to_owned(), "1900".to_owned())];
    let kafka = Kafka::start(KafkaSpec { proxied: false, properties, ..KafkaSpec::default() }).unwrap();
    let (_, log) = fresh_at(&kafka.brokers());
    let mut reader = log.reader(HARVESTED, 0).unwrap();
    let mut lane = log.lane("job/0").unwrap();
    let answered = |what: &str, mut ask: Box<dyn FnMut() -> Result<(), LogError> + '_>| {
        wait_for(what, || match ask() {
            Ok(()) => true,
            Err(LogError::Io(_)) => false,
            Err(other) => panic!("{other}"),
        });
    };
    for nth in 1..=4 {
        kafka.pause(1).unwrap();
        std::thread::sleep(Duration::from_secs(3));
        kafka.resume(1).unwrap();
        answered("the lane's offsets", Box::new(|| lane.committed(HARVESTED).map(|_| ())));
        answered("the bounds", Box::new(|| log.bounds(HARVESTED).map(|_| ())));
        answered("an append", Box::new(|| log.append(vec![(HARVESTED, entry(&nth.to_string()))])));
        let mut read = Vec::new();
        answered(
            "a read",
            Box::new(|| {
                read.extend(values(&reader.read(1 << 20, 10)?));
                if read.contains(&nth.to_string()) { Ok(()) } else { Err(LogError::Io("nothing yet".to_owned())) }
            }),
        );
    }
}
