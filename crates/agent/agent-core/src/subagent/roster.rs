//! Who is at work now.
//!
//! Decision: kept in memory only. After a restart the ledger hands unfinished tasks out again, and
//! each enters anew.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nanobot_types::SessionKey;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::SubagentTask;

/// What a subagent is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubagentState {
    /// It waits for its turn.
    Waiting,
    /// It works.
    Working,
    /// It is done; the session that asked for it has not answered its result yet.
    Reporting,
}

/// A subagent as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentInfo {
    /// Its id.
    pub id: String,
    /// What it is called.
    pub label: String,
    /// The session that asked for it.
    pub parent: SessionKey,
    /// What it is at.
    pub state: SubagentState,
    /// How long it has been at that.
    pub since: Duration,
    /// The tools it called last.
    pub last_tool: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Roster {
    entries: Mutex<Entries>,
    /// Changes with every change.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Entries {
    by_id: HashMap<String, Entry>,
    numbers: u64,
}

#[derive(Debug)]
struct Entry {
    /// The order in which they came.
    number: u64,
    label: String,
    parent: SessionKey,
    state: SubagentState,
    since: Instant,
    last_tool: Option<String>,
    /// Whether somebody holds its task; until then it is only announced.
    is_taken: bool,
    /// Ends its wait or its turn.
    token: CancellationToken,
    stopped: Option<Stopped>,
}

/// What came of announcing a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announced {
    /// It is there now, behind so many that have not done their work.
    New { ahead: usize },
    /// It was there before.
    Known,
    /// There are too many.
    Refused,
}

/// That a subagent was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// The session that asked for it goes on and has to know.
    Told,
    /// The session that asked for it begins anew and has nothing to do with it any more.
    Untold,
}

impl Roster {
    /// Announces a task, so that it can be stopped before it is handed out, unless `bound` others
    /// are unfinished.
    pub(super) fn announce(&self, task: &SubagentTask, bound: usize) -> Announced {
        let mut entries = self.lock();
        if entries.by_id.contains_key(&task.id) {
            return Announced::Known;
        }
        let ahead = entries
            .by_id
            .values()
            .filter(|entry| entry.state != SubagentState::Reporting)
            .count();
        if ahead >= bound {
            return Announced::Refused;
        }
        entries.add(task);
        drop(entries);
        self.changed();
        Announced::New { ahead }
    }

    /// Takes an announcement back, unless its task was handed out meanwhile.
    pub(super) fn withdraw(&self, id: &str) {
        let mut entries = self.lock();
        if entries.by_id.get(id).is_some_and(|entry| !entry.is_taken) {
            entries.by_id.remove(id);
        }
        drop(entries);
        self.changed();
    }

    /// A task was handed out: it waits. The token fires when it is stopped.
    pub(super) fn wait(&self, task: &SubagentTask) -> CancellationToken {
        let mut entries = self.lock();
        let entry = entries.add(task);
        entry.is_taken = true;
        entry.enter(SubagentState::Waiting);
        let token = entry.token.clone();
        drop(entries);
        self.changed();
        token
    }

    /// Its turn begins. The token fires when it is stopped, and with `parent`; at once when it was
    /// stopped before.
    pub(super) fn begin(&self, id: &str, parent: &CancellationToken) -> CancellationToken {
        let token = parent.child_token();
        let mut entries = self.lock();
        if let Some(entry) = entries.by_id.get_mut(id) {
            entry.enter(SubagentState::Working);
            entry.token = token.clone();
            if entry.stopped.is_some() {
                token.cancel();
            }
        }
        drop(entries);
        self.changed();
        token
    }

    /// It calls tools.
    pub(super) fn calls(&self, id: &str, hint: String) {
        if let Some(entry) = self.lock().by_id.get_mut(id) {
            entry.last_tool = Some(hint);
        }
    }

    /// Its result is on the way to the session `parent`.
    pub(super) fn report(&self, task: &SubagentTask) {
        self.lock().add(task).enter(SubagentState::Reporting);
        self.changed();
    }

    /// Its task could not be finished now and comes again.
    pub(super) fn rest(&self, id: &str) {
        if let Some(entry) = self.lock().by_id.get_mut(id) {
            entry.enter(SubagentState::Waiting);
        }
        self.changed();
    }

    /// It is done with.
    pub(super) fn leave(&self, id: &str) {
        self.lock().by_id.remove(id);
        self.changed();
    }

    /// Whether it is there.
    pub(super) fn has(&self, id: &str) -> bool {
        self.lock().by_id.contains_key(id)
    }

    /// How it was stopped, if it was.
    pub(super) fn stopped(&self, id: &str) -> Option<Stopped> {
        self.lock().by_id.get(id)?.stopped
    }

    /// Stops those whose work is not done and that are meant; how many.
    pub(super) fn stop(&self, how: Stopped, is_meant: impl Fn(&str, &SessionKey) -> bool) -> usize {
        let mut count = 0;
        for (id, entry) in &mut self.lock().by_id {
            if entry.state != SubagentState::Reporting
                && entry.stopped.is_none()
                && is_meant(id, &entry.parent)
            {
                entry.stopped = Some(how);
                entry.token.cancel();
                count += 1;
            }
        }
        count
    }

    /// Those of a session, or all, in the order in which they came.
    pub(super) fn list(&self, parent: Option<&SessionKey>) -> Vec<SubagentInfo> {
        let entries = self.lock();
        let mut meant: Vec<(&String, &Entry)> = entries
            .by_id
            .iter()
            .filter(|(_, entry)| parent.is_none_or(|parent| entry.parent == *parent))
            .collect();
        meant.sort_unstable_by_key(|(_, entry)| entry.number);
        meant
            .into_iter()
            .map(|(id, entry)| entry.info(id))
            .collect()
    }

    /// Sees every change from now on.
    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn changed(&self) {
        self.changes
            .send_modify(|number| *number = number.wrapping_add(1));
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    /// The entry of a task, made if there is none.
    fn add(&mut self, task: &SubagentTask) -> &mut Entry {
        let Self { by_id, numbers } = self;
        by_id.entry(task.id.clone()).or_insert_with(|| {
            *numbers += 1;
            Entry {
                number: *numbers,
                label: task.label.clone(),
                parent: task.parent.clone(),
                state: SubagentState::Waiting,
                since: Instant::now(),
                last_tool: None,
                is_taken: false,
                token: CancellationToken::new(),
                stopped: None,
            }
        })
    }
}

impl Entry {
    fn enter(&mut self, state: SubagentState) {
        if self.state != state {
            self.state = state;
            self.since = Instant::now();
        }
    }

    fn info(&self, id: &str) -> SubagentInfo {
        SubagentInfo {
            id: id.to_owned(),
            label: self.label.clone(),
            parent: self.parent.clone(),
            state: self.state,
            since: self.since.elapsed(),
            last_tool: self.last_tool.clone(),
        }
    }
}
