//! The roster of unfinished subagents.
//!
//! Decision: the roster is kept in memory only. After a restart the ledger redelivers unfinished
//! tasks, and each enters the roster again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nanobot_types::SessionKey;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::SubagentTask;

/// The state of a subagent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubagentState {
    /// It waits for a free slot.
    Waiting,
    /// It is working.
    Working,
    /// It is done, but the session that started it has not answered its result yet.
    Reporting,
}

/// A subagent as shown to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentInfo {
    /// Its id.
    pub id: String,
    /// Its label.
    pub label: String,
    /// The session that started it.
    pub parent: SessionKey,
    /// Its state.
    pub state: SubagentState,
    /// Time since it entered that state.
    pub since: Duration,
    /// The tools it called last.
    pub last_tool: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Roster {
    entries: Mutex<Entries>,
    /// Incremented with every change.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Entries {
    by_id: HashMap<String, SubagentEntry>,
    numbers: u64,
}

#[derive(Debug)]
struct SubagentEntry {
    /// Position in the order of arrival.
    number: u64,
    label: String,
    parent: SessionKey,
    state: SubagentState,
    since: Instant,
    last_tool: Option<String>,
    /// `true` once its task was delivered; until then it is only announced.
    is_taken: bool,
    /// Cancels its wait or its turn.
    token: CancellationToken,
    stopped: Option<StopMode>,
}

/// The result of announcing a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announced {
    /// It was added; `ahead` others have not finished their work.
    New { ahead: usize },
    /// It was there before.
    Known,
    /// There are too many subagents.
    Refused,
}

/// The way in which a subagent was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopMode {
    /// The session that started it continues and gets a note.
    Told,
    /// The session that started it begins a new conversation and gets no note.
    Untold,
}

impl Roster {
    /// Announces a task, so that it can be stopped before it is delivered, unless `bound` others
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

    /// Withdraws an announcement, unless the task was delivered meanwhile.
    pub(super) fn withdraw(&self, id: &str) {
        let mut entries = self.lock();
        if entries.by_id.get(id).is_some_and(|entry| !entry.is_taken) {
            entries.by_id.remove(id);
        }
        drop(entries);
        self.changed();
    }

    /// Marks a task as delivered and waiting. The returned token fires when it is stopped.
    pub(super) fn wait(&self, task: &SubagentTask) -> CancellationToken {
        let mut entries = self.lock();
        let entry = entries.add(task);
        entry.is_taken = true;
        entry.set_state(SubagentState::Waiting);
        let token = entry.token.clone();
        drop(entries);
        self.changed();
        token
    }

    /// Marks a subagent as working. The returned token fires when the subagent is stopped or
    /// `parent` fires, and at once if the subagent was stopped before.
    pub(super) fn begin(&self, id: &str, parent: &CancellationToken) -> CancellationToken {
        let token = parent.child_token();
        let mut entries = self.lock();
        if let Some(entry) = entries.by_id.get_mut(id) {
            entry.set_state(SubagentState::Working);
            entry.token = token.clone();
            if entry.stopped.is_some() {
                token.cancel();
            }
        }
        drop(entries);
        self.changed();
        token
    }

    /// Records the tools that a subagent calls.
    pub(super) fn set_last_tool(&self, id: &str, hint: String) {
        if let Some(entry) = self.lock().by_id.get_mut(id) {
            entry.last_tool = Some(hint);
        }
    }

    /// Marks a subagent as reporting: its result is on the way to its parent session.
    pub(super) fn set_reporting(&self, task: &SubagentTask) {
        self.lock().add(task).set_state(SubagentState::Reporting);
        self.changed();
    }

    /// Marks a subagent as waiting: its task could not be finished now and is retried.
    pub(super) fn set_waiting(&self, id: &str) {
        if let Some(entry) = self.lock().by_id.get_mut(id) {
            entry.set_state(SubagentState::Waiting);
        }
        self.changed();
    }

    /// Removes a subagent.
    pub(super) fn remove(&self, id: &str) {
        self.lock().by_id.remove(id);
        self.changed();
    }

    /// Returns `true` if the subagent is on the roster.
    pub(super) fn contains(&self, id: &str) -> bool {
        self.lock().by_id.contains_key(id)
    }

    /// Returns how the subagent was stopped, if it was.
    pub(super) fn stopped(&self, id: &str) -> Option<StopMode> {
        self.lock().by_id.get(id)?.stopped
    }

    /// Stops the unfinished subagents that `is_meant` selects and returns their number.
    pub(super) fn stop(
        &self,
        how: StopMode,
        is_meant: impl Fn(&str, &SessionKey) -> bool,
    ) -> usize {
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

    /// Lists the subagents of a session, or all, in the order of arrival.
    pub(super) fn list(&self, parent: Option<&SessionKey>) -> Vec<SubagentInfo> {
        let entries = self.lock();
        let mut matching: Vec<(&String, &SubagentEntry)> = entries
            .by_id
            .iter()
            .filter(|(_, entry)| parent.is_none_or(|parent| entry.parent == *parent))
            .collect();
        matching.sort_unstable_by_key(|(_, entry)| entry.number);
        matching
            .into_iter()
            .map(|(id, entry)| entry.info(id))
            .collect()
    }

    /// Returns a receiver that sees every change from now on.
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
    /// Returns the entry of a task, and adds it if there is none.
    fn add(&mut self, task: &SubagentTask) -> &mut SubagentEntry {
        let Self { by_id, numbers } = self;
        by_id.entry(task.id.clone()).or_insert_with(|| {
            *numbers += 1;
            SubagentEntry {
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

impl SubagentEntry {
    fn set_state(&mut self, state: SubagentState) {
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
