//! The `cron` tool, with which the assistant sets reminders.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_tool::{CallReview, CallRisk, ToolContext, ToolError, TypedTool};
use nanobot_types::{DeliveryContext, Effect, Origin, SessionKey, SessionKind, UNTRUSTED_KEY};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::job::{Job, JobSchedule, Payload, RunStatus};
use crate::zone::{Zone, zone_named};
use crate::{
    Clock, CronError, CronSettings, JobHost, JobStore, Schedule, ScheduleError, due_time,
    interval_seconds,
};

/// Length of a job's name, which is the beginning of its message, in characters.
const NAME_LENGTH: usize = 30;

/// Maps sessions to owners.
#[async_trait]
pub trait SessionOwners: Send + Sync + std::fmt::Debug {
    /// Returns the owner's name, which stays the same as long as the session is theirs; `None` if
    /// nothing is separated by owner.
    async fn owner(&self, session: &SessionKey) -> Option<String>;
}

/// Has no owners: all sessions share all jobs.
#[derive(Debug)]
struct NoOwners;

#[async_trait]
impl SessionOwners for NoOwners {
    async fn owner(&self, _session: &SessionKey) -> Option<String> {
        None
    }
}

/// The caller: an owner and a chat.
struct Caller {
    owner: Option<String>,
    channel: String,
    chat: String,
}

impl Caller {
    /// Returns `true` if the job belongs to the caller. A job without an owner belongs to the chat
    /// that it writes to.
    fn owns(&self, job: &Job) -> bool {
        let Some(own) = &self.owner else { return true };
        let writes_here = job.payload.channel.as_ref() == Some(&self.channel)
            && job.payload.to.as_ref() == Some(&self.chat);
        job.owner.as_ref().map_or(writes_here, |owner| owner == own)
    }
}

/// Tool that adds, lists and removes jobs.
#[derive(Clone, Debug)]
pub struct CronTool {
    store: JobStore,
    clock: Arc<dyn Clock>,
    settings: CronSettings,
    zone: Zone,
    owners: Arc<dyn SessionOwners>,
    host: JobHost,
}

impl CronTool {
    /// Creates a tool that changes `store`. Times without a zone are in `zone`.
    #[must_use]
    pub fn new(store: JobStore, clock: Arc<dyn Clock>, settings: CronSettings, zone: Zone) -> Self {
        Self {
            store,
            clock,
            settings,
            zone,
            owners: Arc::new(NoOwners),
            host: JobHost::Gateway,
        }
    }

    /// States the limits of `host` in the result of a new job, and in a notice for the user.
    #[must_use]
    pub fn with_host(self, host: JobHost) -> Self {
        Self { host, ..self }
    }

    /// Makes jobs visible and removable only in conversations of their owner.
    #[must_use]
    pub fn with_owners(self, owners: Arc<dyn SessionOwners>) -> Self {
        Self { owners, ..self }
    }
}

/// Arguments of `cron`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CronArguments {
    action: Action,
    /// What you are told then; this conversation is not seen
    #[serde(default, alias = "description")]
    message: Option<String>,
    #[serde(default)]
    every_seconds: Option<i64>,
    #[serde(default)]
    cron_expr: Option<String>,
    /// IANA zone
    #[serde(default)]
    tz: Option<String>,
    /// Local time as 2026-12-24T18:00, or `in 20m`
    #[serde(default)]
    at: Option<String>,
    #[serde(default, alias = "id")]
    job_id: Option<String>,
    /// Instead of the above: a time, an expression, or `every 600`.
    #[serde(default)]
    #[schemars(skip)]
    schedule: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Add,
    List,
    Remove,
}

impl TypedTool for CronTool {
    type Args = CronArguments;
    const NAME: &'static str = "cron";
    const DESCRIPTION: &'static str =
        "Reminders and repeating tasks. To add, give one of at, every_seconds, cron_expr.";
    const EFFECT: Effect = Effect::Irreversible;

    async fn review(&self, arguments: &Value, _: &ToolContext) -> CallReview {
        let risk = match arguments.get("action").and_then(Value::as_str) {
            Some("list") => CallRisk::None,
            _ => CallRisk::NeedsConsent("changes my jobs".to_owned()),
        };
        CallReview {
            risk,
            ..CallReview::default()
        }
    }

    async fn call(
        &self,
        arguments: CronArguments,
        context: &ToolContext,
    ) -> Result<String, ToolError> {
        let asker = Caller {
            owner: self.owners.owner(&context.session).await,
            channel: context.channel.to_string(),
            chat: context.chat_id.to_string(),
        };
        let job = match arguments.action {
            Action::Add => Some((
                self.job(&arguments, context)?,
                arguments.ignored_arguments(),
            )),
            Action::List | Action::Remove => None,
        };
        let own = self.clone();
        let id = arguments.job_id;
        let done = tokio::task::spawn_blocking(move || match (arguments.action, job) {
            (Action::Add, Some((job, note))) => own.add(job, asker.owner, &note),
            (Action::Remove, _) => own.remove(id.as_deref(), &asker),
            (Action::List | Action::Add, _) => own.list(&asker),
        });
        done.await
            .map_err(|error| ToolError::new(error.to_string()))?
    }
}

impl CronArguments {
    /// Returns a sentence about the arguments that were ignored.
    fn ignored_arguments(&self) -> String {
        let is_set =
            |text: &Option<String>| text.as_deref().is_some_and(|text| !text.trim().is_empty());
        let (every, cron, at) = (
            self.every_seconds.is_some(),
            is_set(&self.cron_expr),
            is_set(&self.at),
        );
        let others = [
            ("cron_expr", cron && every),
            ("at", at && (every || cron)),
            ("schedule", is_set(&self.schedule) && (every || cron || at)),
            ("tz", is_set(&self.tz) && every),
        ];
        let ignored: Vec<&str> = others
            .into_iter()
            .filter(|(_, is_ignored)| *is_ignored)
            .map(|(name, _)| name)
            .collect();
        match ignored.as_slice() {
            [] => String::new(),
            names => {
                let counts = if every {
                    "every_seconds"
                } else if cron {
                    "cron_expr"
                } else {
                    "at"
                };
                format!(" Ignored because {counts} is set: {}.", names.join(", "))
            }
        }
    }
}

impl CronTool {
    fn job(&self, arguments: &CronArguments, context: &ToolContext) -> Result<Job, ToolError> {
        let in_job = matches!(context.origin, Origin::Cron { .. })
            || context.session.kind() == SessionKind::Job;
        if in_job && !self.settings.jobs_may_add_jobs {
            return Err(
                "cannot schedule new jobs from within a scheduled job; its own schedule goes on"
                    .into(),
            );
        }
        let message = arguments
            .message
            .as_deref()
            .map(str::trim)
            .filter(|message| !message.is_empty());
        let message = message.ok_or("message is required for add")?;
        let schedule = self
            .parse_schedule(arguments)
            .map_err(|error| tool_error(&error))?;
        self.check_interval(&schedule)
            .map_err(|error| tool_error(&error))?;
        let name: String = message.chars().take(NAME_LENGTH).collect();
        let delivery = DeliveryContext {
            reply_to: None,
            ..context.delivery.clone()
        };
        // The runs of a job do what strangers may have wanted when it was made.
        let untrusted = context.untrusted.as_deref();
        let mark = untrusted.map(|origin| (UNTRUSTED_KEY.to_owned(), origin.into()));
        let payload = Payload {
            extra: mark.into_iter().collect(),
            message: message.to_owned(),
            deliver: true,
            channel: Some(context.channel.to_string()),
            to: Some(context.chat_id.to_string()),
            delivery: Some(delivery),
            ..Payload::default()
        };
        Ok(Job::new(&name, schedule, payload, self.clock.now()))
    }

    fn parse_schedule(&self, arguments: &CronArguments) -> Result<JobSchedule, CronError> {
        let zone = arguments
            .tz
            .as_deref()
            .filter(|name| !name.is_empty())
            .map_or(Ok(self.zone), zone_named)?;
        let now = self.clock.now();
        let given = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
        if let Some(seconds) = arguments.every_seconds {
            return Ok(JobSchedule::every_seconds(seconds));
        }
        if let Some(expression) = given(&arguments.cron_expr) {
            return Ok(JobSchedule::cron(expression.trim(), zone));
        }
        if let Some(at) = given(&arguments.at) {
            return Ok(JobSchedule::at(due_time(&at, now, zone)?));
        }
        let text = given(&arguments.schedule).unwrap_or_default();
        if text.trim_start().to_ascii_lowercase().starts_with("every") {
            return Ok(JobSchedule::every_seconds(interval_seconds(&text)?));
        }
        if Schedule::cron(&text, zone).is_ok() {
            return Ok(JobSchedule::cron(text.trim(), zone));
        }
        Ok(JobSchedule::at(due_time(&text, now, zone)?))
    }

    /// Rejects a schedule that runs too often, because each run is a turn of a model.
    fn check_interval(&self, when: &JobSchedule) -> Result<(), CronError> {
        let gap = when
            .schedule(self.zone)?
            .shortest_gap(self.clock.now())
            .map(|gap| gap.num_milliseconds());
        let allowed = self.settings.min_interval_seconds;
        match gap.filter(|gap| *gap < i64::from(allowed) * 1000) {
            Some(gap) => Err(ScheduleError::TooOften {
                seconds: gap / 1000,
                allowed,
            }
            .into()),
            None => Ok(()),
        }
    }

    fn add(&self, mut job: Job, owner: Option<String>, note: &str) -> Result<String, ToolError> {
        job.owner = owner;
        let job = self
            .store
            .add(job, self.clock.now(), self.zone)
            .map_err(|error| tool_error(&error))?;
        let next = job.next_in_words(self.zone).unwrap_or_default();
        let limits = match self.host.limits(&job) {
            Some(limits) => {
                self.notify(format!("Job '{}': {limits}", job.name));
                format!(" {limits} Tell the user so.")
            }
            None => String::new(),
        };
        Ok(format!(
            "Created job '{}' (id: {}). Next run: {next}.{limits}{note}",
            job.name, job.id
        ))
    }

    fn notify(&self, notice: String) {
        if let JobHost::Prompt { notices } = &self.host
            && let Err(error) = notices.try_send(notice)
        {
            tracing::debug!(%error, "a notice about a job was not shown");
        }
    }

    fn remove(&self, id: Option<&str>, asker: &Caller) -> Result<String, ToolError> {
        let id = id
            .map(str::trim)
            .filter(|id| !id.is_empty())
            .ok_or("job_id is required for remove")?;
        match self.store.remove_if(id, |job| asker.owns(job)) {
            Ok(job) => Ok(format!("Removed job {}", job.id)),
            Err(error) => Err(tool_error(&error)),
        }
    }

    fn list(&self, asker: &Caller) -> Result<String, ToolError> {
        let jobs = self.store.read().map_err(|error| tool_error(&error))?;
        let lines: Vec<String> = jobs
            .iter()
            .filter(|job| asker.owns(job))
            .map(|job| self.line(job))
            .collect();
        if lines.is_empty() {
            return Ok("No scheduled jobs.".to_owned());
        }
        Ok(format!("Scheduled jobs:\n{}", lines.join("\n")))
    }

    fn line(&self, job: &Job) -> String {
        let next = job
            .next_in_words(self.zone)
            .map_or_else(|| "does not run".to_owned(), |next| format!("next: {next}"));
        let last = match (job.state.last_status, &job.state.last_error) {
            (None, _) => String::new(),
            (Some(RunStatus::Ok), _) => ", last: ok".to_owned(),
            (Some(_), why) => format!(", last: {}", why.as_deref().unwrap_or("failed")),
        };
        let (name, id, kind) = (&job.name, &job.id, &job.schedule.kind);
        format!(
            "- {name} (id: {id}, {kind}): {}, {next}{last}",
            job.schedule.describe(self.zone)
        )
    }
}

/// Formats an error with its cause, on one line.
fn tool_error(error: &CronError) -> ToolError {
    let why = std::error::Error::source(error)
        .map(|source| format!(": {source}"))
        .unwrap_or_default();
    ToolError::new(format!("{error}{why}"))
}
