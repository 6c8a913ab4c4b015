//! `nanobot cron`: adds, lists, runs, pauses and removes jobs. Works next to a running gateway: the
//! file is locked for each change, and the gateway notices changes.

use std::process::ExitCode;

use chrono::{DateTime, Utc};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use nanobot_runtime::jobs::{
    CronError, Job, JobSchedule, Payload, RunStatus, Zone, due_time, format_time, interval_seconds,
    time_after, zone_named,
};
use nanobot_runtime::types::TERMINAL_CHANNEL;
use nanobot_runtime::{JobScheduling, RemoteGateway, Runtime, RuntimeBuilder, channels_status};

use super::{block_on, prepare_write};
use crate::failure::{CommandFailure, USAGE};
use crate::output::{self, sanitize};

/// Subcommands of `nanobot cron`.
#[derive(Debug, Subcommand)]
pub(crate) enum CronCommand {
    /// Add a job, which the gateway runs
    Add(CronAddArguments),
    /// List jobs, the next one to run first
    List {
        /// Also those that do not run
        #[arg(short, long)]
        all: bool,
    },
    /// Show a job as it is stored
    Show {
        /// Its id, as `cron list` shows it
        id: String,
    },
    /// Run a job now, in addition to its schedule
    Run {
        /// Id of the job
        id: String,
    },
    /// Pause a job
    Pause {
        /// Id of the job
        id: String,
    },
    /// Resume a paused job
    Resume {
        /// Id of the job
        id: String,
    },
    /// Remove a job
    Remove {
        /// Id of the job
        id: String,
    },
    /// Show the last runs of a job
    History {
        /// Id of the job
        id: String,
    },
}

/// Options of `cron add`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("when").required(true).args(["every", "cron", "at", "within"]))]
pub(crate) struct CronAddArguments {
    /// Instruction for the assistant at each run
    #[arg(short, long, value_name = "TEXT")]
    message: String,
    /// Name of the job [default: the beginning of its message]
    #[arg(short, long)]
    name: Option<String>,
    /// Interval: 10m, 1h, "2 days", or seconds
    #[arg(
        short,
        long,
        value_name = "INTERVAL",
        allow_negative_numbers = true,
        conflicts_with = "tz"
    )]
    every: Option<String>,
    /// Cron expression: minute, hour, day of month, month, day of week, and optionally seconds
    #[arg(long, value_name = "EXPRESSION")]
    cron: Option<String>,
    /// IANA time zone [default: `cron.timezone`, else that of this computer]
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// Run once, at this local time: 18:00, "tomorrow 9:00", 2026-12-24T18:00
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// Run once, after this time: 20m, 2h, "3 days"
    #[arg(
        id = "within",
        long = "in",
        value_name = "INTERVAL",
        allow_negative_numbers = true,
        conflicts_with = "tz"
    )]
    within: Option<String>,
    /// Send the answer to `--channel` and `--to`
    #[arg(short, long, requires = "to", requires = "channel")]
    deliver: bool,
    /// Chat to send to
    #[arg(long, value_name = "CHAT", value_parser = NonEmptyStringValueParser::new())]
    to: Option<String>,
    /// Channel to send with
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    channel: Option<String>,
}

/// Length of a job's name that is made of its message, in characters.
const NAME_LENGTH: usize = 30;

/// Runs a subcommand.
///
/// # Errors
/// Returns an error if there is no such job, it would never run, or the file cannot be read or
/// written.
pub(crate) fn cron(
    program: &RuntimeBuilder,
    command: CronCommand,
) -> Result<ExitCode, CommandFailure> {
    let runtime = program.build()?;
    let config = runtime.config();
    let scheduling = JobScheduling::of(config)?;
    let JobScheduling { store, zone, .. } = &scheduling;
    let (now, zone) = (Utc::now(), *zone);
    let is_change = match command {
        // Its arguments are checked first.
        CronCommand::Add(_)
        | CronCommand::List { .. }
        | CronCommand::Show { .. }
        | CronCommand::History { .. } => false,
        CronCommand::Run { .. }
        | CronCommand::Pause { .. }
        | CronCommand::Resume { .. }
        | CronCommand::Remove { .. } => true,
    };
    if is_change {
        block_on(prepare_write(&runtime))?;
    }
    let text = match command {
        CronCommand::Add(arguments) => {
            let (job, zone) = job(arguments, now, zone)?;
            let hints = hints(&runtime, &job, now, zone)?;
            block_on(prepare_write(&runtime))?;
            let job = store.add(job, now, zone).map_err(|error| refused(&error))?;
            hints.iter().for_each(|hint| output::note(hint));
            format!(
                "Created job '{}' (id: {}). {} {}\n",
                sanitize(&job.name),
                job.id,
                next(&job, zone),
                delivery(&job)
            )
        }
        CronCommand::List { all } => format_list(&scheduling, all)?,
        CronCommand::Show { id } => {
            let job = find(&scheduling, &id)?;
            let json = crate::commands::json(&job).unwrap_or_default();
            format!(
                "{}: {}\n{} {}\n{}\n",
                job.id,
                job.schedule.describe(zone),
                next(&job, zone),
                delivery(&job),
                sanitize(&json)
            )
        }
        CronCommand::Run { id } => {
            let job = store.run_now(&id, now).map_err(|error| failed(&error))?;
            format!(
                "Job {} runs as soon as {} of this home sees it.\n",
                job.id,
                firing_host(&job)
            )
        }
        CronCommand::Pause { id } => {
            let job = store
                .enable(&id, false, now, zone)
                .map_err(|error| failed(&error))?;
            format!("Job {} is paused.\n", job.id)
        }
        CronCommand::Resume { id } => {
            let job = store
                .enable(&id, true, now, zone)
                .map_err(|error| failed(&error))?;
            format!("Job {} runs again. {}\n", job.id, next(&job, zone))
        }
        CronCommand::Remove { id } => {
            let job = store.remove(&id).map_err(|error| failed(&error))?;
            format!("Removed job {}\n", job.id)
        }
        CronCommand::History { id } => history(&find(&scheduling, &id)?, zone),
    };
    output::write(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the requested job, and the time zone of its times.
fn job(
    arguments: CronAddArguments,
    now: DateTime<Utc>,
    home: Zone,
) -> Result<(Job, Zone), CommandFailure> {
    let CronAddArguments {
        message,
        name,
        every,
        cron,
        tz,
        at,
        within,
        deliver,
        to,
        channel,
    } = arguments;
    if message.trim().is_empty() {
        let remedy = "Give --message the instruction for the assistant.";
        let what = "the message is empty".to_owned();
        return Err(CommandFailure::Said {
            what,
            remedy: Some(remedy.to_owned()),
            code: USAGE,
        });
    }
    let zone = tz
        .as_deref()
        .map_or(Ok(home), zone_named)
        .map_err(|error| refused(&error.into()))?;
    let when = match (every, cron, within, at) {
        (Some(interval), ..) => interval_seconds(&interval).map(JobSchedule::every_seconds),
        (_, Some(expression), ..) => Ok(JobSchedule::cron(expression.trim(), zone)),
        (_, _, Some(interval), _) => time_after(&interval, now).map(JobSchedule::at),
        (.., at) => due_time(&at.unwrap_or_default(), now, zone).map(JobSchedule::at),
    };
    let when = when.map_err(|error| refused(&error.into()))?;
    let name = name.unwrap_or_else(|| message.chars().take(NAME_LENGTH).collect());
    let payload = Payload {
        message,
        deliver,
        channel,
        to,
        ..Payload::default()
    };
    Ok((Job::new(&name, when, payload, now), zone))
}

/// Returns hints for the user who waits for a new job to run.
fn hints(
    runtime: &Runtime,
    job: &Job,
    now: DateTime<Utc>,
    zone: Zone,
) -> Result<Vec<String>, CommandFailure> {
    nanobot_runtime::install_tls();
    let (gateway, channels) = block_on(async {
        let gateway = RemoteGateway::reach(runtime.config()).await;
        let channels = if gateway.is_ok() {
            channels_status(runtime, false).await.ok()
        } else {
            None
        };
        Ok((gateway, channels))
    })?;
    let mut hints = Vec::new();
    let gap = job
        .schedule
        .schedule(zone)
        .ok()
        .and_then(|schedule| schedule.shortest_gap(now));
    if let Some(seconds) = gap
        .map(|gap| gap.num_seconds())
        .filter(|seconds| (1..60).contains(seconds))
    {
        hints.push(format!(
            "It runs every {seconds} s; each run is a turn that the model is paid for."
        ));
    }
    let channel = job.payload.channel.as_deref().unwrap_or_default();
    if !job.payload.deliver {
        hints.push(
            "`--deliver` with `--channel` and `--to` sends the answer to a chat, `--channel cli --to direct` to the terminal."
                .to_owned(),
        );
    } else if channel != TERMINAL_CHANNEL
        && channels.is_some_and(|known| {
            !known
                .iter()
                .any(|one| one.enabled && one.name.as_str() == channel)
        })
    {
        hints.push(format!(
            "No channel called `{}` is enabled here: its answer will not arrive.",
            sanitize(channel)
        ));
    }
    match gateway {
        Ok(Some(_)) => {}
        Ok(None) => {
            hints.push(format!(
                "No gateway runs now. Only {} fires it.",
                firing_host(job)
            ));
        }
        Err(error) => hints.push(format!(
            "The job is written down, but {error}: `nanobot doctor` says what to do."
        )),
    }
    Ok(hints)
}

/// Returns the programs that fire a job.
fn firing_host(job: &Job) -> &'static str {
    match job.is_for_terminal() {
        true => "`nanobot gateway` or an open prompt (`nanobot agent`)",
        false => "`nanobot gateway`",
    }
}

/// Returns a sentence about the chat that receives the answers of a job.
fn delivery(job: &Job) -> String {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if !job.payload.deliver {
        return "Its answer is not sent.".to_owned();
    }
    let channel = given(&job.payload.channel).unwrap_or_else(|| TERMINAL_CHANNEL.to_owned());
    let chat = given(&job.payload.to).unwrap_or_else(|| "direct".to_owned());
    format!(
        "Its answer goes to {}:{}.",
        sanitize(&channel),
        sanitize(&chat)
    )
}

fn find(scheduling: &JobScheduling, id: &str) -> Result<Job, CommandFailure> {
    let mut jobs = scheduling.store.read().map_err(|error| failed(&error))?;
    let found = jobs.find(id).cloned();
    found.ok_or_else(|| failed(&CronError::Unknown { id: id.into() }))
}

fn format_list(scheduling: &JobScheduling, all: bool) -> Result<String, CommandFailure> {
    let jobs = scheduling.store.read().map_err(|error| failed(&error))?;
    let mut shown: Vec<&Job> = jobs.iter().filter(|job| all || job.enabled).collect();
    shown.sort_by_key(|job| job.state.next_run_at_ms.unwrap_or(i64::MAX));
    if jobs.unreadable() > 0 {
        let (path, count) = (scheduling.store.path().display(), jobs.unreadable());
        output::note(&format!(
            "{path}: {count} of its entries cannot be read as jobs and do not run; they are kept."
        ));
    }
    if shown.is_empty() {
        return Ok("No scheduled jobs.\n".to_owned());
    }
    let line = |job: &&Job| {
        let (id, name, zone) = (&job.id, sanitize(&job.name), scheduling.zone);
        format!(
            "{id}  {name}\n          {}. {} {}\n",
            sanitize(&job.schedule.describe(zone)),
            next(job, zone),
            delivery(job)
        )
    };
    Ok(shown.iter().map(line).collect())
}

fn next(job: &Job, zone: Zone) -> String {
    if job.enabled
        && let Err(error) = job.schedule.schedule(zone)
    {
        return format!("It cannot run: {error}.");
    }
    match job.next_in_words(zone) {
        Some(next) => format!("Next run: {next}."),
        None if job.enabled => "Next run: when a gateway has looked at it, if ever.".to_owned(),
        None => "It does not run.".to_owned(),
    }
}

fn history(job: &Job, zone: Zone) -> String {
    let zone = job.schedule.zone(zone).unwrap_or(zone);
    if job.state.run_history.is_empty() {
        return "It has not run yet.\n".to_owned();
    }
    let lines = job.state.run_history.iter().rev().map(|run| {
        let at = DateTime::from_timestamp_millis(run.run_at_ms)
            .map(|at| format_time(at, zone))
            .unwrap_or_default();
        let status = match run.status {
            RunStatus::Ok => "ok",
            RunStatus::Error => "error",
            RunStatus::Skipped => "skipped",
        };
        let why = run
            .error
            .as_deref()
            .map(|why| format!(": {}", sanitize(why)))
            .unwrap_or_default();
        let seconds = run.duration_ms / 1000;
        format!("{at}  {status} ({seconds} s){why}\n")
    });
    lines.collect()
}

/// Returns the failure of a command whose values are invalid, with the exit code for wrong usage.
fn refused(error: &CronError) -> CommandFailure {
    let failure = failed(error);
    match (error, failure) {
        (
            CronError::Schedule(_) | CronError::TooLong { .. },
            CommandFailure::Said { what, remedy, .. },
        ) => CommandFailure::Said {
            what,
            remedy,
            code: USAGE,
        },
        (_, failure) => failure,
    }
}

fn failed(error: &CronError) -> CommandFailure {
    let remedy = match error {
        CronError::Unknown { .. } => "`nanobot cron list --all` shows the ids.",
        CronError::Schedule(_) => "`nanobot cron add --help` says how times are written.",
        CronError::TooNew { .. } => {
            "Use the newer program, or move the file away to begin without jobs."
        }
        CronError::TooLong { .. } => "Give a shorter text.",
        CronError::Unreadable { .. } => "Look at that file; `nanobot doctor` says what it found.",
        CronError::Io { .. } => {
            "Look at the permissions of that file and of its folder, and at the room on its disk."
        }
    };
    CommandFailure::of(error, remedy)
}
