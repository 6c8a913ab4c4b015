//! The sessions and panels of the agent: positions, known messages and collected messages.
//!
//! Decision: one place, shared by the connection and by the handling of news. The news of one
//! target are handled in order, so each change here is a single step.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nanobot_channel::{Notes, Value};
use nanobot_channel_kit::{LateNote, Recent};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::MochatConfig;
use crate::collection::Collection;
use crate::positions::Positions;
use crate::target::Target;
use crate::wire::{ChatMessage, Directory, PanelPage};

/// Number of handled messages of a target that are remembered.
const RECENT: usize = 2000;
/// Largest number of sessions and of panels.
const MAX_TARGETS: usize = 2000;

/// The sessions and panels.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    positions: LateNote<Positions>,
    set: Mutex<TargetSet>,
    /// Fires when a collection changed.
    collected: Notify,
}

#[derive(Debug, Default)]
struct TargetSet {
    sessions: BTreeSet<String>,
    panels: BTreeSet<String>,
    /// Sessions without a position whose next message is new all the same.
    warm: BTreeSet<String>,
    /// Sessions by their conversation.
    by_converse: HashMap<String, String>,
    recent: HashMap<Target, Recent<String>>,
    collections: BTreeMap<String, Collection>,
}

impl Targets {
    /// Creates the targets that the configuration names.
    pub(crate) fn new(config: &MochatConfig) -> Self {
        let set = TargetSet {
            sessions: config.named_sessions().take(MAX_TARGETS).cloned().collect(),
            panels: config.named_panels().take(MAX_TARGETS).cloned().collect(),
            ..TargetSet::default()
        };
        Self {
            set: Mutex::new(set),
            ..Self::default()
        }
    }

    /// Begins a run: reads the positions, and forgets what a history has.
    pub(crate) async fn open(&self, notes: &dyn Notes) {
        self.positions.open(notes).await;
        let mut set = self.set();
        set.warm.clear();
        set.recent.clear();
        set.collections.clear();
    }

    /// Writes the positions soon after one moved. Does not return.
    pub(crate) async fn write_soon(&self, notes: &dyn Notes) {
        self.positions.write_periodically(notes).await;
    }

    /// Writes the positions, if one moved.
    pub(crate) async fn write(&self, notes: &dyn Notes) {
        self.positions.write(notes).await;
    }

    /// Adds what Mochat lists, as far as it is to be received. Returns the new targets.
    pub(crate) fn add(&self, directory: &Directory, config: &MochatConfig) -> Vec<Target> {
        let mut set = self.set();
        let mut added = Vec::new();
        for (session, converse) in &directory.sessions {
            let is_new = config.discovers_sessions() && set.add_session(session);
            if is_new {
                added.push(Target::Session(session.clone()));
            }
            if let Some(converse) = converse
                && set.sessions.contains(session)
            {
                set.by_converse.insert(converse.clone(), session.clone());
            }
        }
        for panel in &directory.panels {
            if config.discovers_panels() && set.add_panel(panel) {
                added.push(Target::Panel(panel.clone()));
            }
        }
        added
    }

    /// `true` if a target is received. One that is unknown is added if all are received.
    pub(crate) fn accepts(&self, target: &Target, config: &MochatConfig) -> bool {
        let mut set = self.set();
        match target {
            Target::Session(id) => {
                set.sessions.contains(id) || (config.discovers_sessions() && set.add_session(id))
            }
            Target::Panel(id) => {
                set.panels.contains(id) || (config.discovers_panels() && set.add_panel(id))
            }
        }
    }

    /// Returns all targets.
    pub(crate) fn all(&self) -> Vec<Target> {
        let set = self.set();
        let sessions = set.sessions.iter().cloned().map(Target::Session);
        sessions
            .chain(set.panels.iter().cloned().map(Target::Panel))
            .collect()
    }

    /// `true` if this is the id of a session.
    pub(crate) fn is_session(&self, id: &str) -> bool {
        self.set().sessions.contains(id)
    }

    /// Returns the session of a conversation.
    pub(crate) fn session_of(&self, converse: &str) -> Option<String> {
        self.set().by_converse.get(converse).cloned()
    }

    /// Returns the position in a session.
    pub(crate) fn cursor(&self, session: &str) -> Option<u64> {
        self.positions.with(|positions| positions.cursor(session))
    }

    /// Moves forward in a session.
    pub(crate) fn advance(&self, session: &str, cursor: u64) {
        self.positions
            .update(|positions| positions.advance(session, cursor));
    }

    /// Moves back in a session.
    pub(crate) fn set_back(&self, session: &str, cursor: u64) {
        self.positions
            .update(|positions| positions.set_back(session, cursor));
    }

    /// `true` if it is unknown which messages of a session are new.
    pub(crate) fn is_cold(&self, session: &str) -> bool {
        self.cursor(session).is_none() && !self.set().warm.contains(session)
    }

    /// Notes that further messages of a session are new.
    pub(crate) fn warm(&self, session: &str) {
        self.set().warm.insert(session.to_owned());
    }

    /// `true` if it is unknown which messages of a panel are new.
    pub(crate) fn is_cold_panel(&self, panel: &str) -> bool {
        !self
            .positions
            .with(|positions| positions.knows_panel(panel))
    }

    /// Passes over the history of a panel.
    pub(crate) fn skip_history(&self, panel: &str, page: &PanelPage) {
        let messages = page.messages.iter();
        let ids: Vec<String> = messages
            .map(|message| ChatMessage::read(message, &Value::Null).id)
            .collect();
        self.positions
            .update(|positions| positions.mark(panel, ids.iter().map(String::as_str)));
    }

    /// Returns the number of messages at the begin of a history that are not new; `None` if the
    /// position is not in it.
    pub(crate) fn handled_of(&self, panel: &str, ids: &[String]) -> Option<usize> {
        let last = self
            .positions
            .with(|positions| ids.iter().rposition(|id| positions.is_marked(panel, id)));
        last.map(|last| last + 1)
    }

    /// `true` if a message was handled or collected.
    pub(crate) fn knows(&self, target: &Target, message: &str) -> bool {
        let set = self.set();
        let recent = set.recent.get(target);
        recent.is_some_and(|recent| recent.contains(&message.to_owned()))
    }

    /// Notes that messages were handled. The position in a panel moves past them, unless earlier
    /// ones are collected.
    pub(crate) fn handled(&self, target: &Target, messages: &[&str]) {
        let has_earlier = {
            let mut set = self.set();
            for message in messages {
                set.remember(target, message);
            }
            let collection = set.collections.get(target.id());
            collection.is_some_and(|collection| !collection.is_empty())
        };
        if let Target::Panel(panel) = target
            && !has_earlier
        {
            self.positions
                .update(|positions| positions.mark(panel, messages.iter().copied()));
        }
    }

    /// Collects a message of a panel. `true` if it has to be delivered at once.
    pub(crate) fn collect(&self, panel: &str, message: ChatMessage, silence: Duration) -> bool {
        let is_full = {
            let mut set = self.set();
            set.remember(&Target::Panel(panel.to_owned()), &message.id);
            let collection = set.collections.entry(panel.to_owned()).or_default();
            collection.add(message, silence)
        };
        self.collected.notify_one();
        is_full
    }

    /// Calls `look` with the collection of a panel, if there is one.
    pub(crate) fn collection<R>(
        &self,
        panel: &str,
        look: impl FnOnce(&mut Collection) -> R,
    ) -> Option<R> {
        self.set().collections.get_mut(panel).map(look)
    }

    /// Forgets collected messages that were delivered, and moves past them.
    pub(crate) fn delivered(&self, panel: &str, messages: &[&str]) {
        {
            let mut set = self.set();
            if let Some(collection) = set.collections.get_mut(panel) {
                for message in messages {
                    collection.remove(message);
                }
                if collection.is_empty() {
                    set.collections.remove(panel);
                }
            }
        }
        self.handled(&Target::Panel(panel.to_owned()), messages);
    }

    /// Waits until a panel with collected messages was silent for long enough, and announces it
    /// once. Cancel safe.
    pub(crate) async fn silent_panel(&self) -> String {
        loop {
            let earliest = {
                let mut set = self.set();
                let due = set.collections.iter();
                let due = due.filter_map(|(panel, collection)| Some((collection.due()?, panel)));
                let earliest = due.min().map(|(due, panel)| (due, panel.clone()));
                if let Some((due, panel)) = &earliest
                    && *due <= Instant::now()
                    && let Some(collection) = set.collections.get_mut(panel)
                {
                    collection.announce();
                    return panel.clone();
                }
                earliest
            };
            match earliest {
                Some((due, _)) => tokio::select! {
                    () = sleep_until(due) => {}
                    () = self.collected.notified() => {}
                },
                None => self.collected.notified().await,
            }
        }
    }

    fn set(&self) -> MutexGuard<'_, TargetSet> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TargetSet {
    /// Adds a session. `true` if it is new.
    fn add_session(&mut self, id: &str) -> bool {
        self.sessions.len() < MAX_TARGETS && self.sessions.insert(id.to_owned())
    }

    /// Adds a panel. `true` if it is new.
    fn add_panel(&mut self, id: &str) -> bool {
        self.panels.len() < MAX_TARGETS && self.panels.insert(id.to_owned())
    }

    fn remember(&mut self, target: &Target, message: &str) {
        if message.is_empty() {
            return;
        }
        let recent = self.recent.entry(target.clone());
        let recent = recent.or_insert_with(|| Recent::new(RECENT));
        recent.insert(message.to_owned());
    }
}
