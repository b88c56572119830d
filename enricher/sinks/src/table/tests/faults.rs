//! The table sink while its object store fails, and while another sink does all its work within one of its calls.

use super::objects::{Event, Hooked};
use super::*;
use crate::table::batch::{Batch, Written};
use crate::table::offsets::Offsets;
use crate::table::sweep::sweep;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A table of so many small files that the next commit makes it worth a rewrite.
struct Before<R> {
    world: World<R>,
    rows: i64,
}

impl<R: Sample> Before<R> {
    fn new() -> Before<R> {
        let world = World::in_memory().of::<R>();
        let rows = i64::try_from(limit::SINK_SMALL_FILES).expect("few") - 1;
        world.put(0, 0..rows);
        let mut worker = world.worker();
        worker.pass().expect("reads");
        let start = Batch::new(worker.format.clone(), None, Offsets::default());
        let to = std::mem::replace(&mut worker.batch, start).offsets().clone();
        let mut files = Vec::new();
        for n in 0..rows {
            let mut batch: Batch<R> = Batch::new(worker.format.clone(), None, to.clone());
            let record = Record { value: Some(R::value(0, 10 * n, &format!("e0-{n}")).into()), ..record(n) };
            batch.push(0, &R::read(0, &record).expect("decodes"), 1).expect("pushes");
            files.extend(batch.finish(&world.warehouse()).expect("puts").files);
        }
        let written = Written { from: None, to, files, rows: rows.unsigned_abs() };
        assert!(matches!(worker.committer().append(&written), Ok(Outcome::Committed { .. })));
        Before { world, rows }
    }

    /// The same table, on its own.
    fn copy(&self) -> World<R> {
        let copy = World::in_bucket(Bucket::InMemory(self.world.memory().copy())).of();
        let copy = World { log: self.world.log.copy(), ..copy };
        let file = |world: &World<R>| world.folder.path().join("catalog.sqlite");
        std::fs::copy(file(&self.world), file(&copy)).expect("copies");
        copy
    }
}

fn record(offset: i64) -> Record {
    Record { offset, timestamp: Micros(0), key: Default::default(), value: None, headers: Vec::new() }
}

/// Starts, commits, rewrites small files, commits again; after an error it goes on as a sink does.
fn run<R: Sample>(world: &World<R>, rows: i64, objects: &Arc<dyn Objects>) {
    let again = |work: &mut dyn FnMut() -> Result<(), SinkError>| {
        for _ in 0..20 {
            match work() {
                Ok(()) => return,
                Err(error) => assert!(!error.is_final(), "{error}"),
            }
        }
        panic!("20 errors in a row");
    };
    let mut worker = None;
    again(&mut || {
        worker = Some(world.worker_on(world.config(), objects.clone())?);
        Ok(())
    });
    let mut worker = worker.expect("opened");
    worker.ask_again = [Duration::ZERO; 4];
    let mut settled = |work: fn(&mut Worker<R>) -> Result<(), SinkError>| {
        let mut failed = false;
        again(&mut || {
            if std::mem::take(&mut failed) {
                worker.begin_again().inspect_err(|_| failed = true)?;
            }
            work(&mut worker).inspect_err(|_| failed = true)
        });
    };
    world.put(0, rows..rows + 1);
    world.put(1, 0..1);
    settled(Worker::drain);
    settled(|worker| worker.rewrite().map(drop));
    world.put(0, rows + 1..rows + 2);
    settled(Worker::drain);
}

/// Each id of the log is a row once, and all that any kept snapshot names is there. A sweep takes nothing of it, and
/// what is left then is what the table needs.
fn check<R: Sample>(world: &World<R>, expected: &[String], what: &str) {
    let whole = |world: &World<R>| {
        assert_eq!(world.ids(), expected, "{what}");
        let (table, warehouse) = (world.stored(), world.warehouse());
        let mut needed = BTreeSet::from([table.location.clone()]);
        needed.extend(table.metadata.metadata_log().iter().map(|log| log.metadata_file.clone()));
        for snapshot in table.metadata.snapshots() {
            needed.insert(snapshot.manifest_list().to_owned());
            for manifest in manifests::of_snapshot(snapshot, &warehouse).expect(what) {
                needed.extend(manifests::live(&manifest, &warehouse).expect(what).iter().map(|entry| entry.file_path().to_owned()));
                needed.insert(manifest.manifest_path);
            }
        }
        needed.into_iter().map(|location| warehouse.name(&location).expect("inside")).collect::<BTreeSet<_>>()
    };
    let needed = whole(world);
    let there = BTreeSet::from_iter(world.memory().names());
    assert!(needed.is_subset(&there), "{what}: {:?}", needed.difference(&there));
    sweep(&world.stored(), &world.warehouse(), Duration::ZERO, true).expect("sweeps");
    assert_eq!(whole(world), BTreeSet::from_iter(world.memory().names()), "{what}");
}

#[test]
fn whichever_call_to_the_store_fails_each_row_is_there_once() {
    each_row_is_there_once::<TrustedRows>();
    each_row_is_there_once::<WindowRows>();
}

fn each_row_is_there_once<R: Sample>() {
    let before = Before::<R>::new();
    for (after, calls) in [(false, 1), (true, 1), (false, 4), (true, 4)] {
        let mut nth = 0;
        loop {
            let world = before.copy();
            let at = move |n: usize| match (n >= nth && n < nth + calls, after) {
                (false, _) => Event::Pass,
                (true, false) => Event::FailBefore,
                (true, true) => Event::FailAfter,
            };
            let counted = Arc::new(AtomicUsize::new(0));
            let objects: Arc<dyn Objects> = Arc::new(Hooked { inner: world.memory().clone(), calls: counted.clone(), at });
            run(&world, before.rows, &objects);
            check(
                &world,
                &[ids(0, 0..before.rows + 2), ids(1, 0..1)].concat(),
                &format!("calls {nth} to {}, after = {after}", nth + calls - 1),
            );
            if counted.load(Ordering::SeqCst) <= nth {
                break;
            }
            nth += calls;
        }
        assert!(nth > 60, "only {nth} calls");
    }
}

/// As if the sink were stopped there for long (SIGSTOP, a suspended machine) while its successor works.
#[test]
fn stopped_at_any_call_a_sink_wakes_to_the_table_of_its_successor() {
    let before = Arc::new(Before::<TrustedRows>::new());
    let mut nth = 0;
    loop {
        let world = Arc::new(before.copy());
        let (theirs, rows) = (world.clone(), before.rows);
        let at = move |n: usize| {
            if n == nth {
                theirs.put(1, 1..2);
                let mut successor = theirs.worker();
                successor.drain().expect("drains");
                sweep(&theirs.stored(), &theirs.warehouse(), Duration::ZERO, true).expect("sweeps");
                theirs.put(1, 2..3);
                successor.drain().expect("drains");
                successor.rewrite().expect("rewrites");
            }
            Event::Pass
        };
        let counted = Arc::new(AtomicUsize::new(0));
        let objects: Arc<dyn Objects> = Arc::new(Hooked { inner: world.memory().clone(), calls: counted.clone(), at });
        run(&world, rows, &objects);
        let woken = counted.load(Ordering::SeqCst) > nth;
        let mut expected = [ids(0, 0..rows + 2), ids(1, 0..if woken { 3 } else { 1 })].concat();
        expected.sort_unstable();
        check(&world, &expected, &format!("call {nth}"));
        if !woken {
            break;
        }
        nth += 1;
    }
    assert!(nth > 60, "only {nth} calls");
}

#[test]
fn a_running_sink_tells_its_trouble_and_gets_over_it() {
    let world = World::in_memory();
    let down = Arc::new(AtomicBool::new(false));
    let theirs = down.clone();
    let at = move |_| if theirs.load(Ordering::SeqCst) { Event::FailBefore } else { Event::Pass };
    let objects = Arc::new(Hooked { inner: world.memory().clone(), calls: Arc::default(), at });
    let registry = prometheus::Registry::new();
    let sink =
        waited(TableSink::start(world.config(), &[Table::TrustedEvents], Arc::new(world.log.clone()), objects, &registry)).expect("starts");
    let until = |what: &str, done: &dyn Fn() -> bool| {
        let started = Instant::now();
        while !done() {
            assert!(started.elapsed() < Duration::from_secs(60), "{what}: {:?}", sink.ready());
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    world.put(0, 0..3);
    until("rows", &|| world.ids().len() == 3);
    down.store(true, Ordering::SeqCst);
    world.put(0, 3..6);
    until("trouble", &|| sink.ready().is_err_and(|why| why.contains("the store has trouble")));
    assert_eq!((sink.failed(), world.ids().len()), (None, 3));
    down.store(false, Ordering::SeqCst);
    until("rows", &|| world.ids().len() == 6);
    until("an end of it", &|| sink.ready().is_ok());
    // A stop in the midst of an outage says what is left undone.
    down.store(true, Ordering::SeqCst);
    world.put(0, 6..7);
    assert!(waited(sink.stop()).expect_err("not committed").contains("the store has trouble"));
    assert_eq!(world.ids(), ids(0, 0..6));
}

#[test]
fn two_live_sinks_share_the_table() {
    let world = Arc::new(World::in_memory());
    share(&world, 0, 200);
    check(&world, &[ids(0, 0..200), ids(1, 0..200)].concat(), "two sinks");
}

/// Two sinks on one table, while `rows` come to each partition, to the first after `had`. Neither waits for the other;
/// both go on.
pub(super) fn share<R: Sample>(world: &Arc<World<R>>, had: i64, rows: i64) {
    world.worker();
    let start = Arc::new(std::sync::Barrier::new(3));
    let sinks: Vec<_> = (0..2)
        .map(|_| {
            let (world, start) = (world.clone(), start.clone());
            std::thread::spawn(move || {
                let mut worker = world.worker();
                start.wait();
                for _ in 0..40 {
                    if let Err(error) = worker.turn() {
                        assert!(!error.is_final(), "{error}");
                        worker.begin_again().expect("begins again");
                    }
                }
                worker.drain().expect("drains");
            })
        })
        .collect();
    start.wait();
    for n in 0..rows {
        world.put(0, had + n..had + n + 1);
        world.put(1, n..n + 1);
        std::thread::yield_now();
    }
    sinks.into_iter().for_each(|sink| sink.join().expect("no panic"));
    world.worker().drain().expect("drains");
}
