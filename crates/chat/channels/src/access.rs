//! Access control of a channel: deny by default, evaluated for every message.
//!
//! The [rules](AccessRules) judge a message by its origin. This module combines them with the
//! approvals in the [store](crate::PairingStore) and decides what to send to a stranger. The file
//! is read only if the rules reject the sender and an approval would admit them.

mod notice;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::Utc;
use nanobot_channel::{
    Access, AccessDecision, Arrival, ChannelName, ChatId, ChatKind, SenderId, async_trait,
};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::pairing::{PairingError, PairingReply};
use crate::{ChannelSettings, ChannelWatch, PairingStore};

pub use notice::{AccessNotice, Weight};
pub use rules::{AccessRules, AccessVerdict, DirectPolicy, DirectRules, GroupPolicy, GroupRule};

/// Maximum number of strangers named in the log, each once.
const MAX_LOGGED_STRANGERS: usize = 256;
/// Maximum number of strangers remembered as having been sent their code.
const MAX_SENT_CODES: usize = 256;
/// Minimum interval before a stranger is sent the same code again.
const CODE_INTERVAL: Duration = Duration::from_mins(1);

/// Access control of one channel.
#[derive(Debug)]
pub(crate) struct ChannelAccess {
    channel: ChannelName,
    settings: watch::Receiver<ChannelSettings>,
    pairing: Option<PairingStore>,
    strangers: Mutex<BTreeSet<SenderId>>,
    sent_codes: Mutex<BTreeMap<SenderId, (String, Instant)>>,
    has_logged_problem: AtomicBool,
    watch: Arc<dyn ChannelWatch>,
}

impl ChannelAccess {
    pub(crate) fn new(
        channel: ChannelName,
        settings: watch::Receiver<ChannelSettings>,
        pairing: Option<PairingStore>,
        watch: Arc<dyn ChannelWatch>,
    ) -> Self {
        let (strangers, sent_codes) = (Mutex::default(), Mutex::default());
        Self {
            channel,
            settings,
            pairing,
            strangers,
            sent_codes,
            has_logged_problem: AtomicBool::new(false),
            watch,
        }
    }

    /// Logs the notices about rules that are probably not what the operator means.
    pub(crate) fn log_notices(&self) {
        for notice in self.settings.borrow().access.notices(&self.channel) {
            match notice.weight {
                Weight::Warning => {
                    tracing::warn!(channel = %self.channel, notice = %notice, "look at who may talk");
                }
                Weight::Remark => {
                    tracing::info!(channel = %self.channel, notice = %notice, "who may talk");
                }
            }
        }
    }

    /// Decides by the rules and by approvals; `with_code` gives strangers a code.
    async fn decide_access(
        &self,
        sender: &SenderId,
        chat: &ChatId,
        arrival: &Arrival,
        with_code: bool,
    ) -> AccessDecision {
        let judge = |approved| {
            self.settings
                .borrow()
                .access
                .judge(sender, chat, arrival, approved)
        };
        let verdict = match judge(false) {
            AccessVerdict::Allowed => return AccessDecision::Allowed,
            AccessVerdict::Stranger if !with_code => AccessVerdict::Denied,
            verdict => verdict,
        };
        match judge(true) {
            AccessVerdict::Allowed => self.check_pairing(sender, chat, verdict).await,
            AccessVerdict::Denied | AccessVerdict::Stranger => AccessDecision::Denied,
        }
    }

    /// Looks up the approval of a sender, and gives a stranger a code.
    async fn check_pairing(
        &self,
        sender: &SenderId,
        chat: &ChatId,
        verdict: AccessVerdict,
    ) -> AccessDecision {
        let Some(store) = self.pairing.clone() else {
            return AccessDecision::Denied;
        };
        let (channel, person, chat) = (self.channel.clone(), sender.clone(), chat.clone());
        let reply =
            tokio::task::spawn_blocking(move || -> Result<Option<PairingReply>, PairingError> {
                match (store.is_approved(&channel, &person), verdict) {
                    (Ok(true), _) => Ok(Some(PairingReply::Approved)),
                    // Asking for a code moves a damaged file to quarantine.
                    (Ok(false) | Err(PairingError::Damaged { .. }), AccessVerdict::Stranger) => {
                        store.ask(&channel, &person, &chat, Utc::now()).map(Some)
                    }
                    (Ok(false), AccessVerdict::Allowed | AccessVerdict::Denied) => Ok(None),
                    (Err(error), _) => Err(error),
                }
            });
        let error: Box<dyn std::error::Error + Send + Sync> = match reply.await {
            Ok(Ok(reply)) => return self.decide(sender, reply),
            Ok(Err(error)) => Box::new(error),
            Err(error) => Box::new(error),
        };
        if self.is_first_problem() {
            let error: &dyn std::error::Error = &*error;
            tracing::error!(channel = %self.channel, error, "pairing lets no one in until its file can be used");
        }
        AccessDecision::Denied
    }

    /// Returns `true` for the first of several problems of the same kind.
    fn is_first_problem(&self) -> bool {
        !self.has_logged_problem.swap(true, Ordering::Relaxed)
    }

    fn decide(&self, sender: &SenderId, reply: Option<PairingReply>) -> AccessDecision {
        if reply == Some(PairingReply::Full) {
            if self.is_first_problem() {
                tracing::warn!(channel = %self.channel, "too many people wait for approval; others get no answer");
            }
        } else {
            self.has_logged_problem.store(false, Ordering::Relaxed);
        }
        match reply {
            Some(PairingReply::Approved) => AccessDecision::Allowed,
            Some(PairingReply::Code(code)) if self.may_send_code(sender, &code) => {
                AccessDecision::Ask(code_message(&code))
            }
            Some(PairingReply::Code(_) | PairingReply::Full) | None => AccessDecision::Denied,
        }
    }

    /// Returns `true` if the stranger was not just sent this code, and records that it is sent now.
    fn may_send_code(&self, sender: &SenderId, code: &str) -> bool {
        let now = Instant::now();
        let mut sent_codes = self
            .sent_codes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        sent_codes.retain(|_, (_, at)| now.duration_since(*at) < CODE_INTERVAL);
        let was_sent = sent_codes
            .get(sender)
            .is_some_and(|(known, _)| known == code);
        if was_sent || sent_codes.len() >= MAX_SENT_CODES {
            return false;
        }
        sent_codes.insert(sender.clone(), (code.to_owned(), now));
        true
    }

    /// Records a rejected sender once, with the id that an allowlist would need.
    async fn record_denial(&self, sender: &SenderId, chat: &ChatId) {
        if self.is_new_stranger(sender) {
            tracing::info!(channel = %self.channel, %sender, %chat, "denied access");
            self.watch.rejected(&self.channel, chat, sender).await;
        }
    }

    fn is_new_stranger(&self, sender: &SenderId) -> bool {
        let mut strangers = self
            .strangers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        strangers.len() < MAX_LOGGED_STRANGERS && strangers.insert(sender.clone())
    }
}

/// Returns the message to a stranger.
fn code_message(code: &str) -> String {
    format!(
        "I do not know you yet. Who runs me can let you in with this code within ten minutes: {code}\n\
         At their computer: nanobot pairing approve {code}\n\
         Or in their own chat with me here: /pairing approve {code}"
    )
}

#[async_trait]
impl Access for ChannelAccess {
    async fn check(&self, sender: &SenderId, chat: &ChatId, arrival: &Arrival) -> AccessDecision {
        let decision = self.decide_access(sender, chat, arrival, true).await;
        if decision != AccessDecision::Allowed
            && (arrival.kind == ChatKind::Direct || arrival.addressed)
        {
            self.record_denial(sender, chat).await;
        }
        decision
    }

    async fn allows(&self, sender: &SenderId, chat: &ChatId, arrival: &Arrival) -> bool {
        self.decide_access(sender, chat, arrival, false).await == AccessDecision::Allowed
    }
}
