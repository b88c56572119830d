use super::dir::{Newest, SpoolDir};
use super::intake::{Intake, Taken, Ticket, Waiting};
use super::shared::{Next, Shared, Trouble};
use super::shelf::Landing;
use super::writer::{Rules, Writer};
use crate::budget::Budget;
use crate::metrics::Metrics;
use crate::testing::{Disk, DiskFault};
use bytes::Bytes;
use forebay_gateway_core::segment::{LedgerRecord, SegmentName};
use forebay_schemas::dialect::Dialect;
use forebay_schemas::id::RequestId;
use forebay_schemas::ocf::Codec;
use forebay_schemas::time::Micros;
use forebay_schemas::wire::raw_request::RawRequest;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn raw(body: &str) -> RawRequest {
    RawRequest {
        request_id: RequestId(uuid::Uuid::nil()),
        received_at: Micros(0),
        gateway: "g1".to_owned(),
        source: "default".to_owned(),
        peer: "127.0.0.1".to_owned(),
        client_ip: None,
        method: "POST".to_owned(),
        target: "/v1/events".to_owned(),
        headers: Vec::new(),
        body: Bytes::copy_from_slice(body.as_bytes()),
        dialect: Dialect::Native,
        events: Vec::new(),
    }
}

/// A spool without threads: the test is the clock.
struct Rig {
    dir: Arc<SpoolDir>,
    intake: Arc<Intake>,
    shared: Arc<Shared>,
    writer: Writer,
    disk: Disk,
    budget: Arc<Budget>,
}

impl Rig {
    fn open(path: &Path) -> Rig {
        let disk = Disk::new();
        let dir = Arc::new(SpoolDir::open(path, Arc::new(disk.clone())).expect("opens"));
        let found = dir.repair().expect("repairs");
        let metrics = Metrics::new(&prometheus::Registry::new()).expect("metrics");
        let at = found.newest.map_or(Micros(0), |newest| newest.received_at);
        let intake = Arc::new(Intake::new(found.newest.map(|newest| newest.request_id), at, 100));
        let shared = Arc::new(Shared::new(found.segments, u64::MAX, 1 << 20));
        let writer = Writer {
            dir: dir.clone(),
            intake: intake.clone(),
            shared: shared.clone(),
            gateway: "g1".to_owned(),
            rules: Rules { segment_bytes: 1 << 20, segment_age: Duration::from_secs(3_600), codec: Codec::Zstandard },
            errors: metrics.spool_errors,
            open: None,
            records: Vec::new(),
            probe_due: Instant::now(),
        };
        Rig { dir, intake, shared, writer, disk, budget: Budget::new(1 << 20) }
    }

    fn enqueue(&self, body: &str) -> Ticket {
        self.intake.enqueue(raw(body), Bytes::new(), self.budget.open()).expect("room")
    }

    fn batch(&self) -> Vec<Waiting> {
        match self.intake.take(1 << 20, Duration::ZERO) {
            Taken::Batch(batch) => batch,
            Taken::Nothing | Taken::Closed => Vec::new(),
        }
    }

    /// Enqueues, commits, and tells whether each was acknowledged.
    fn commit(&mut self, bodies: &[&str]) -> Vec<bool> {
        let tickets: Vec<Ticket> = bodies.iter().map(|body| self.enqueue(body)).collect();
        let batch = self.batch();
        self.writer.commit(batch);
        tickets.into_iter().map(|mut ticket| ticket.durable.try_recv().expect("answered").is_ok()).collect()
    }
}

fn segments(path: &Path) -> Vec<SegmentName> {
    let mut names = super::dir::names(path).expect("lists");
    names.sort_by_key(|name| name.first);
    names
}

fn bodies(path: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for name in segments(path) {
        let mut reader = super::reader::SegmentReader::open(&path.join(name.file()), None).expect("a segment");
        while let Some(block) = reader.next().expect("whole") {
            all.extend(block.requests.iter().map(|raw| String::from_utf8(raw.body.to_vec()).expect("text")));
        }
    }
    all
}

#[test]
fn a_torn_tail_is_cut_and_the_rest_goes_on() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path();
    let mut rig = Rig::open(path);
    assert_eq!(rig.commit(&["a", "b"]), [true, true]);
    assert_eq!(rig.commit(&["c"]), [true]);
    let last = rig.enqueue("lost").request_id;
    drop(rig);
    let name = segments(path).remove(0);
    let file = path.join(name.file());
    assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600);
    let whole = fs::read(&file).expect("reads");
    let mut torn = whole.clone();
    torn.extend_from_slice(&whole[whole.len() - 60..whole.len() - 1]);
    fs::write(&file, &torn).expect("writes");

    let mut rig = Rig::open(path);
    assert_eq!(fs::read(&file).expect("reads"), whole);
    assert!(rig.shared.to_land(Duration::ZERO).expect("running").is_some(), "sealed after a restart");
    assert_eq!(rig.commit(&["d"]), [true]);
    assert!(rig.intake.id() > last, "ids go on after a restart");
    assert_eq!((bodies(path), segments(path).len()), (vec!["a".into(), "b".into(), "c".into(), "d".into()], 2));
}

#[test]
fn a_crash_at_any_byte_loses_nothing_acknowledged() {
    let folder = tempfile::tempdir().expect("folder");
    let mut rig = Rig::open(folder.path());
    rig.commit(&["a"]);
    let name = segments(folder.path()).remove(0);
    let border = fs::metadata(folder.path().join(name.file())).expect("there").len() as usize;
    rig.commit(&["b", "b2"]);
    drop(rig);
    let whole = fs::read(folder.path().join(name.file())).expect("reads");
    for cut in (border..whole.len()).step_by(7).chain([border, 0, 5]) {
        let folder = tempfile::tempdir().expect("folder");
        fs::write(folder.path().join(name.file()), &whole[..cut]).expect("writes");
        let rig = Rig::open(folder.path());
        let expected = if cut >= border { vec!["a".to_owned()] } else { Vec::new() };
        assert_eq!(bodies(folder.path()), expected, "cut at {cut}");
        assert_eq!(rig.shared.left().0, expected.len());
    }
}

#[test]
fn a_full_disk_acks_nothing_and_the_segment_goes_on() {
    let folder = tempfile::tempdir().expect("folder");
    let mut rig = Rig::open(folder.path());
    rig.disk.set(DiskFault::Full);
    assert_eq!(rig.commit(&["x"]), [false]);
    assert_eq!((rig.shared.trouble(), segments(folder.path())), (Some(Trouble::Full), vec![]));
    rig.disk.set(DiskFault::Works);
    assert_eq!(rig.commit(&["a"]), [true]);
    assert_eq!(rig.shared.trouble(), None);
    rig.disk.set(DiskFault::Full);
    assert_eq!(rig.commit(&["y", "z"]), [false, false]);
    rig.disk.set(DiskFault::Works);
    assert_eq!(rig.commit(&["b"]), [true]);
    assert_eq!((bodies(folder.path()), segments(folder.path()).len()), (vec!["a".into(), "b".into()], 1));
}

#[test]
fn after_a_failed_fsync_a_new_segment_is_begun() {
    for fault in [DiskFault::SyncFails, DiskFault::SyncAndCutFail] {
        let folder = tempfile::tempdir().expect("folder");
        let mut rig = Rig::open(folder.path());
        rig.commit(&["a"]);
        rig.disk.set(fault);
        assert_eq!(rig.commit(&["x"]), [false]);
        assert_eq!(rig.shared.trouble(), Some(Trouble::Failed));
        rig.disk.set(DiskFault::Works);
        assert_eq!(rig.commit(&["b"]), [true]);
        assert_eq!(segments(folder.path()).len(), 2);
        drop(rig);
        drop(Rig::open(folder.path()));
        assert_eq!(bodies(folder.path()), ["a", "b"], "{fault:?}");
    }
}

/// Law A2 where it is made: with either sync gone from the writer, this fails.
#[test]
fn a_power_cut_loses_nothing_acknowledged() {
    let faults = [DiskFault::Works, DiskFault::Works, DiskFault::SyncFails, DiskFault::Full, DiskFault::SyncAndCutFail];
    let folder = tempfile::tempdir().expect("folder");
    let mut rig = Rig::open(folder.path());
    rig.writer.rules.segment_bytes = 2_500;
    let mut acknowledged = Vec::new();
    for n in 0..40 {
        let body = format!("{n} {}", "x".repeat(n * 31 % 500));
        rig.disk.set(faults[n * 7 % 11 % faults.len()]);
        if rig.commit(&[&body]) == [true] {
            acknowledged.push(body);
        }
        for ledgers_survive in [false, true] {
            let left = tempfile::tempdir().expect("folder");
            rig.disk.cut_power(left.path());
            for name in segments(left.path()).iter().filter(|_| ledgers_survive) {
                let _ = fs::copy(folder.path().join(name.ledger_file()), left.path().join(name.ledger_file()));
            }
            drop(Rig::open(left.path()));
            assert_eq!(bodies(left.path()), acknowledged, "after request {n}");
        }
    }
    assert!(acknowledged.len() > 10 && segments(folder.path()).len() > 4, "{} in {:?}", acknowledged.len(), segments(folder.path()));
}

#[test]
fn a_disk_that_failed_is_asked_before_it_is_called_well() {
    let folder = tempfile::tempdir().expect("folder");
    let mut rig = Rig::open(folder.path());
    for (fault, trouble) in [(DiskFault::Full, Trouble::Full), (DiskFault::SyncFails, Trouble::Failed)] {
        rig.disk.set(fault);
        assert_eq!(rig.commit(&["x"]), [false]);
        for _ in 0..3 {
            rig.writer.probe_due = Instant::now();
            rig.writer.probe_when_due();
            assert_eq!(rig.shared.trouble(), Some(trouble));
        }
        rig.disk.set(DiskFault::Works);
        assert_eq!(rig.shared.trouble(), Some(trouble), "nobody has asked it yet");
        rig.writer.probe_due = Instant::now();
        rig.writer.probe_when_due();
        assert_eq!(rig.shared.trouble(), None);
    }
    assert!(fs::read_dir(folder.path()).expect("lists").all(|e| !e.expect("an entry").file_name().to_string_lossy().ends_with("tmp")));
}

#[test]
fn a_spool_on_a_full_disk_opens_and_gives_what_it_holds() {
    let folder = tempfile::tempdir().expect("folder");
    let mut rig = Rig::open(folder.path());
    assert_eq!(rig.commit(&["a"]), [true]);
    drop(rig);
    std::os::unix::fs::symlink("/dev/full", folder.path().join("newest.tmp")).expect("links");
    let rig = Rig::open(folder.path());
    assert!(matches!(rig.shared.to_take(Duration::ZERO), Next::Disk(..)));
    assert!(rig.shared.to_land(Duration::ZERO).expect("running").is_some());
    assert_eq!(bodies(folder.path()), ["a"]);
}

#[test]
fn a_disk_that_does_not_answer_is_told_while_it_lasts() {
    let folder = tempfile::tempdir().expect("folder");
    let rig = Rig::open(folder.path());
    rig.shared.writing(Some(Instant::now()));
    assert_eq!(rig.shared.trouble(), None);
    rig.shared.writing(Instant::now().checked_sub(Duration::from_secs(60)));
    assert_eq!(rig.shared.trouble(), Some(Trouble::Stuck));
    rig.shared.writing(None);
    assert_eq!(rig.shared.trouble(), None);
}

#[test]
fn a_segment_ends_by_size_and_hour() {
    let folder = tempfile::tempdir().expect("folder");
    let mut rig = Rig::open(folder.path());
    rig.writer.rules.segment_bytes = 1;
    rig.commit(&["a"]);
    rig.commit(&["b"]);
    assert_eq!(segments(folder.path()).len(), 2);
    rig.writer.rules.segment_bytes = 1 << 20;

    let hour = 3_600_000_000;
    let next = (crate::clock::now().0 / hour + 1) * hour;
    let later = Arc::new(Intake::new(None, Micros(next - 1), 100));
    later.enqueue(raw("c"), Bytes::new(), rig.budget.open()).expect("room");
    let first = match later.take(1 << 20, Duration::ZERO) {
        Taken::Batch(batch) => batch,
        Taken::Nothing | Taken::Closed => Vec::new(),
    };
    assert_eq!(first[0].kept.raw.received_at, Micros(next - 1));
    rig.writer.commit(first);
    let after = Intake::new(None, Micros(next), 100);
    after.enqueue(raw("d"), Bytes::new(), rig.budget.open()).expect("room");
    if let Taken::Batch(batch) = after.take(1 << 20, Duration::ZERO) {
        rig.writer.commit(batch);
    }
    let hours: Vec<i64> = segments(folder.path()).iter().map(|name| name.hour).collect();
    assert_eq!(hours.last(), Some(&(next / hour)));
    assert!(hours.windows(2).all(|pair| pair[0] <= pair[1]), "{hours:?}");
}

#[test]
fn a_batch_holds_one_hour_and_the_bound() {
    let folder = tempfile::tempdir().expect("folder");
    let rig = Rig::open(folder.path());
    let bodies = ["1234", "1234", "12345678901234567890", "1"];
    let tickets: Vec<Ticket> = bodies.iter().map(|body| rig.enqueue(body)).collect();
    assert!(tickets.windows(2).all(|pair| pair[0].request_id < pair[1].request_id));
    let mut sizes = Vec::new();
    while let Taken::Batch(batch) = rig.intake.take(30, Duration::ZERO) {
        sizes.push(batch.len());
    }
    assert_eq!(sizes, [2, 1, 1]);
}

#[test]
fn the_ledger_is_believed_and_a_finished_segment_goes() {
    let folder = tempfile::tempdir().expect("folder");
    let mut rig = Rig::open(folder.path());
    rig.commit(&["a"]);
    rig.commit(&["b"]);
    drop(rig);
    drop(Rig::open(folder.path()));
    let name = segments(folder.path()).remove(0);
    let length = fs::metadata(folder.path().join(name.file())).expect("there").len();

    let rig = Rig::open(folder.path());
    let first = match rig.shared.to_take(Duration::ZERO) {
        Next::Disk(stretch, _) => stretch.from,
        Next::Memory(..) | Next::Idle | Next::End => panic!("nothing is in memory after a restart"),
    };
    assert_eq!(first, 0, "without a mark everything is published again");
    rig.dir.note(&name, LedgerRecord::Published { through: length }, true).expect("notes");
    rig.dir.note(&name, LedgerRecord::Landed, true).expect("notes");
    drop(rig);

    let rig = Rig::open(folder.path());
    assert!(matches!(rig.shared.to_take(Duration::ZERO), Next::Idle));
    rig.shared.landed(name.first, Landing::Landed);
    rig.shared.reap(&rig.dir);
    assert_eq!((rig.shared.left(), segments(folder.path())), ((0, 0), vec![]));
    assert!(!folder.path().join(name.ledger_file()).exists());
}

#[test]
fn one_process_a_spool_and_one_name() {
    let folder = tempfile::tempdir().expect("folder");
    let first = SpoolDir::open(folder.path(), Arc::new(Disk::new())).expect("opens");
    assert!(SpoolDir::open(folder.path(), Arc::new(Disk::new())).is_err());
    let name = first.gateway(None).expect("named");
    drop(first);
    let again = SpoolDir::open(folder.path(), Arc::new(Disk::new())).expect("opens");
    assert_eq!(again.gateway(None).expect("named"), name);
    assert_eq!(again.gateway(Some("edge-1")).expect("named"), "edge-1");
    let newest = Newest { request_id: RequestId(uuid::Uuid::from_u128(7)), received_at: Micros(5) };
    again.remember(newest).expect("writes");
    assert_eq!(again.repair().expect("repairs").newest, Some(newest));
}

#[test]
fn what_memory_has_no_room_for_is_read_from_the_disk() {
    let folder = tempfile::tempdir().expect("folder");
    let mut rig = Rig::open(folder.path());
    let big = "x".repeat(1 << 20);
    rig.commit(&["a"]);
    rig.commit(&[&big]);
    rig.commit(&["c"]);
    let mut order = Vec::new();
    loop {
        let (place, segment, to) = match rig.shared.to_take(Duration::ZERO) {
            Next::Memory(block, _) => ("memory", block.segment, block.end),
            Next::Disk(stretch, _) => ("disk", stretch.segment, stretch.to),
            Next::Idle | Next::End => break,
        };
        order.push(place);
        rig.shared.taken(segment, to);
    }
    assert_eq!(order, ["memory", "disk", "memory"]);
}
