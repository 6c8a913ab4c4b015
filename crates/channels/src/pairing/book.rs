//! What is known about pairing: who was approved, and which codes are open. It has the form of the
//! Python program's file, and keeps what it does not know.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use nanobot_channel::{ChannelName, Map, SenderId};
use serde::{Deserialize, Serialize};

use super::code::Code;

/// How long a code is good for.
const LIFETIME: TimeDelta = TimeDelta::minutes(10);
/// A code with less time left than this is not told again: nobody could use it.
const SHORTEST_LIFE: TimeDelta = TimeDelta::minutes(1);
/// How many people of one channel may have a code at the same time.
const MOST_OPEN: usize = 32;
/// How many wrong codes may be tried while a code is open. Then it is void.
const MOST_TRIES: u32 = 5;

/// Everything in the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Book {
    approved: BTreeMap<ChannelName, Vec<SenderId>>,
    pending: BTreeMap<String, Entry>,
    #[serde(flatten)]
    more: Map,
}

/// A code and whom it would let in. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    channel: ChannelName,
    sender_id: SenderId,
    #[serde(default)]
    created_at: f64,
    expires_at: f64,
    /// How many wrong codes were tried since.
    #[serde(rename = "_tries", default, skip_serializing_if = "is_none_yet")]
    tries: u32,
    #[serde(flatten)]
    more: Map,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_none_yet(tries: &u32) -> bool {
    *tries == 0
}

/// Somebody of a channel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Person {
    /// Of which channel.
    pub channel: ChannelName,
    /// By which id.
    #[serde(rename = "sender_id")]
    pub sender: SenderId,
}

/// A code that somebody was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PendingPairing {
    /// The code.
    pub code: String,
    /// Who was given it.
    #[serde(flatten)]
    pub person: Person,
    /// Until when it is good.
    pub expires_at: DateTime<Utc>,
}

/// Who was approved, and who waits for it, each in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pairings {
    /// Who was approved.
    pub approved: Vec<Person>,
    /// Who waits.
    pub pending: Vec<PendingPairing>,
}

/// What a stranger is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// This code, which is theirs for the next minutes.
    Code(String),
    /// Nothing: they were approved already.
    Approved,
    /// Nothing: too many others wait.
    Full,
}

impl Book {
    pub(super) fn is_approved(&self, channel: &ChannelName, sender: &SenderId) -> bool {
        self.approved.get(channel).is_some_and(|ids| ids.iter().any(|id| is_same_person(id, sender)))
    }

    /// The code of a stranger: the one they have, or a new one.
    pub(super) fn ask(&mut self, channel: &ChannelName, sender: &SenderId, now: DateTime<Utc>) -> Asked {
        self.forget_expired(now);
        if self.is_approved(channel, sender) {
            return Asked::Approved;
        }
        let theirs = |entry: &Entry| entry.channel == *channel && is_same_person(&entry.sender_id, sender);
        let good_until = seconds(now + SHORTEST_LIFE);
        if let Some((code, _)) = self.pending.iter().find(|(_, entry)| theirs(entry) && entry.expires_at >= good_until)
        {
            return Asked::Code(code.clone());
        }
        self.pending.retain(|_, entry| !theirs(entry));
        if self.pending.values().filter(|entry| entry.channel == *channel).count() >= MOST_OPEN {
            return Asked::Full;
        }
        let mut code = Code::random();
        while self.pending.contains_key(code.as_str()) {
            code = Code::random();
        }
        let entry = Entry {
            channel: channel.clone(),
            sender_id: sender.clone(),
            created_at: seconds(now),
            expires_at: seconds(now + LIFETIME),
            tries: 0,
            more: Map::new(),
        };
        self.pending.insert(code.as_str().to_owned(), entry);
        Asked::Code(code.into())
    }

    /// Takes an open code out, of `channel` alone where one is named. A wrong one brings every code
    /// that it could have been nearer to its end.
    pub(super) fn redeem(&mut self, code: &str, channel: Option<&ChannelName>, now: DateTime<Utc>) -> Option<Person> {
        self.forget_expired(now);
        let is_meant = |entry: &Entry| channel.is_none_or(|channel| entry.channel == *channel);
        let code = Code::typed(code).map(String::from);
        if let Some(code) = code.filter(|code| self.pending.get(code).is_some_and(is_meant)) {
            let Entry { channel, sender_id: sender, .. } = self.pending.remove(&code)?;
            return Some(Person { channel, sender });
        }
        self.pending.retain(|_, entry| {
            if is_meant(entry) {
                entry.tries = entry.tries.saturating_add(1);
            }
            entry.tries < MOST_TRIES
        });
        None
    }

    pub(super) fn approve(&mut self, person: &Person) {
        let ids = self.approved.entry(person.channel.clone()).or_default();
        if !ids.iter().any(|id| is_same_person(id, &person.sender)) {
            ids.push(person.sender.clone());
            ids.sort();
        }
    }

    /// Takes back the approval and the code of whoever is meant; who that was.
    pub(super) fn revoke(&mut self, person: &Person) -> Vec<Person> {
        let Person { channel, sender } = person;
        self.pending.retain(|_, entry| entry.channel != *channel || !is_named(&entry.sender_id, sender));
        let Some(ids) = self.approved.get_mut(channel) else { return Vec::new() };
        let revoked = ids.extract_if(.., |id| is_named(id, sender));
        revoked.map(|sender| Person { channel: channel.clone(), sender }).collect()
    }

    pub(super) fn list(&self, now: DateTime<Utc>) -> Pairings {
        let approved = self.approved.iter().flat_map(|(channel, ids)| {
            ids.iter().map(|sender| Person { channel: channel.clone(), sender: sender.clone() })
        });
        let open = self.pending.iter().filter(|(_, entry)| entry.is_open(now));
        let mut pending: Vec<_> = open.map(|(code, entry)| entry.shown(code)).collect();
        pending.sort_by(|a, b| (&a.person, &a.code).cmp(&(&b.person, &b.code)));
        Pairings { approved: approved.collect(), pending }
    }

    fn forget_expired(&mut self, now: DateTime<Utc>) {
        self.pending.retain(|_, entry| entry.is_open(now));
    }
}

impl Entry {
    fn is_open(&self, now: DateTime<Utc>) -> bool {
        seconds(now) < self.expires_at
    }

    fn shown(&self, code: &str) -> PendingPairing {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a time beyond what fits is shown as the last one that does"
        )]
        let millis = (self.expires_at * 1000.0) as i64;
        PendingPairing {
            code: code.to_owned(),
            person: Person { channel: self.channel.clone(), sender: self.sender_id.clone() },
            expires_at: DateTime::from_timestamp_millis(millis).unwrap_or(DateTime::<Utc>::MAX_UTC),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit for a few hundred thousand years")]
fn seconds(at: DateTime<Utc>) -> f64 {
    at.timestamp_millis() as f64 / 1000.0
}

/// The number of an id of the shape `digits|name`. Names change hands, numbers do not.
fn number(id: &str) -> Option<&str> {
    let (number, _) = id.split_once('|')?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(number)
}

/// Whether two ids are of the same person: the same, or with the same number.
fn is_same_person(one: &SenderId, other: &SenderId) -> bool {
    let (one, other) = (one.as_str(), other.as_str());
    one == other || number(one).unwrap_or(one) == number(other).unwrap_or(other)
}

/// Whether somebody is meant by what was typed: their id, or either half of it.
fn is_named(id: &SenderId, typed: &SenderId) -> bool {
    let name = number(id.as_str()).and_then(|_| id.as_str().split_once('|')).map(|(_, name)| name);
    is_same_person(id, typed) || name == Some(typed.as_str())
}
