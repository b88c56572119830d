//! Plays repetitions over connections: order, pace, cuts, resending.

use super::ids::Ids;
use super::recording::Recorded;
use super::tally::{Summary, Tally};
use super::template::{Changes, Template};
use super::wire::{Connection, NoAnswer};
use anyhow::Result;
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long one request is sent again before it is given up.
const RESEND_FOR: Duration = Duration::from_secs(600);
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(2);

pub struct Options {
    /// `host:port`
    pub host: String,
    pub repeat: u64,
    pub unique: bool,
    /// Requests a second, all connections together.
    pub rate: Option<f64>,
    pub connections: usize,
    pub faults: bool,
    pub resend: bool,
    pub acked: Option<PathBuf>,
    pub sent: Option<PathBuf>,
    pub key: Option<String>,
}

/// What the connections share. One thread: no locks.
struct Run<'a> {
    options: &'a Options,
    templates: &'a [Template],
    tally: RefCell<Tally>,
    next_repetition: Cell<u64>,
    next_send: Cell<Instant>,
    stopped: Cell<bool>,
    jitter: Cell<u64>,
    progress: &'a indicatif::ProgressBar,
}

/// Plays `recordings`, one after the other, `options.repeat` times. Ends early when `stop` does.
pub async fn play(
    recordings: &[Recorded],
    options: &Options,
    progress: &indicatif::ProgressBar,
    stop: impl Future<Output = ()>,
) -> Result<Summary> {
    let mut ids = Ids::default();
    let seed = getrandom::u64().map_err(|e| anyhow::anyhow!("the system gives no randomness: {e}"))?;
    let changes = Changes { host: &options.host, unique: options.unique.then_some(seed), key: options.key.as_deref() };
    let templates = recordings.iter().map(|r| Template::new(r, &changes, &mut ids)).collect::<Result<Vec<_>>>()?;
    progress.set_length(options.repeat * templates.len() as u64);

    let run = Run {
        options,
        templates: &templates,
        tally: RefCell::new(Tally::new(options.acked.as_deref(), options.sent.as_deref())?),
        next_repetition: Cell::new(0),
        next_send: Cell::new(Instant::now()),
        stopped: Cell::new(false),
        jitter: Cell::new(seed | 1),
        progress,
    };
    let connections = futures::future::try_join_all((0..options.connections).map(|_| run.connection()));
    let stop = async {
        stop.await;
        run.stopped.set(true);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        played = connections => { played?; }
        () = stop => {}
    }
    run.tally.into_inner().finish()
}

impl Run<'_> {
    async fn connection(&self) -> Result<()> {
        let mut connection = Connection::new(self.options.host.clone());
        loop {
            let repetition = self.next_repetition.get();
            if repetition >= self.options.repeat || self.stopped.get() {
                return Ok(());
            }
            self.next_repetition.set(repetition + 1);
            for template in self.templates {
                if self.stopped.get() {
                    return Ok(());
                }
                self.request(&mut connection, template, repetition).await?;
                self.progress.inc(1);
            }
        }
    }

    /// One recorded request until it is done with: answered, cut, or given up.
    async fn request(&self, connection: &mut Connection, template: &Template, repetition: u64) -> Result<()> {
        let built = template.build(repetition)?;
        self.tally.borrow_mut().request(template.events);
        let started = Instant::now();
        let mut cut = template.cut && self.options.faults;
        for attempt in 0u32.. {
            self.pace().await;
            let sent_at = Instant::now();
            let status = if std::mem::take(&mut cut) {
                let sent = connection.send_and_cut(&built.bytes).await;
                if sent.as_ref().map_or_else(|no| no.sent, |()| true) {
                    self.tally.borrow_mut().not_answered(&built)?;
                }
                if sent.is_ok() && !self.options.resend {
                    self.tally.borrow_mut().ended_cut();
                    return Ok(());
                }
                None
            } else {
                match connection.exchange(&built.bytes, &template.method).await {
                    Ok(answer) => {
                        self.tally.borrow_mut().answered(&built, template.native, &answer, sent_at.elapsed())?;
                        Some(answer.status)
                    }
                    Err(NoAnswer { sent, cause }) => {
                        let mut tally = self.tally.borrow_mut();
                        if sent {
                            tally.not_answered(&built)?;
                        }
                        tally.trouble = Some(cause.to_string());
                        None
                    }
                }
            };
            let again = self.options.resend && is_worth_resending(status) && started.elapsed() < RESEND_FOR && !self.stopped.get();
            if !again {
                self.tally.borrow_mut().ended(status);
                return Ok(());
            }
            self.tally.borrow_mut().retries += 1;
            tokio::time::sleep(self.backoff(attempt)).await;
        }
        Ok(())
    }

    async fn pace(&self) {
        let Some(rate) = self.options.rate else { return };
        let now = Instant::now();
        let at = self.next_send.get().max(now.checked_sub(Duration::from_millis(100)).unwrap_or(now));
        self.next_send.set(at + Duration::from_secs_f64(1.0 / rate));
        tokio::time::sleep_until(at.into()).await;
    }

    /// Doubles from `BACKOFF_MIN` to `BACKOFF_MAX`; half of it is chance, so that connections do not march in step.
    fn backoff(&self, attempt: u32) -> Duration {
        let mut x = self.jitter.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.jitter.set(x);
        let whole = BACKOFF_MIN.saturating_mul(1 << attempt.min(10)).min(BACKOFF_MAX);
        whole.mul_f64(0.5 + (x % 1_000) as f64 / 2_000.0)
    }
}

/// No answer, an overload or a defect of the server's; a refusal of the request itself stays one.
fn is_worth_resending(status: Option<u16>) -> bool {
    match status {
        None | Some(408 | 425 | 429) => true,
        Some(status) => status >= 500 && status != 501 && status != 505,
    }
}

#[cfg(test)]
mod tests;
