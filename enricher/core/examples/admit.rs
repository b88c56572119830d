//! How long admission takes: every recorded event many times, in microseconds an event.
//!
//! `cargo run --release -p forebay-enricher-core --example admit [ROUNDS]`

#[path = "../tests/admit/fixtures.rs"]
mod fixtures;

use std::time::Instant;

fn main() {
    let rounds = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(2_000);
    let pipeline = fixtures::pipeline();
    let mut all = (0.0, 0);
    for recording in fixtures::recordings() {
        let bytes: usize = recording.events.iter().map(|event| event.payload.len()).sum();
        let started = Instant::now();
        let mut admitted = 0;
        for _ in 0..rounds {
            admitted += recording.events.iter().filter(|event| pipeline.admit(event).is_ok()).count();
        }
        let (seconds, count) = (started.elapsed().as_secs_f64(), rounds * recording.events.len());
        all = (all.0 + seconds, all.1 + count);
        println!(
            "{:36} {:2} facts, {:6.2} µs/event, {:5} bytes/event, {:3} % admitted",
            recording.name,
            recording.expect.values().sum::<u64>(),
            seconds * 1e6 / count as f64,
            bytes / recording.events.len(),
            admitted * 100 / count
        );
    }
    println!("{:36} {:6.2} µs/event", "all", all.0 * 1e6 / all.1 as f64);
}
