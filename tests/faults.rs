//! Faults at random, under load, on real services: `kill -9`, processes that stand still beside their successors, brokers cut
//! off in mid-transaction, a bucket that is down, slow or answers 500, a full disk.
//!
//! The oracle, when all is whole again: what was answered 2xx is in trusted once or in bad, the table has trusted's ids, each
//! once, bodies are landed as they were sent, totals balance. While it runs, no reader of the trusted topic ever sees an
//! event whose offset is not committed.

mod front;
mod watch;

use crate::harness::cluster::{BUCKET, Cluster, ENRICHER, GATEWAY, Services, TABLE};
use crate::harness::{System, binary, column, oracle, poll, soak, traffic};
use forebay_services::{Kafka, KafkaSpec, S3, Toxiproxy};
use front::Front;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use watch::Watch;

/// Events that a soak must have acknowledged, over both tests.
const EVENTS_MIN: usize = 250_000;
/// Requests a second: what comes of a soak's faults has to fit into the oracle's memory.
const RATE: &str = "150";
const RATE_SOAK: &str = "1500";
/// Of the recordings, in one run of `send`.
const SEND_REPEAT: u32 = 40;

#[test]
fn random_faults_on_one_broker() {
    let rounds = if soak() { 30 } else { 5 };
    run(1, rounds);
}

#[test]
fn random_faults_on_three_brokers() {
    if soak() {
        run(3, 20);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// `kill -9`, and started again.
    Kill(usize),
    KillBroker,
    /// It stands still while a successor takes over, and goes on beside it.
    Zombie(usize),
    /// It stands still and goes on; nobody took over.
    Pause(usize),
    PauseBroker,
    /// The enricher stops in a transaction, there, and the brokers are gone before it goes on.
    CutAt(&'static str),
    /// The brokers do what they are asked, and no answer comes back.
    AnswersLost(&'static str),
    /// The process dies there.
    DieAt(usize, &'static str),
    BucketDown,
    BucketSlow,
    /// It answers 500, to every second request after it was carried out.
    BucketErrors,
    DiskFull,
}

const FAULTS: [Fault; 27] = [
    Fault::Kill(GATEWAY),
    Fault::Kill(ENRICHER),
    Fault::Kill(TABLE),
    Fault::KillBroker,
    Fault::Zombie(ENRICHER),
    Fault::Zombie(TABLE),
    Fault::Pause(GATEWAY),
    Fault::Pause(ENRICHER),
    Fault::PauseBroker,
    Fault::CutAt("lane.before_produce"),
    Fault::CutAt("lane.after_produce"),
    Fault::CutAt("lane.after_offsets"),
    Fault::CutAt("lane.after_commit"),
    Fault::AnswersLost("lane.before_produce"),
    Fault::AnswersLost("lane.after_produce"),
    Fault::AnswersLost("lane.after_offsets"),
    Fault::DieAt(ENRICHER, "lane.after_produce"),
    Fault::DieAt(ENRICHER, "lane.after_offsets"),
    Fault::DieAt(ENRICHER, "lane.after_commit"),
    Fault::DieAt(ENRICHER, "enrich.after_apply"),
    Fault::DieAt(GATEWAY, "publish.after_append"),
    Fault::DieAt(GATEWAY, "land.after_put"),
    Fault::DieAt(TABLE, "sink.after_commit"),
    Fault::BucketDown,
    Fault::BucketSlow,
    Fault::BucketErrors,
    Fault::DiskFull,
];

struct Run {
    kafka: Kafka,
    s3: &'static S3,
    front: Front,
    toxiproxy: Toxiproxy,
    cluster: Cluster,
    disk: Option<Disk>,
    random: u64,
}

fn run(nodes: usize, rounds: usize) {
    let seed = std::env::var("FOREBAY_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| u64::from(std::process::id()) | 1);
    println!("{nodes} brokers, seed {seed}");
    let kafka = Kafka::start(KafkaSpec { nodes, ..KafkaSpec::default() }).expect("Kafka starts");
    let s3: &'static S3 = Box::leak(Box::new(S3::start().expect("the S3 server starts")));
    let toxiproxy = Toxiproxy::start().expect("toxiproxy starts");
    let front = Front::start(s3.address());
    let bucket = toxiproxy.proxy(BUCKET, &front.address).expect("a proxy");
    let services = Services { brokers: kafka.proxied(), endpoint: format!("http://127.0.0.1:{bucket}"), s3 };
    let disk = Disk::mount();
    let spool = disk.as_ref().map_or(String::new(), |disk| format!("spool.dir = {:?}\n", disk.folder.path().join("spool")));
    let (replicas, in_sync) = if nodes == 3 { (3, 2) } else { (1, 1) };
    let config = format!(
        "[gateway]\n{spool}spool.segment_age = \"2s\"\nspool.segment_bytes = \"4MiB\"\n\
         [log]\nreplicas = {replicas}\nmin_insync_replicas = {in_sync}\n[enricher]\nlanes = 2\n"
    );
    let mut cluster = Cluster::on(services, &config);
    cluster.start();
    let folder = cluster.folder.path().to_owned();
    let watch = Watch::start(&cluster, kafka.brokers());
    let enough = AtomicBool::new(false);
    let mut run = Run { kafka, s3, front, toxiproxy, cluster, disk, random: seed };
    let listen = run.cluster.listen();
    let sends = std::thread::scope(|scope| {
        let load = scope.spawn(|| load(&listen, &folder, &enough));
        // A panic here must not leave the load running for ever.
        let end = EndOnDrop(&enough);
        let mut bag = Vec::new();
        for round in 0..rounds {
            // Each once before any comes again.
            if bag.is_empty() {
                bag.extend(FAULTS);
            }
            let fault = bag.swap_remove(run.below(bag.len() as u64) as usize);
            std::thread::sleep(Duration::from_millis(300 + run.below(1_200)));
            let began = Instant::now();
            run.apply(fault);
            run.whole_again();
            println!("round {round}: {fault:?}, {:.1} s", began.elapsed().as_secs_f64());
        }
        drop(end);
        load.join().expect("everything was answered in the end")
    });
    let Run { mut cluster, .. } = run;
    let totals = cluster.settled();
    let files = |name: &str| (0..sends).map(|n| folder.join(format!("{name}-{n}"))).collect::<Vec<PathBuf>>();
    let (facts, trusted) = oracle::trusted_once(&cluster, &files("acked"));
    let seen = watch.stop();
    println!("{facts} facts acknowledged, {totals:?}; {seen} events were watched");
    assert_eq!(cluster.tail("harvested").len() as u64, totals.sum(), "totals balance");
    assert_eq!(seen, trusted.len() as u64, "who watched from the first to the last saw each trusted event once");
    assert_eq!(cluster.stop(), 0, "a graceful stop leaves nothing behind");
    for reader in ["duckdb", "pyiceberg"] {
        assert_eq!(column(&cluster.table(reader), "event_id"), trusted, "{reader} sees trusted's ids, each once");
    }
    // A full disk refuses, and what was refused is sent again.
    let refused = files("summary").iter().map(|file| oracle::refused(file) + oracle::retried(file)).sum();
    oracle::bodies_landed(&cluster, &files("sent"), refused);
    if soak() {
        assert!(facts >= EVENTS_MIN, "too little was tried");
    }
}

struct EndOnDrop<'a>(&'a AtomicBool);
impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Plays every SDK's recordings with fresh ids, again and again, until it is enough; sends again what got no 2xx. How many
/// runs of `send` it took.
fn load(listen: &str, folder: &Path, enough: &AtomicBool) -> usize {
    let names = ["segment-node", "segment-node-retries", "browser-segment", "browser-snowplow", "posthog-node", "browser-posthog"];
    let recordings: Vec<_> = names.iter().map(|name| traffic().join(format!("{name}.jsonl"))).collect();
    let mut runs = 0;
    while runs == 0 || !enough.load(Ordering::Relaxed) {
        let file = |name: &str| folder.join(format!("{name}-{runs}"));
        let mut send = Command::new(binary());
        send.arg("send").args(&recordings).args(["--to", &format!("http://{listen}"), "--repeat", &SEND_REPEAT.to_string()]);
        send.args(["--unique", "--resend", "--connections", "4", "--json", "--acked"]).arg(file("acked")).arg("--sent").arg(file("sent"));
        send.args(["--rate", if soak() { RATE_SOAK } else { RATE }]);
        let summary = std::fs::File::create(file("summary")).expect("a file");
        assert!(send.stdin(Stdio::null()).stdout(summary).status().expect("the binary starts").success());
        runs += 1;
    }
    runs
}

impl Run {
    /// xorshift: any choice will do, the seed tells which.
    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }
    fn nodes(&self) -> usize {
        self.kafka.pids().len()
    }
    fn seconds(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from * 1_000 + self.below((to - from) * 1_000 + 1))
    }

    fn apply(&mut self, fault: Fault) {
        match fault {
            Fault::Kill(role) => self.cluster.roles[role].process.kill(),
            Fault::KillBroker => {
                let node = self.node();
                self.kafka.kill(node).expect("killed");
                let down = self.seconds(0, 5);
                std::thread::sleep(down);
                self.kafka.restart(node).expect("restarted");
            }
            Fault::Zombie(role) => self.zombie(role),
            Fault::Pause(role) => {
                self.cluster.roles[role].pause();
                let paused = self.seconds(2, 20);
                std::thread::sleep(paused);
                self.cluster.roles[role].resume();
            }
            Fault::PauseBroker => {
                let node = self.node();
                self.kafka.pause(node).expect("paused");
                let paused = self.seconds(2, 20);
                std::thread::sleep(paused);
                self.kafka.resume(node).expect("resumed");
            }
            Fault::CutAt(place) => {
                self.pause_enricher_at(place);
                (1..=self.nodes()).for_each(|node| self.kafka.cut(node).expect("cut"));
                let down = self.seconds(4, 15);
                std::thread::sleep(down);
            }
            Fault::AnswersLost(place) => {
                self.pause_enricher_at(place);
                for node in 1..=self.nodes() {
                    let lost = json!({"timeout": 0});
                    let toxiproxy = self.kafka.toxiproxy().expect("brokers behind a proxy");
                    toxiproxy.toxic(&Kafka::proxy_name(node), "timeout", "downstream", &lost).expect("a toxic");
                }
                let down = self.seconds(4, 15);
                std::thread::sleep(down);
            }
            Fault::DieAt(role, place) => {
                self.restart_with(role, &format!("{place}:{}", 2 + self.random % 5));
                let cluster = std::cell::RefCell::new(&mut self.cluster);
                let ended = || !cluster.borrow_mut().roles[role].process.is_running();
                poll(&format!("{place} to be passed"), ended, || cluster.borrow().log());
            }
            Fault::BucketDown => {
                self.s3.kill();
                let down = if soak() { Duration::from_secs(60) } else { Duration::from_secs(5) };
                std::thread::sleep(down);
                self.s3.restart().expect("restarted");
            }
            Fault::BucketSlow => {
                self.toxiproxy.toxic(BUCKET, "latency", "downstream", &json!({"latency": 1_500, "jitter": 1_000})).expect("a toxic");
                self.toxiproxy.toxic(BUCKET, "reset_peer", "upstream", &json!({"timeout": 4_000})).expect("a toxic");
                let slow = self.seconds(5, 15);
                std::thread::sleep(slow);
            }
            Fault::BucketErrors => {
                let before = self.front.failed();
                self.front.fail(true);
                poll("the bucket to be asked", || self.front.failed() >= before + 2, String::new);
                let failing = self.seconds(2, 10);
                std::thread::sleep(failing);
                self.front.fail(false);
            }
            Fault::DiskFull => {
                let full = self.seconds(2, 6);
                if let Some(disk) = &self.disk {
                    disk.fill();
                    std::thread::sleep(full);
                    disk.free();
                }
            }
        }
    }

    fn node(&mut self) -> usize {
        let nodes = self.nodes() as u64;
        1 + self.below(nodes) as usize
    }

    fn restart_with(&mut self, role: usize, failpoint: &str) {
        let role = &mut self.cluster.roles[role];
        role.process.kill();
        role.set_env(&[("FOREBAY_FAILPOINT", failpoint)]);
        role.spawn();
        role.set_env(&[]);
    }

    /// Starts it anew, so that a lane stands still at `place` for a while; returns while it does.
    fn pause_enricher_at(&mut self, place: &str) {
        let nth = 3 + self.below(8);
        let holds = format!("failpoint {place} holds");
        let told = |cluster: &Cluster| cluster.roles[ENRICHER].process.log().matches(&holds).count();
        let before = told(&self.cluster);
        self.restart_with(ENRICHER, &format!("pause:{place}:{nth}:2000"));
        poll(&format!("the enricher to stand still at {place}"), || told(&self.cluster) > before, || self.cluster.log());
    }

    /// The elder stands still, a successor works, the elder wakes up beside it.
    fn zombie(&mut self, role: usize) {
        self.cluster.roles[role].pause();
        let mut successor = self.cluster.second(role, &[]);
        successor.start();
        let commits = ["", "forebay_commits_total", "forebay_sink_commits_total"][role];
        poll("the successor to commit", || successor.metric(commits) > 2.0, || successor.process.log());
        let asleep = if soak() { self.seconds(5, 20) } else { Duration::from_secs(2) };
        std::thread::sleep(asleep);
        self.cluster.roles[role].resume();
        if role == ENRICHER {
            let elder = &mut self.cluster.roles[role].process;
            assert_eq!(elder.wait_end(), 1, "a fenced process exits 1\n{}", elder.log());
            assert!(elder.log().contains("another process"), "a fenced process says so\n{}", elder.log());
        } else {
            // Both work for a while: rows must not double.
            std::thread::sleep(Duration::from_secs(3));
        }
        assert_eq!(successor.process.stop(), 0, "{}", successor.process.log());
    }

    /// Undoes every fault and waits until every role takes its work again.
    fn whole_again(&mut self) {
        (1..=self.nodes()).for_each(|node| self.kafka.heal(node).expect("healed"));
        self.toxiproxy.heal(BUCKET).expect("healed");
        for role in &mut self.cluster.roles {
            if !role.process.is_running() {
                role.spawn();
            }
        }
        for role in &mut self.cluster.roles {
            role.wait_ready();
        }
    }
}

/// A small file system of its own for the spool, where one can be mounted.
struct Disk {
    folder: tempfile::TempDir,
}

impl Disk {
    fn mount() -> Option<Disk> {
        let folder = tempfile::Builder::new().prefix("forebay-disk-").tempdir().expect("a folder");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=256m", "tmpfs"]).arg(folder.path()).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Disk { folder });
        }
        println!("no file system can be mounted here: a full disk is not tried");
        None
    }
    fn filler(&self) -> PathBuf {
        self.folder.path().join("filler")
    }
    fn fill(&self) {
        let mut file = std::fs::File::create(self.filler()).expect("a file");
        let full = std::io::copy(&mut std::io::repeat(0), &mut file).expect_err("the disk ends");
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    }
    fn free(&self) {
        std::fs::remove_file(self.filler()).expect("removed");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.folder.path()).status();
    }
}
