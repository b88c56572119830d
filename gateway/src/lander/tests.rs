use super::*;
use crate::spool::file;
use crate::testing::FakeObjects;
use forebay_schemas::id::RequestId;
use forebay_schemas::limit;
use forebay_schemas::time::Micros;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Instant;

struct Rig {
    names: Vec<SegmentName>,
    lander: Lander,
    objects: Arc<FakeObjects>,
    threads: Vec<JoinHandle<()>>,
}

/// A spool of so many sealed segments, published and not landed, and its landers.
fn rig(path: &Path, count: u128) -> Rig {
    let name = |n: u128| SegmentName::new(Micros(0), "g1", RequestId(uuid::Uuid::from_u128(n)));
    let names: Vec<SegmentName> = (1..=count).map(name).collect();
    let segment = |name: &SegmentName| {
        std::fs::write(path.join(name.file()), name.file()).expect("writes");
        let durable = name.file().len() as u64;
        Segment { durable, sealed: true, landing: Landing::Waiting, taken: durable, published: durable, damaged: false }
    };
    let segments = names.iter().map(|name| (name.clone(), segment(name))).collect();
    let metrics = Metrics::new(&prometheus::Registry::new()).expect("metrics");
    let dir = Arc::new(SpoolDir::open(path, Arc::new(file::Disk)).expect("opens"));
    let shared = Arc::new(Shared::new(segments, u64::MAX, 1 << 20));
    let objects = Arc::new(FakeObjects::default());
    let lander = Lander { dir, shared, objects: objects.clone(), metrics };
    Rig { names, lander, objects, threads: Vec::new() }
}

impl Rig {
    fn start(&mut self) {
        self.threads.extend((0..limit::LANDERS).map(|_| {
            let lander = self.lander.clone();
            std::thread::spawn(move || lander.run())
        }));
    }
    /// Lands what can be landed.
    fn drain(self) {
        self.lander.shared.writer_done();
        self.lander.shared.enter(Phase::Draining);
        self.threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    }
    fn landed(&self) -> usize {
        self.objects.objects.lock().len()
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn several_are_put_at_once_the_oldest_first() {
    let folder = tempfile::tempdir().expect("folder");
    let mut rig = rig(folder.path(), 40);
    rig.objects.hold("");
    rig.start();
    until("all landers at work", || rig.objects.begun().len() == limit::LANDERS);
    let mut first = rig.objects.begun();
    first.sort();
    assert_eq!(first, rig.names[..limit::LANDERS].iter().map(SegmentName::object).collect::<Vec<_>>());
    rig.objects.release();
    until("all landed", || rig.landed() == 40);
    let mut begun = rig.objects.begun();
    begun.sort();
    assert_eq!(begun, rig.names.iter().map(SegmentName::object).collect::<Vec<_>>(), "each once");
    let shared = rig.lander.shared.clone();
    rig.drain();
    assert_eq!(shared.left(), (0, 0));
    assert_eq!(crate::spool::dir::names(folder.path()).expect("lists"), []);
}

#[test]
fn one_that_hangs_and_one_that_is_taken_hold_up_no_other() {
    let folder = tempfile::tempdir().expect("folder");
    let mut rig = rig(folder.path(), 20);
    let taken = rig.names[1].object();
    rig.objects.objects.lock().insert(taken.clone(), b"other".to_vec());
    rig.objects.hold(&rig.names[0].object());
    std::fs::write(folder.path().join(rig.names[2].file()), "").expect("cut short by somebody");
    rig.start();
    until("the others landed and are gone", || rig.lander.shared.left().0 == 3);
    assert_eq!((rig.landed(), rig.lander.metrics.land_conflicts.get()), (18, 1));
    until("the short one is told", || rig.lander.metrics.spool_errors.with_label_values(&["read"]).get() > 0);
    assert_eq!((rig.lander.metrics.land_errors.get(), rig.lander.shared.objects.note()), (0, None), "and not laid on the store");
    rig.objects.release();
    until("the first landed", || rig.landed() == 19);
    std::fs::write(folder.path().join(rig.names[2].file()), rig.names[2].file()).expect("writes");
    let (shared, objects) = (rig.lander.shared.clone(), rig.objects.clone());
    rig.drain();
    assert_eq!(shared.left().0, 1, "the taken one stays");
    assert_eq!(objects.objects.lock().get(&taken).map(Vec::as_slice), Some(&b"other"[..]));
}

#[test]
fn a_refusal_is_told_until_it_is_put_right() {
    let folder = tempfile::tempdir().expect("folder");
    let mut rig = rig(folder.path(), 10);
    rig.objects.refuses.store(true, Ordering::SeqCst);
    rig.start();
    until("told", || rig.lander.metrics.land_errors.get() == limit::LANDERS as u64);
    assert_eq!(rig.lander.metrics.land_refused.get(), 1);
    let note = rig.lander.shared.objects.note().expect("told");
    assert!(note.contains("no such bucket"), "{note}");
    assert_eq!((rig.objects.puts.load(Ordering::SeqCst) as usize, rig.landed()), (limit::LANDERS, 0), "not tried again soon");
    rig.objects.refuses.store(false, Ordering::SeqCst);
    let (shared, metrics) = (rig.lander.shared.clone(), rig.lander.metrics.clone());
    rig.drain();
    assert_eq!((shared.left().0, metrics.land_refused.get(), shared.objects.note()), (0, 0, None));
}
