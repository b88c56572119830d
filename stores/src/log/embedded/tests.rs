use super::*;
use crate::log::conformance::{self, Opened, at, committed, entry, read_all, values};
use crate::log::{CommitError, Transaction};
use bytes::Bytes;
use rocksdb::DB;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

struct Form;

struct InFolder {
    dir: tempfile::TempDir,
    log: Option<EmbeddedLog>,
}

impl conformance::Form for Form {
    fn fresh(&self) -> Box<dyn Opened> {
        let dir = tempfile::tempdir().unwrap();
        Box::new(InFolder { log: Some(open(dir.path())), dir })
    }
}

impl Opened for InFolder {
    fn log(&self) -> &dyn Log {
        self.log.as_ref().unwrap()
    }
    fn reopen(&mut self) {
        self.log = None;
        self.log = Some(open(self.dir.path()));
    }
    fn drop_before(&self, at: TopicPartition, offset: i64) {
        self.log.as_ref().unwrap().drop_before(at, offset).unwrap();
    }
}

fn options() -> EmbeddedOptions {
    EmbeddedOptions { partitions: 2, ..EmbeddedOptions::default() }
}
fn open(dir: &Path) -> EmbeddedLog {
    EmbeddedLog::open(dir, options()).unwrap()
}

const HARVESTED: TopicPartition = TopicPartition { topic: Topic::Harvested, partition: 0 };
const TRUSTED: TopicPartition = TopicPartition { topic: Topic::Trusted, partition: 1 };

#[test]
fn conforms() {
    conformance::suite(&Form);
}

#[test]
fn append_times_never_go_back() {
    let dir = tempfile::tempdir().unwrap();
    let now = Arc::new(AtomicI64::new(0));
    let clock: Clock = Arc::new({
        let now = Arc::clone(&now);
        move || Micros(now.load(Ordering::Relaxed))
    });
    let mut expected = Vec::new();
    for (clock_reads, stamped) in [(100, 100), (90, 100), (101, 101), (-5, 101), (101, 101), (500, 500), (1, 500)] {
        // A restart each time: the last record tells.
        let log = EmbeddedLog::open(dir.path(), EmbeddedOptions { clock: Arc::clone(&clock), ..options() }).unwrap();
        now.store(clock_reads, Ordering::Relaxed);
        log.append(vec![(HARVESTED, entry("a")), (HARVESTED, entry("b"))]).unwrap();
        expected.extend([Micros(stamped); 2]);
        let stamps: Vec<Micros> = read_all(&log, HARVESTED).iter().map(|record| record.timestamp).collect();
        assert_eq!(stamps, expected);
    }
}

#[test]
fn retention_drops_by_time_and_bytes_but_nothing_that_is_needed() {
    let second = 1_000_000;
    let kept = TopicOptions { retention: Duration::from_secs(10), bytes_max: None };
    let by_bytes = TopicOptions { retention: Duration::from_secs(1_000), bytes_max: Some(2 * 300) };
    let cases = [
        // (now, kept by, offset that a consumer needs, start after)
        (0, kept, None, 0),
        (10, kept, None, 0),
        (14, kept, None, 4),
        (14, kept, Some(0), 0),
        (14, kept, Some(3), 3),
        (14, kept, Some(9), 4),
        (1_000, kept, None, 20),
        (1_000, kept, Some(12), 12),
        (14, by_bytes, None, 17),
        (14, by_bytes, Some(5), 5),
        (1_010, by_bytes, None, 17),
        (i64::MAX / second, kept, None, 20),
        (i64::MIN / second, by_bytes, None, 17),
    ];
    for (nth, (now, kept, needed, start)) in cases.into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(AtomicI64::new(0));
        let topics = Topic::ALL.map(|topic| if topic == Topic::Harvested { kept } else { options().topics[0] });
        let read_clock: Clock = Arc::new({
            let clock = Arc::clone(&clock);
            move || Micros(clock.load(Ordering::Relaxed))
        });
        let log = EmbeddedLog::open(dir.path(), EmbeddedOptions { topics, clock: read_clock, ..options() }).unwrap();
        for at_second in 0..20 {
            clock.store(at_second * second, Ordering::Relaxed);
            let entry = Entry { value: Some(Bytes::from(vec![1; 100])), ..Entry::default() };
            log.append(vec![(HARVESTED, entry), (TRUSTED, super::Entry::default())]).unwrap();
        }
        let dropped = log.retain(Micros(now.saturating_mul(second)), &|at| needed.filter(|_| at == HARVESTED)).unwrap();
        let bounds = log.bounds(HARVESTED).unwrap();
        assert_eq!((bounds.start, bounds.end), (start, 20), "case {nth}");
        let trusted = log.bounds(TRUSTED).unwrap().start;
        assert_eq!(dropped, (start + trusted) as u64, "case {nth}");
        assert_eq!(read_all(&log, HARVESTED).len() as i64, 20 - start);
        assert_eq!(log.retain(Micros(now.saturating_mul(second)), &|_| needed).unwrap(), 0, "nothing is dropped twice");
    }
}

/// Dropped ranges give their disk space back.
#[test]
fn what_is_dropped_leaves_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let log = EmbeddedLog::open(dir.path(), EmbeddedOptions { memtable_bytes: 1 << 20, ..options() }).unwrap();
    let mut noise = 1u64;
    let mut value = || {
        let bytes = (0..1_000).map(|_| {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (noise >> 56) as u8
        });
        Some(Bytes::from_iter(bytes))
    };
    for _ in 0..60 {
        log.append((0..1_000).map(|_| (HARVESTED, Entry { value: value(), ..Entry::default() })).collect()).unwrap();
        let end = log.bounds(HARVESTED).unwrap().end;
        log.drop_before(HARVESTED, (end - 2_000).max(0)).unwrap();
    }
    let on_disk = || {
        let files = std::fs::read_dir(dir.path()).unwrap().filter_map(|file| file.unwrap().metadata().ok());
        files.map(|meta| meta.len()).sum::<u64>()
    };
    // Compaction comes after; how far behind it is depends on the machine.
    let until = Instant::now() + Duration::from_secs(60);
    while on_disk() > 20 << 20 {
        assert!(Instant::now() < until, "60 MB went through a log that keeps 2 MB, and {} MiB stay on disk", on_disk() >> 20);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Names, sizes, times and bytes of all files.
fn snapshot(dir: &Path) -> BTreeMap<PathBuf, (std::time::SystemTime, Vec<u8>)> {
    let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    files.map(|path| (path.clone(), (path.metadata().unwrap().modified().unwrap(), std::fs::read(&path).unwrap()))).collect()
}

#[test]
fn a_stopped_folder_is_read_and_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    assert!(EmbeddedLog::open_read_only(&dir.path().join("none")).is_err());
    assert!(!dir.path().join("none").exists());
    {
        let log = open(dir.path());
        log.append((0..5_000).map(|nth| (HARVESTED, entry(&nth.to_string()))).collect()).unwrap();
        log.drop_before(HARVESTED, 4_998).unwrap();
        let transaction = Transaction { outputs: vec![(TRUSTED, entry("x"))], offsets: vec![(HARVESTED, committed(7, "seq=1"))] };
        log.lane("job/0").unwrap().commit(transaction).unwrap();
    }
    let before = snapshot(dir.path());
    {
        let log = EmbeddedLog::open_read_only(dir.path()).unwrap();
        assert_eq!(log.partitions(Topic::Harvested), 2, "as it was made, whatever is configured now");
        assert_eq!(values(&read_all(&log, HARVESTED)), ["4998", "4999"]);
        assert_eq!(values(&read_all(&log, TRUSTED)), ["x"]);
        assert_eq!(log.committed("job/0", HARVESTED).unwrap(), Some(committed(7, "seq=1")));
        assert!(log.append(vec![(HARVESTED, entry("no"))]).is_err());
        assert!(log.lane("job/0").is_err());
        assert!(log.retain(Micros(i64::MAX), &|_| None).is_err());
    }
    assert_eq!(snapshot(dir.path()), before);
    assert_eq!(values(&read_all(&open(dir.path()), HARVESTED)), ["4998", "4999"]);
}

#[test]
fn folders_that_are_not_ours_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let twice = EmbeddedLog::open(dir.path(), options()).map(|_| ());
    assert!(matches!(&twice, Err(LogError::Io(text)) if text.contains("lock")), "{twice:?}");
    drop(log);
    let before = DB::list_cf(&rocksdb::Options::default(), dir.path()).unwrap();
    let more = EmbeddedLog::open(dir.path(), EmbeddedOptions { partitions: 3, ..options() }).map(|_| ());
    assert!(matches!(&more, Err(LogError::Io(text)) if text.contains("log.partitions = 2")), "{more:?}");
    assert_eq!(DB::list_cf(&rocksdb::Options::default(), dir.path()).unwrap(), before, "refused, not changed");
    open(dir.path())
        .shared
        .write(&[], |db, batch| {
            batch.put_cf(folder::family(db, folder::META)?, meta::FORMAT_KEY, 9u32.to_be_bytes());
            Ok(())
        })
        .map_err(|_| ())
        .unwrap();
    for newer in [EmbeddedLog::open(dir.path(), options()).map(|_| ()), EmbeddedLog::open_read_only(dir.path()).map(|_| ())] {
        assert!(matches!(&newer, Err(LogError::Io(text)) if text.contains("format 9")), "{newer:?}");
    }
}

#[test]
fn a_missing_record_is_an_error_and_never_a_jump() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    log.append((0..6).map(|nth| (HARVESTED, entry(&nth.to_string()))).collect()).unwrap();
    let delete = |log: &EmbeddedLog, offset| {
        let written = log.shared.write(&[], |db, batch| {
            batch.delete_cf(folder::family(db, &folder::family_name(HARVESTED))?, record::offset_key(offset));
            Ok(())
        });
        assert!(written.is_ok());
    };
    delete(&log, 3);
    let mut reader = log.reader(HARVESTED, 0).unwrap();
    let read = reader.read(1 << 20, 100);
    assert!(matches!(&read, Err(LogError::Io(text)) if text.contains("record 3 of harvested-0")), "{read:?}");
    assert_eq!(values(&reader.read(1 << 20, 3).unwrap()), ["0", "1", "2"]);
    delete(&log, 5);
    assert!(log.reader(HARVESTED, 4).unwrap().read(1 << 20, 100).is_err(), "the last one");
    drop((log, reader));
    let log = open(dir.path());
    log.append(vec![(HARVESTED, entry("5 again"))]).unwrap();
    delete(&log, 0);
    drop(log);
    assert!(EmbeddedLog::open(dir.path(), options()).is_err(), "the first one");
}

/// Runs one test of this binary again, as a process of its own, below `shell`.
fn child(test: &str, env: &str, dir: &Path, shell: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{shell} exec \"$0\" --exact log::embedded::tests::{test} --nocapture")]);
    command.arg(std::env::current_exe().unwrap()).env(env, dir);
    command
}

/// Threads that append and commit, and say on stdout what was answered `Ok`, until the process is killed.
fn append_and_commit_for_ever(dir: &Path) {
    let log = open(dir);
    let say = |line: String| std::io::stdout().write_all(line.as_bytes()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let log = &log;
            scope.spawn(move || {
                for nth in 0.. {
                    log.append((0..3).map(|part| (HARVESTED, entry(&format!("{thread} {nth} {part}")))).collect()).unwrap();
                    say(format!("\nappended {thread} {nth}\n"));
                }
            });
        }
        let mut lane = log.lane("job/0").unwrap();
        let first = lane.committed(HARVESTED).unwrap().map_or(0, |committed| committed.offset) + 1;
        for nth in first.. {
            let outputs = (0..20).map(|part| (at(Topic::ALL[1 + part % 3], (part % 2) as i32), entry(&nth.to_string())));
            let offsets = vec![(HARVESTED, committed(nth, &format!("seq={nth}")))];
            lane.commit(Transaction { outputs: outputs.collect(), offsets }).unwrap();
            say(format!("\ncommitted {nth}\n"));
        }
    });
}

#[test]
fn what_was_answered_ok_survives_a_kill() {
    const CHILD: &str = "FOREBAY_TEST_KILLED_LOG";
    if let Ok(dir) = std::env::var(CHILD) {
        return append_and_commit_for_ever(Path::new(&dir));
    }
    let dir = tempfile::tempdir().unwrap();
    let (mut appended, mut committed) = (0, 0);
    for kill_after in [1, 40, 150] {
        let mut process = child("what_was_answered_ok_survives_a_kill", CHILD, dir.path(), "").stdout(Stdio::piped()).spawn().unwrap();
        let (mut acked, mut lines) = ([-1i64; 2], 0);
        for line in BufReader::new(process.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["appended", thread, nth] => acked[thread.parse::<usize>().unwrap()] = nth.parse().unwrap(),
                ["committed", nth] => committed = nth.parse().unwrap(),
                _ => continue,
            }
            lines += 1;
            if lines == kill_after {
                process.kill().unwrap();
            }
        }
        process.wait().unwrap();
        assert!(lines >= kill_after, "the child ended by itself");
        let log = open(dir.path());
        let records = values(&read_all(&log, HARVESTED)[appended..]);
        appended += records.len();
        for (thread, acked) in acked.into_iter().enumerate() {
            let own: Vec<&String> = records.iter().filter(|record| record.starts_with(&thread.to_string())).collect();
            let expected: Vec<String> = (0..own.len()).map(|nth| format!("{thread} {} {}", nth / 3, nth % 3)).collect();
            assert!(own.into_iter().eq(&expected), "whole appends, in order");
            assert!(expected.len() as i64 >= (acked + 1) * 3, "an acknowledged append is lost");
        }
        let seq = log.committed("job/0", HARVESTED).unwrap().map_or(0, |committed| committed.offset);
        assert!(seq >= committed, "an acknowledged commit is lost");
        for (nth, topic) in Topic::ALL.into_iter().enumerate().skip(1) {
            let outputs: Vec<String> = (0..2).flat_map(|partition| values(&read_all(&log, at(topic, partition)))).collect();
            let each = (0..20).filter(|part| 1 + part % 3 == nth).count() as i64;
            assert_eq!(outputs.len() as i64, seq * each, "outputs without their offset, or an offset without its outputs");
        }
    }
}

#[test]
fn a_commit_is_there_from_its_one_write_on() {
    const CHILD: &str = "FOREBAY_TEST_FAILPOINT_LOG";
    if let Ok(dir) = std::env::var(CHILD) {
        return append_and_commit_for_ever(Path::new(&dir));
    }
    for (failpoint, seq) in [("log.before_commit:3", 2), ("log.after_commit:3", 3)] {
        let dir = tempfile::tempdir().unwrap();
        let mut killed = child("a_commit_is_there_from_its_one_write_on", CHILD, dir.path(), "");
        assert!(!killed.env("FOREBAY_FAILPOINT", failpoint).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success());
        let log = open(dir.path());
        assert_eq!(log.committed("job/0", HARVESTED).unwrap(), Some(committed(seq, &format!("seq={seq}"))), "{failpoint}");
        assert_eq!(read_all(&log, TRUSTED).len() as i64, seq * 3, "{failpoint}");
    }
}

/// The shell bounds the size of files, as a full disk would: RocksDB's WAL cannot grow.
#[test]
fn after_a_failed_write_the_wal_tells_what_was_written() {
    const CHILD: &str = "FOREBAY_TEST_FULL_LOG";
    if let Ok(dir) = std::env::var(CHILD) {
        return fill_and_free(Path::new(&dir));
    }
    let dir = tempfile::tempdir().unwrap();
    // Its words by a pipe: where this test's own go may be a file that is longer already.
    let output =
        child("after_a_failed_write_the_wal_tells_what_was_written", CHILD, dir.path(), "trap '' XFSZ; ulimit -S -f 2000;").output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
}

fn fill_and_free(dir: &Path) {
    let log = open(dir);
    let mut lane = log.lane("job/0").unwrap();
    let transaction = |nth: i64| Transaction {
        outputs: (0..10).map(|_| (TRUSTED, Entry { value: Some(Bytes::from(vec![nth as u8; 1_000])), ..Entry::default() })).collect(),
        offsets: vec![(HARVESTED, committed(nth, ""))],
    };
    let mut done = 0;
    let failed = loop {
        match lane.commit(transaction(done + 1)) {
            Ok(()) => done += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(failed, CommitError::Unknown(_)), "{failed}");
    // Reading goes on; writing does not until the folder could be opened again.
    let mut reader = log.reader(TRUSTED, 0).unwrap();
    assert_eq!(read_all(&log, TRUSTED).len() as i64, done * 10);
    rustix::process::setrlimit(rustix::process::Resource::Fsize, rustix::process::Rlimit { current: None, maximum: None }).unwrap();
    drop(lane);
    let mut lane = loop {
        match log.lane("job/0") {
            Ok(lane) => break lane,
            Err(LogError::Io(_)) => log.wait_past(&[(HARVESTED, i64::MAX)], Duration::from_millis(50)),
            Err(other) => panic!("{other}"),
        }
    };
    let known = lane.committed(HARVESTED).unwrap().map_or(0, |committed| committed.offset);
    assert!((done..=done + 1).contains(&known), "{known} after {done}");
    assert_eq!(log.bounds(TRUSTED).unwrap().end, known * 10);
    lane.commit(transaction(known + 1)).unwrap();
    while reader.position() < (known + 1) * 10 {
        assert!(!reader.read(1 << 20, 1_000).unwrap().is_empty(), "a reader from before goes on");
    }
    drop((lane, reader, log));
    assert_eq!(open(dir).bounds(TRUSTED).unwrap().end, (known + 1) * 10);
}
