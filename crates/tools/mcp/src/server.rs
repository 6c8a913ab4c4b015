//! A supervised server: connects when it is needed, again after a loss, and not too often.
//!
//! Decision: a server whose definitions are recorded starts with the first call of one of its
//! tools, so an idle gateway runs no servers. Another one starts in the background, is tried until
//! it was seen once, and is recorded. After a loss the next call connects again: the first time at
//! once, then with growing, randomly shortened pauses; a call within a pause fails at once.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::McpError;
use crate::config::McpServerConfig;
use crate::content::Answer;
use crate::definition::{Comparison, Definition, DefinitionKind};
use crate::name::tool_name;
use crate::oauth::Access;
use crate::output::OutputTail;
use crate::servers::Shared;
use crate::session::{Connection, RequestFailure, Running, START_TIMEOUT, Session};
use crate::tool::McpTool;
use nanobot_types::Effect;

/// First pause after a failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause after failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Time after which a connection counts as stable: its loss starts the pauses anew.
const STABLE: Duration = Duration::from_secs(60);
/// Interval between checks for a login of the operator.
const LOGIN_POLL: Duration = Duration::from_secs(2);
/// Least time between two readings of changed lists.
const RELIST_PAUSE: Duration = Duration::from_secs(1);

/// State of the connection.
#[derive(Clone, Debug)]
enum Link {
    Idle,
    Connecting,
    Up(Session),
    Down { error: String, retry_at: Instant },
}

/// A server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) config: McpServerConfig,
    pub(crate) shared: Arc<Shared>,
    link: watch::Sender<Link>,
    tools: Mutex<Vec<Arc<McpTool>>>,
    /// Definitions that wait for approval, with the names of their tools.
    new: Mutex<Vec<(String, Definition)>>,
    /// `true` if the definitions are known.
    is_known: watch::Sender<bool>,
    failures: AtomicU32,
    connections: AtomicU64,
    tail: OutputTail,
    access: Arc<Access>,
}

/// Failure of a call.
#[derive(Debug)]
pub(crate) enum CallFailure {
    /// The server cannot be connected to.
    Unavailable(McpError),
    /// The server did not answer in time.
    Timeout,
    /// The request failed.
    Request(RequestFailure),
}

impl Server {
    pub(crate) fn new(name: String, config: McpServerConfig, shared: Arc<Shared>) -> Self {
        let access = Arc::new(Access::new(
            &name,
            config.login_url(),
            shared.grants.clone(),
            shared.opened.clone(),
            shared.secrets.clone(),
        ));
        Self {
            access,
            name,
            config,
            shared,
            link: watch::Sender::new(Link::Idle),
            tools: Mutex::default(),
            new: Mutex::default(),
            is_known: watch::Sender::new(false),
            failures: AtomicU32::new(0),
            connections: AtomicU64::new(0),
            tail: OutputTail::default(),
        }
    }

    /// `true` if the definitions of the server are known.
    pub(crate) fn is_known(&self) -> bool {
        *self.is_known.borrow()
    }

    /// Returns a word for the state of the connection, and the last failure.
    pub(crate) fn state(&self) -> (&'static str, Option<String>) {
        match &*self.link.borrow() {
            Link::Idle => ("idle", None),
            Link::Connecting => ("connecting", None),
            Link::Up(_) => ("connected", None),
            Link::Down { error, .. } => ("unavailable", Some(error.clone())),
        }
    }

    /// Connects until the server was seen once.
    pub(crate) async fn discover(self: Arc<Self>) {
        while self.session().await.is_err() {
            let retry_at = match &*self.link.borrow() {
                Link::Down { retry_at, .. } => *retry_at,
                _ => Instant::now() + FIRST_PAUSE,
            };
            self.wait_until(retry_at).await;
        }
    }

    /// Waits. A login of the operator ends the wait.
    async fn wait_until(&self, end: Instant) {
        if !self.access.needs_login() {
            tokio::time::sleep_until(end).await;
        }
        while Instant::now() < end && !self.access.has_new_login().await {
            tokio::time::sleep_until(end.min(Instant::now() + LOGIN_POLL)).await;
        }
    }

    /// Returns the connection, and makes one if there is none. Callers at the same time share it.
    ///
    /// # Errors
    /// Returns [`McpError::Unavailable`] if it cannot be made now.
    pub(crate) async fn session(self: &Arc<Self>) -> Result<Session, McpError> {
        let has_new_login = self.access.has_new_login().await;
        let begins = self.link.send_if_modified(|link| {
            let is_due = match link {
                Link::Idle => true,
                Link::Connecting => false,
                Link::Up(session) => session.has_ended(),
                Link::Down { retry_at, .. } => has_new_login || *retry_at <= Instant::now(),
            };
            if is_due {
                *link = Link::Connecting;
            }
            is_due
        });
        if begins {
            let server = Arc::clone(self);
            self.shared.tasks.spawn(server.connect());
        }
        let mut link = self.link.subscribe();
        let settled = link
            .wait_for(|link| !matches!(link, Link::Connecting))
            .await;
        match settled.as_deref() {
            Ok(Link::Up(session)) => Ok(session.clone()),
            Ok(Link::Down { error, .. }) => Err(McpError::Unavailable(error.clone())),
            _ => Err(McpError::Unavailable("it is shutting down".to_owned())),
        }
    }

    async fn connect(self: Arc<Self>) {
        let cancel = self.shared.cancel.clone();
        let opening = tokio::time::timeout(START_TIMEOUT, self.open());
        let outcome = match cancel.run_until_cancelled(opening).await {
            None => {
                self.link.send_replace(Link::Idle);
                return;
            }
            Some(Ok(outcome)) => outcome,
            Some(Err(_elapsed)) => Err(McpError::Timeout {
                seconds: START_TIMEOUT.as_secs(),
            }),
        };
        match outcome {
            Ok((session, running)) => {
                tracing::info!(server = %self.name, "connected to an MCP server");
                self.link.send_replace(Link::Up(session.clone()));
                self.watch(session, running).await;
            }
            Err(error) => self.failed(&error).await,
        }
    }

    async fn open(self: &Arc<Self>) -> Result<(Session, Running), McpError> {
        let connection = Connection {
            name: &self.name,
            config: &self.config,
            number: self.connections.fetch_add(1, Ordering::Relaxed),
            end: self.shared.cancel.child_token(),
            tasks: &self.shared.tasks,
            tail: &self.tail,
            access: &self.access,
        };
        let (session, running) = connection.open().await?;
        self.read_lists(&session).await?;
        Ok((session, running))
    }

    /// Follows a connection until it ends.
    async fn watch(self: &Arc<Self>, session: Session, running: Running) {
        let began = Instant::now();
        let mut ended = std::pin::pin!(running.waiting());
        loop {
            tokio::select! {
                _ = &mut ended => break,
                () = session.list_changed() => {}
            }
            let relist = async {
                let listed = tokio::time::timeout(START_TIMEOUT, self.read_lists(&session)).await;
                if let Ok(Err(error)) = listed {
                    let error = error.chain();
                    tracing::warn!(server = %self.name, error, "could not read the changed lists of an MCP server");
                }
                // A server that reports changes all the time is read at this rate.
                tokio::time::sleep(RELIST_PAUSE).await;
            };
            tokio::select! {
                _ = &mut ended => break,
                () = relist => {}
            }
        }
        session.end();
        if self.shared.cancel.is_cancelled() {
            self.link.send_replace(Link::Idle);
            return;
        }
        if began.elapsed() >= STABLE {
            self.failures.store(0, Ordering::Relaxed);
        }
        let pause = pause(self.failures.fetch_add(1, Ordering::Relaxed));
        tracing::warn!(server = %self.name, pause_ms = pause.as_millis(), "the connection to an MCP server ended");
        let down = Link::Down {
            error: "the connection ended".to_owned(),
            retry_at: Instant::now() + pause,
        };
        self.link.send_if_modified(|link| {
            let is_current = matches!(link, Link::Up(current) if current.number == session.number);
            if is_current {
                *link = down;
            }
            is_current
        });
    }

    async fn failed(&self, error: &McpError) {
        let mut text = error.chain();
        let said = self.tail.text();
        if !said.is_empty() {
            text.push_str(&format!(" (it said: {said})"));
        }
        let failures = self.failures.fetch_add(1, Ordering::Relaxed);
        let pause = pause(failures.saturating_add(1));
        tracing::warn!(server = %self.name, error = text, "an MCP server is unavailable");
        let (record, name) = (self.shared.record.clone(), self.name.clone());
        let (config, failure) = (self.config.clone(), text.clone());
        let noted =
            tokio::task::spawn_blocking(move || record.fail(&name, &config, &failure)).await;
        if let Ok(Err(error)) = noted {
            tracing::warn!(
                error = error.chain(),
                "could not record the failure of an MCP server"
            );
        }
        self.link.send_replace(Link::Down {
            error: text,
            retry_at: Instant::now() + pause,
        });
    }

    /// Reads what the server offers and adopts it.
    async fn read_lists(self: &Arc<Self>, session: &Session) -> Result<(), McpError> {
        let with_others = self.config.enabled_tools.iter().any(|name| name == "*");
        let offered = session.definitions(&self.name, with_others).await?;
        let (record, name) = (self.shared.record.clone(), self.name.clone());
        let config = self.config.clone();
        let compare =
            tokio::task::spawn_blocking(move || record.compare(&name, &config, &offered)).await;
        let comparison = compare.map_err(|error| McpError::Session(error.to_string()))??;
        for withheld in comparison.changed.iter().chain(&comparison.new) {
            let (server, tool) = (self.name.as_str(), withheld.name.as_str());
            tracing::warn!(
                server,
                tool,
                "a tool of an MCP server changed or is new, and is withheld until it is approved"
            );
        }
        self.adopt(comparison);
        Ok(())
    }

    /// Makes these definitions the tools of the server.
    pub(crate) fn adopt(self: &Arc<Self>, comparison: Comparison) {
        let Comparison {
            mut used,
            changed,
            new,
        } = comparison;
        let is_new = |one: &Definition| new.iter().any(|new| new.key() == one.key());
        used.extend_from_slice(&new);
        let (waiting, wanted): (Vec<_>, Vec<_>) = self
            .named(used)
            .into_iter()
            .partition(|(_, definition)| is_new(definition));
        *self.lock_new() = waiting;
        let mut tools = self.lock_tools();
        tools.retain(|tool| {
            let stays = wanted
                .iter()
                .any(|(name, definition)| *name == *tool.name() && *definition == tool.definition);
            if !stays {
                self.shared.unregister(tool);
            }
            stays
        });
        let new: Vec<(String, Definition)> = wanted
            .into_iter()
            .filter(|(name, _)| !tools.iter().any(|tool| tool.name() == name))
            .collect();
        let tokens = new.iter().map(|(_, definition)| definition.tokens()).sum();
        let was_deferred = tools.iter().any(|tool| tool.is_deferred);
        let is_deferred = was_deferred || !self.shared.takes(tokens);
        for (name, definition) in new {
            let tool = Arc::new(McpTool::new(name, definition, self, is_deferred));
            self.shared.register(&tool);
            tools.push(tool);
        }
        for tool in tools.iter() {
            let is_changed = changed.iter().any(|one| one.key() == tool.definition.key());
            tool.withhold(is_changed);
        }
        drop(tools);
        self.is_known.send_replace(true);
    }

    /// Returns the definitions that the model may use, with the names of their tools.
    fn named(&self, definitions: Vec<Definition>) -> Vec<(String, Definition)> {
        let enabled: HashSet<&str> = self
            .config
            .enabled_tools
            .iter()
            .map(String::as_str)
            .collect();
        let has_all = enabled.contains("*");
        let (mut named, mut all, mut used) = (Vec::new(), Vec::new(), HashSet::new());
        for definition in definitions {
            let (own, kind) = (definition.name.clone(), definition.kind);
            let servers = self.shared.names.iter().map(String::as_str);
            let name = tool_name(&self.name, kind.infix(), &own, servers);
            let is_tool = kind == DefinitionKind::Tool;
            let is_named =
                is_tool && (enabled.contains(own.as_str()) || enabled.contains(name.as_str()));
            used.extend([own.clone(), name.clone()]);
            all.push((own, name.clone()));
            if has_all || is_named {
                named.push((name, definition));
            }
        }
        let unmatched: Vec<&str> = enabled
            .into_iter()
            .filter(|name| *name != "*" && !used.contains(*name))
            .collect();
        if !unmatched.is_empty() {
            let own: Vec<&str> = all.iter().map(|(own, _)| own.as_str()).collect();
            let full: Vec<&str> = all.iter().map(|(_, full)| full.as_str()).collect();
            tracing::warn!(
                server = %self.name, ?unmatched, own = own.join(", "), full = full.join(", "),
                "enabledTools names tools that the MCP server does not have"
            );
        }
        named
    }

    /// Calls a tool. A call that the server cannot have received, or that changes nothing, is tried
    /// once more after a loss of the connection.
    pub(crate) async fn call(
        self: &Arc<Self>,
        definition: &Definition,
        arguments: Map<String, Value>,
    ) -> Result<Answer, CallFailure> {
        let mut is_repeated = false;
        loop {
            let session = self.session().await.map_err(CallFailure::Unavailable)?;
            let request = session.request(definition, arguments.clone());
            let answer = tokio::time::timeout(self.config.timeout(), request).await;
            let failure = match answer.map_err(|_elapsed| CallFailure::Timeout)? {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let may_repeat = match failure {
                RequestFailure::NotSent => true,
                RequestFailure::Lost => definition.effect != Effect::Irreversible,
                RequestFailure::Cancelled | RequestFailure::Refused(_) => false,
            };
            if is_repeated || !may_repeat {
                return Err(CallFailure::Request(failure));
            }
            is_repeated = true;
            session.end();
        }
    }

    /// Returns the tools.
    pub(crate) fn tools(&self) -> Vec<Arc<McpTool>> {
        self.lock_tools().clone()
    }

    /// Returns the definitions that wait for their first approval, with the names of their tools.
    pub(crate) fn new_tools(&self) -> Vec<(String, Definition)> {
        self.lock_new().clone()
    }

    fn lock_new(&self) -> MutexGuard<'_, Vec<(String, Definition)>> {
        self.new.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_tools(&self) -> MutexGuard<'_, Vec<Arc<McpTool>>> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the pause after a number of failures: 0 at first, then doubled each time, shortened by a
/// random part of up to one half.
fn pause(failures: u32) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else {
        return Duration::ZERO;
    };
    let longest = FIRST_PAUSE
        .saturating_mul(2_u32.saturating_pow(doublings))
        .min(LONGEST_PAUSE);
    let half = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX) / 2;
    let random = RandomState::new().build_hasher().finish();
    Duration::from_millis(half + random % (half + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit() {
        assert_eq!(pause(0), Duration::ZERO);
        for (failures, longest) in [(1, 1), (2, 2), (5, 16), (20, 300), (u32::MAX, 300)] {
            let longest = Duration::from_secs(longest);
            let found = pause(failures);
            assert!(
                found <= longest && found >= longest / 2,
                "{failures}: {found:?}"
            );
        }
    }
}
