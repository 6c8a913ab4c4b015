//! Pairing records: approved people and open codes. They have the form of the Python program's
//! file, and unknown keys are preserved.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use nanobot_channel::{ChannelName, ChatId, Map, SenderId};
use serde::{Deserialize, Serialize};

use super::code::Code;

/// Lifetime of a code.
const LIFETIME: TimeDelta = TimeDelta::minutes(10);
/// Remaining lifetime below which a code is not sent again: there would be no time to use it.
const MIN_REMAINING: TimeDelta = TimeDelta::minutes(1);
/// Maximum number of people of one channel with an open code.
const MAX_OPEN_CODES: usize = 32;
/// Maximum number of wrong codes tried while a code is open; then it is void.
const MAX_WRONG_CODES: u32 = 5;
/// Tolerance in seconds within which two times are the same, despite rounding in the file.
const TIME_TOLERANCE: f64 = 0.001;

/// Content of the pairing file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Book {
    approved: BTreeMap<ChannelName, Vec<SenderId>>,
    pending: BTreeMap<String, CodeEntry>,
    /// Approved people who were not notified yet.
    #[serde(rename = "_untold", skip_serializing_if = "Vec::is_empty")]
    unnotified: Vec<Asker>,
    #[serde(flatten)]
    more: Map,
}

/// Open code of one person. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct CodeEntry {
    channel: ChannelName,
    sender_id: SenderId,
    #[serde(default)]
    created_at: f64,
    expires_at: f64,
    /// Number of wrong codes tried since.
    #[serde(rename = "_tries", default, skip_serializing_if = "is_zero")]
    tries: u32,
    /// Chat in which the person was sent the code.
    #[serde(rename = "_chat_id", default, skip_serializing_if = "Option::is_none")]
    chat: Option<ChatId>,
    #[serde(flatten)]
    more: Map,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(tries: &u32) -> bool {
    *tries == 0
}

/// A person on a channel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Person {
    /// Channel of the person.
    pub channel: ChannelName,
    /// Id of the person on that channel.
    #[serde(rename = "sender_id")]
    pub sender: SenderId,
}

/// An open code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PendingPairing {
    /// Code.
    pub code: String,
    /// Person who was given the code.
    #[serde(flatten)]
    pub person: Person,
    /// Time at which the code expires.
    pub expires_at: DateTime<Utc>,
}

/// Approved people and those who wait for approval, each in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pairings {
    /// Approved people.
    pub approved: Vec<Person>,
    /// Open codes of those who wait.
    pub pending: Vec<PendingPairing>,
}

/// A person who asked for access, and the chat they asked in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asker {
    /// Person.
    #[serde(flatten)]
    pub person: Person,
    /// Chat in which the person was sent the code.
    #[serde(rename = "chat_id")]
    pub chat: ChatId,
    /// Time of the request or, once approved, of the approval, in seconds since 1970.
    pub at: f64,
}

/// People to notify of their approval, and people who may have to be notified later.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnnotifiedPeople {
    /// Approved people who were not notified yet.
    pub approved: Vec<Asker>,
    /// People with an open code.
    pub waiting: Vec<Asker>,
}

/// Reply to a stranger's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PairingReply {
    /// Send this code, which is theirs for the next minutes.
    Code(String),
    /// Send nothing: the person is approved already.
    Approved,
    /// Send nothing: too many others wait.
    Full,
}

impl Book {
    pub(super) fn is_approved(&self, channel: &ChannelName, sender: &SenderId) -> bool {
        self.approved
            .get(channel)
            .is_some_and(|ids| ids.iter().any(|id| is_same_person(id, sender)))
    }

    /// Returns the open code of a stranger, or a new one.
    pub(super) fn ask(
        &mut self,
        channel: &ChannelName,
        sender: &SenderId,
        chat: &ChatId,
        now: DateTime<Utc>,
    ) -> PairingReply {
        self.remove_expired(now);
        if self.is_approved(channel, sender) {
            return PairingReply::Approved;
        }
        let belongs_to_sender = |entry: &CodeEntry| {
            entry.channel == *channel && is_same_person(&entry.sender_id, sender)
        };
        let good_until = seconds(now + MIN_REMAINING);
        let mut open = self.pending.iter_mut();
        if let Some((code, entry)) =
            open.find(|(_, entry)| belongs_to_sender(entry) && entry.expires_at >= good_until)
        {
            entry.chat = Some(chat.clone());
            return PairingReply::Code(code.clone());
        }
        self.pending.retain(|_, entry| !belongs_to_sender(entry));
        if self
            .pending
            .values()
            .filter(|entry| entry.channel == *channel)
            .count()
            >= MAX_OPEN_CODES
        {
            return PairingReply::Full;
        }
        let mut code = Code::random();
        while self.pending.contains_key(code.as_str()) {
            code = Code::random();
        }
        let entry = CodeEntry {
            channel: channel.clone(),
            sender_id: sender.clone(),
            created_at: seconds(now),
            expires_at: seconds(now + LIFETIME),
            tries: 0,
            chat: Some(chat.clone()),
            more: Map::new(),
        };
        self.pending.insert(code.as_str().to_owned(), entry);
        PairingReply::Code(code.into())
    }

    /// Removes an open code, of `channel` only if one is given, and returns its entry. A wrong code
    /// counts as a try against every open code that it could have meant.
    fn redeem(
        &mut self,
        code: &str,
        channel: Option<&ChannelName>,
        now: DateTime<Utc>,
    ) -> Option<CodeEntry> {
        self.remove_expired(now);
        let matches_channel =
            |entry: &CodeEntry| channel.is_none_or(|channel| entry.channel == *channel);
        let code = Code::parse(code).map(String::from);
        if let Some(code) = code.filter(|code| self.pending.get(code).is_some_and(matches_channel))
        {
            return self.pending.remove(&code);
        }
        self.pending.retain(|_, entry| {
            if matches_channel(entry) {
                entry.tries = entry.tries.saturating_add(1);
            }
            entry.tries < MAX_WRONG_CODES
        });
        None
    }

    /// Removes an open code without approving its owner.
    pub(super) fn deny(
        &mut self,
        code: &str,
        channel: Option<&ChannelName>,
        now: DateTime<Utc>,
    ) -> Option<Person> {
        self.redeem(code, channel, now).map(|entry| entry.person())
    }

    /// Removes an open code and approves its owner, who then has to be notified.
    pub(super) fn approve(
        &mut self,
        code: &str,
        channel: Option<&ChannelName>,
        now: DateTime<Utc>,
    ) -> Option<Person> {
        let entry = self.redeem(code, channel, now)?;
        let person = entry.person();
        let ids = self.approved.entry(person.channel.clone()).or_default();
        if !ids.iter().any(|id| is_same_person(id, &person.sender)) {
            ids.push(person.sender.clone());
            ids.sort();
        }
        self.unnotified.extend(entry.asker().map(|asker| Asker {
            at: seconds(now),
            ..asker
        }));
        Some(person)
    }

    /// Returns the approved people who have to be notified. A person who edits the file by hand
    /// leaves no note of an approval. So this includes approved people who still have an open code,
    /// and those in `waited` who no longer have one.
    pub(super) fn unnotified(&self, waited: &[Asker]) -> UnnotifiedPeople {
        let is_asker_approved =
            |asker: &Asker| self.is_approved(&asker.person.channel, &asker.person.sender);
        let open = self.pending.values().filter_map(CodeEntry::asker);
        let (approved, waiting): (Vec<_>, Vec<_>) = open.partition(is_asker_approved);
        let is_listed = |asker: &&Asker| {
            self.unnotified
                .iter()
                .chain(&approved)
                .any(|listed| listed.is_same(asker))
        };
        let moved: Vec<_> = waited
            .iter()
            .filter(|asker| is_asker_approved(asker) && !is_listed(asker))
            .cloned()
            .collect();
        UnnotifiedPeople {
            approved: self
                .unnotified
                .iter()
                .cloned()
                .chain(approved)
                .chain(moved)
                .collect(),
            waiting,
        }
    }

    /// Forgets these people after they were notified.
    pub(super) fn mark_notified(&mut self, askers: &[Asker]) {
        let was_notified = |asker: &Asker| {
            askers.iter().any(|notified| {
                notified.is_same(asker) && (notified.at - asker.at).abs() < TIME_TOLERANCE
            })
        };
        self.unnotified.retain(|listed| !was_notified(listed));
        self.pending
            .retain(|_, entry| !entry.asker().is_some_and(|asker| was_notified(&asker)));
    }

    /// Revokes the approval and the code of `person`. Returns the people who were approved.
    pub(super) fn revoke(&mut self, person: &Person) -> Vec<Person> {
        let Person { channel, sender } = person;
        let is_other = |channel_of: &ChannelName, id: &SenderId| {
            channel_of != channel || !matches_typed(id, sender)
        };
        self.pending
            .retain(|_, entry| is_other(&entry.channel, &entry.sender_id));
        self.unnotified
            .retain(|asker| is_other(&asker.person.channel, &asker.person.sender));
        let Some(ids) = self.approved.get_mut(channel) else {
            return Vec::new();
        };
        let revoked = ids.extract_if(.., |id| matches_typed(id, sender));
        revoked
            .map(|sender| Person {
                channel: channel.clone(),
                sender,
            })
            .collect()
    }

    pub(super) fn list(&self, now: DateTime<Utc>) -> Pairings {
        let approved = self.approved.iter().flat_map(|(channel, ids)| {
            ids.iter().map(|sender| Person {
                channel: channel.clone(),
                sender: sender.clone(),
            })
        });
        let open = self.pending.iter().filter(|(_, entry)| entry.is_open(now));
        let mut pending: Vec<_> = open.map(|(code, entry)| entry.to_pending(code)).collect();
        pending.sort_by(|a, b| (&a.person, &a.code).cmp(&(&b.person, &b.code)));
        Pairings {
            approved: approved.collect(),
            pending,
        }
    }

    fn remove_expired(&mut self, now: DateTime<Utc>) {
        self.pending.retain(|_, entry| entry.is_open(now));
    }
}

impl Asker {
    fn is_same(&self, other: &Self) -> bool {
        self.person.channel == other.person.channel
            && is_same_person(&self.person.sender, &other.person.sender)
    }
}

impl CodeEntry {
    fn person(&self) -> Person {
        Person {
            channel: self.channel.clone(),
            sender: self.sender_id.clone(),
        }
    }

    /// Returns the person and their chat; `None` if the chat is unknown.
    fn asker(&self) -> Option<Asker> {
        Some(Asker {
            person: self.person(),
            chat: self.chat.clone()?,
            at: self.created_at,
        })
    }

    fn is_open(&self, now: DateTime<Utc>) -> bool {
        seconds(now) < self.expires_at
    }

    fn to_pending(&self, code: &str) -> PendingPairing {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a time beyond what fits is shown as the last one that does"
        )]
        let millis = (self.expires_at * 1000.0) as i64;
        PendingPairing {
            code: code.to_owned(),
            person: self.person(),
            expires_at: DateTime::from_timestamp_millis(millis).unwrap_or(DateTime::<Utc>::MAX_UTC),
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "milliseconds since 1970 fit for a few hundred thousand years"
)]
fn seconds(at: DateTime<Utc>) -> f64 {
    at.timestamp_millis() as f64 / 1000.0
}

/// Returns the number of an id of the form `digits|name`. Names change hands, numbers do not.
fn number(id: &str) -> Option<&str> {
    let (number, _) = id.split_once('|')?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(number)
}

/// `true` if two ids belong to the same person: they are equal or have the same number.
fn is_same_person(one: &SenderId, other: &SenderId) -> bool {
    let (one, other) = (one.as_str(), other.as_str());
    one == other || number(one).unwrap_or(one) == number(other).unwrap_or(other)
}

/// `true` if `parse` means the person `id`: the whole id, or either half of it.
fn matches_typed(id: &SenderId, parse: &SenderId) -> bool {
    let name = number(id.as_str())
        .and_then(|_| id.as_str().split_once('|'))
        .map(|(_, name)| name);
    is_same_person(id, parse) || name == Some(parse.as_str())
}
