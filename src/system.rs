//! Finding the system that a command is about: its stores themselves, or the process that holds them.
//!
//! Owns: the order in which flags, variables and folders count, the two ways of asking. Does not own: questions and answers (`read`).

use crate::catalogue;
use crate::commands::config::default_file;
use crate::config::{Config, DEFAULT_DATA, EFFECTIVE_FILE, Inputs};
use crate::data;
use crate::failure::{Failure, Next};
use crate::read::{self, Answer, Parts, Query, Role, UnclassifiedField};
use crate::stores::{self, Stores};
use anyhow::{Context, anyhow};
use clap::Args;
use forebay_enricher::find::FindError;
use forebay_enricher_core::Pipeline;
use forebay_enricher_core::combine::window;
use forebay_stores::config::LogKind;
use forebay_stores::log::{Log, LogError};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A process that has just taken the folder needs a moment until it can be asked.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// Which system; by default ./forebay.toml, else ./forebay-data
#[derive(Args, Clone)]
pub struct Where {
    /// The configuration of the system
    #[arg(long, value_name = "FILE", conflicts_with_all = ["data", "admin"])]
    config: Option<PathBuf>,
    /// The folder of `forebay dev`, running or stopped
    #[arg(long, value_name = "DIR", conflicts_with = "admin")]
    data: Option<PathBuf>,
    /// The admin listener of a running system; its token comes by FOREBAY_TOKEN
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
}

pub enum System {
    Direct(Box<Parts>),
    Process { url: String, token: String },
}

impl Where {
    pub fn find(&self) -> Result<System, Failure> {
        if let Some(url) = &self.admin {
            let token = std::env::var("FOREBAY_TOKEN").ok().filter(|t| !t.is_empty());
            let token = token.ok_or_else(|| {
                Failure::usage("--admin needs a token").next("put it into FOREBAY_TOKEN; a dev folder has it in admin.json")
            })?;
            return Ok(System::Process { url: url.trim_end_matches('/').to_owned(), token });
        }
        let config = self.load()?;
        // Kafka answers whoever asks; an embedded log only the process that holds it.
        match if config.log.kind == LogKind::Embedded { data::held_by(&config.data)? } else { None } {
            None => direct(config),
            Some(pid) => process(&config.data, pid),
        }
    }

    /// The configuration of the system: of `--config`, or as its folder has it.
    pub fn load(&self) -> Result<Config, Failure> {
        let load = |inputs: Inputs| Config::load(&inputs).map_err(|e| Failure::configuration(&e));
        let file = match (&self.config, &self.data) {
            (Some(file), _) => Some(file.clone()),
            (None, Some(data)) => return load(of_folder(data)),
            (None, None) => default_file(),
        };
        match file {
            Some(file) => load(Inputs { file: Some(file), ..Inputs::default() }.with_env()),
            None => load(of_folder(Path::new(DEFAULT_DATA))),
        }
    }
}

/// What `dev` wrote down about its folder, wherever that lies now.
fn of_folder(data: &Path) -> Inputs {
    let here = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
    let file = Some(data.join(EFFECTIVE_FILE)).filter(|file| file.is_file());
    let flags = vec![("--data", "data", here.display().to_string())];
    Inputs { file, flags, moved_to: Some(here), env: Vec::new() }
}

/// The stores themselves, beside whoever runs on them.
fn direct(config: Config) -> Result<System, Failure> {
    let stores = stores::open_to_read(&config)?;
    let (log, of_config) = (stores.log.clone(), config.clone());
    let unclassified = move || unclassified_in_deltas(&*log, &of_config);
    let of_config = config.clone();
    let pipeline = move || pipeline(&of_config).map_err(Failure::into_error);
    let live = stores.embedded.is_none();
    Ok(System::Direct(Box::new(parts(&config, &stores, Box::new(pipeline), Box::new(unclassified), live))))
}

/// What judges events by this configuration: its catalogue, options and keys.
pub fn pipeline(config: &Config) -> Result<Arc<Pipeline>, Failure> {
    let catalog = catalogue::load(config.catalog.dir.as_deref())?;
    let group = |source: &forebay_gateway::SourceConfig| Some((source.name.clone(), source.group.clone()?));
    let groups = config.sources.iter().filter_map(group).collect();
    let keys = forebay_enricher::keys::load(&config.catalog.keys, groups).map_err(|e| {
        Failure::usage(e.to_string())
            .next("a key file is made by `dev` in its folder, and is never made again in the place of one that is lost")
    })?;
    let options = forebay_enricher::options(&config.enricher, &config.catalog);
    let declared = config.declared_windows().map_err(|e| Failure::configuration(&e))?;
    let catalog = Arc::new(catalog);
    let pipeline = Pipeline::new(catalog.clone(), options, keys);
    let pipeline = pipeline.map_err(|e| Failure::usage(e.to_string()).next("`forebay schemas check` checks the catalogue"))?;
    let pipeline = pipeline.with_windows(&declared, &catalog);
    Ok(Arc::new(pipeline.map_err(|(n, error)| Failure::configuration(&config.window_error(n, &error)))?))
}

/// Whether the windows are such that the catalogue has what they ask for.
pub fn check_windows(config: &Config) -> Result<(), Failure> {
    let declared = config.declared_windows().map_err(|e| Failure::configuration(&e))?;
    if declared.is_empty() {
        return Ok(());
    }
    let catalog = catalogue::load(config.catalog.dir.as_deref())?;
    let windows = window::declare::windows(&declared, &catalog);
    windows.map(drop).map_err(|(n, error)| Failure::configuration(&config.window_error(n, &error)))
}

/// What answers stand on.
pub fn parts(
    config: &Config,
    stores: &Stores,
    pipeline: Box<dyn Fn() -> anyhow::Result<Arc<Pipeline>> + Send + Sync>,
    unclassified: Box<dyn Fn() -> anyhow::Result<Vec<UnclassifiedField>> + Send + Sync>,
    live: bool,
) -> Parts {
    Parts {
        log: stores.log.clone(),
        objects: stores.objects.clone(),
        spool: config.spool_dir(),
        table: config.table.clone(),
        warehouse: stores.warehouse.clone(),
        pipeline,
        unclassified,
        settings: config.settings(),
        live,
        log_is_shared: stores.embedded.is_none(),
    }
}

/// What the deltas of two refreshes say: a count is put again after a quarter of their retention.
pub fn unclassified_in_deltas(log: &dyn Log, config: &Config) -> anyhow::Result<Vec<UnclassifiedField>> {
    read::unclassified_in_deltas(log, config.enricher.delta_retention() / 2)
}

pub fn unclassified_field(field: forebay_enricher::UnclassifiedCount) -> UnclassifiedField {
    UnclassifiedField { event_type: field.event_type, path: field.path, in_clear: field.field.in_clear, count: field.field.count }
}

fn process(data: &Path, pid: u32) -> Result<System, Failure> {
    let started = Instant::now();
    loop {
        if let Some(admin) = data::admin_of(data, pid) {
            return Ok(System::Process { url: admin.url, token: admin.token });
        }
        match data::held_by(data)? {
            Some(holder) if started.elapsed() < START_PATIENCE && holder == pid => std::thread::sleep(Duration::from_millis(50)),
            Some(holder) if holder != pid => return process(data, holder),
            Some(_) => {
                return Err(Failure::failed(anyhow!("process {pid} holds {} and has not said how to ask it", data.display()))
                    .next("it is starting, stopping or stuck: look at its log; once it is gone, the folder itself is read"));
            }
            None => {
                return Err(Failure::failed(anyhow!("process {pid} has just let go of {}", data.display()))
                    .next("run the command again: the folder itself is read then"));
            }
        }
    }
}

impl System {
    /// Asks, and hands each line of the answer to `visit` until it breaks.
    pub fn ask(&self, query: &Query, visit: &mut dyn FnMut(&str) -> Result<ControlFlow<()>, Failure>) -> Result<(), Failure> {
        match self {
            System::Direct(parts) => {
                let mut lines = Lines { visit, failure: None };
                let answered = read::answer(parts, query, Role::Reveal, &mut lines);
                if let Some(failure) = lines.failure {
                    return Err(failure);
                }
                let of_log = |cause: &(dyn std::error::Error + 'static)| cause.is::<LogError>() || cause.is::<FindError>();
                answered.map_err(|error| match parts.log_is_shared && error.chain().any(of_log) {
                    true => Failure::from(error).next("`forebay topics check` says whether Kafka answers and what it refuses"),
                    false => error.into(),
                })
            }
            System::Process { url, token } => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::failed)?;
                runtime.block_on(ask(url, token, query, visit))
            }
        }
    }

    /// The whole answer, parsed.
    pub fn answers(&self, query: &Query) -> Result<Vec<serde_json::Value>, Failure> {
        let mut answers = Vec::new();
        self.ask(query, &mut |line| {
            answers.push(serde_json::from_str(line).map_err(Failure::failed)?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(answers)
    }
}

struct Lines<'a> {
    visit: &'a mut dyn FnMut(&str) -> Result<ControlFlow<()>, Failure>,
    failure: Option<Failure>,
}

impl Answer for Lines<'_> {
    fn line(&mut self, line: String) -> ControlFlow<()> {
        match (self.visit)(&line) {
            Ok(flow) => flow,
            Err(failure) => {
                self.failure = Some(failure);
                ControlFlow::Break(())
            }
        }
    }
    fn is_open(&self) -> bool {
        true
    }
}

async fn ask(
    url: &str,
    token: &str,
    query: &Query,
    visit: &mut dyn FnMut(&str) -> Result<ControlFlow<()>, Failure>,
) -> Result<(), Failure> {
    let (path, parameters) = query.to_path();
    let sent = reqwest::Client::new().get(format!("{url}/api/{path}")).query(&parameters).bearer_auth(token).send().await;
    let mut answer = sent
        .with_context(|| format!("{url} does not answer"))
        .or_next(|| "is the system running, and is this its admin address?".to_owned())?;
    if !answer.status().is_success() {
        return Err(refusal(answer).await);
    }
    let mut left = Vec::new();
    loop {
        let chunk = answer.chunk().await.context("the answer breaks off").or_next(|| "look at the system's log".to_owned())?;
        let Some(chunk) = chunk else { break };
        left.extend_from_slice(&chunk);
        let mut from = 0;
        while let Some(end) = left[from..].iter().position(|b| *b == b'\n') {
            let line = std::str::from_utf8(&left[from..from + end]).map_err(Failure::failed)?;
            from += end + 1;
            // The last line of an answer that failed on the way says so.
            if let Some(detail) = line.strip_prefix("{\"_error\":") {
                let detail: String = serde_json::from_str(detail.trim_end_matches('}')).map_err(Failure::failed)?;
                return Err(Failure::failed(anyhow!(detail)));
            }
            if visit(line)?.is_break() {
                return Ok(());
            }
        }
        left.drain(..from);
    }
    Ok(())
}

async fn refusal(answer: reqwest::Response) -> Failure {
    let status = answer.status();
    let problem: serde_json::Value = answer.json().await.unwrap_or_default();
    let detail = problem["detail"].as_str().unwrap_or("no reason given").to_owned();
    let failure = Failure::failed(anyhow!("the system answers {}: {detail}", status.as_u16()));
    match status.as_u16() {
        401 => failure.next("the token is not of this process: take it anew from admin.json"),
        403 => failure.next("ask with the token of all roles"),
        _ => failure,
    }
}
