//! Access to the assistant, from the configuration and the file of paired people.

use std::collections::BTreeMap;

use chrono::Utc;
use nanobot_channel::{Arrival, ChannelName, ChatId, SenderId};
use nanobot_channels::{AccessRules, AccessVerdict, PairingStore, Person};

use crate::assembly::audit::{AccessChange, record_access};
use crate::assembly::channels::configured_channels;
use crate::{Runtime, RuntimeError};

/// Outcome of revoking an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revoked {
    /// The person is no longer let in.
    Done,
    /// The approval is removed, but the configuration still lets the person in.
    StillLetIn,
    /// The person was not approved.
    WasNotApproved,
}

/// Access rules and pairings of a home. Reads the files again at every call, never from a cache.
#[derive(Clone, Debug)]
pub struct HomeAccess {
    store: PairingStore,
    runtime: Runtime,
}

impl HomeAccess {
    /// Returns the access of the assistant of `runtime`; nothing is read yet.
    #[must_use]
    pub fn of(runtime: &Runtime) -> Self {
        Self {
            store: PairingStore::in_folder(&runtime.config().paths().data_dir),
            runtime: runtime.clone(),
        }
    }

    /// Returns the approved people and the pending requests. Its methods block.
    #[must_use]
    pub fn pairing(&self) -> &PairingStore {
        &self.store
    }

    /// Reads the configuration again and returns the access rules of every usable channel, by name.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Config`] if the configuration cannot be used.
    pub fn rules(&self) -> Result<BTreeMap<ChannelName, AccessRules>, RuntimeError> {
        let settings = configured_channels(&self.runtime.reload()?)?.into_iter();
        let settings = settings.filter_map(|channel| {
            channel
                .settings()
                .ok()
                .map(|settings| (channel.name, settings))
        });
        Ok(settings
            .map(|(name, settings)| (name, settings.access))
            .collect())
    }

    /// Returns whether the rules let a person write in a direct chat, given whether the person is
    /// approved; `None` if there is no such channel.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Config`] if the configuration cannot be used.
    pub fn is_admitted(
        &self,
        person: &Person,
        approved: bool,
    ) -> Result<Option<bool>, RuntimeError> {
        let chat = ChatId::from(person.sender.as_str());
        let rules = self.rules()?;
        let verdict =
            |rules: &AccessRules| rules.judge(&person.sender, &chat, &Arrival::direct(), approved);
        Ok(rules
            .get(&person.channel)
            .map(|rules| verdict(rules) == AccessVerdict::Allowed))
    }

    /// Approves the person with a code, and records it in the audit log. `by` is the person who
    /// decides; `None` is the owner of the home.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Pairing`] if the code is not valid or the file cannot be used.
    pub fn approve(
        &self,
        code: &str,
        channel: Option<&ChannelName>,
        by: Option<&Person>,
    ) -> Result<Person, RuntimeError> {
        let person = self.store.approve(code, channel, Utc::now())?;
        record_access(self.runtime.config(), AccessChange::Approved, &person, by);
        Ok(person)
    }

    /// Withdraws a code without an approval, and records it in the audit log.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Pairing`] if the code is not valid or the file cannot be used.
    pub fn deny(
        &self,
        code: &str,
        channel: Option<&ChannelName>,
        by: Option<&Person>,
    ) -> Result<Person, RuntimeError> {
        let person = self.store.deny(code, channel, Utc::now())?;
        record_access(self.runtime.config(), AccessChange::Denied, &person, by);
        Ok(person)
    }

    /// Revokes an approval, and records it in the audit log.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Pairing`] if the file of pairings cannot be used,
    /// [`RuntimeError::Config`] if the configuration cannot be used.
    pub fn revoke(&self, person: &Person, by: Option<&Person>) -> Result<Revoked, RuntimeError> {
        let mut people = self.store.revoke(person)?;
        for person in &people {
            record_access(self.runtime.config(), AccessChange::Revoked, person, by);
        }
        let was_approved = !people.is_empty();
        people.push(person.clone());
        for person in &people {
            if self.is_admitted(person, false)? == Some(true) {
                return Ok(Revoked::StillLetIn);
            }
        }
        Ok(if was_approved {
            Revoked::Done
        } else {
            Revoked::WasNotApproved
        })
    }

    /// `true` if this sender may approve others: the sender is approved or named in the rules, and
    /// is let in. A sender who is let in only by the wildcard may not approve.
    pub(crate) fn may_approve(
        &self,
        channel: &ChannelName,
        sender: &SenderId,
    ) -> Result<bool, RuntimeError> {
        let person = Person {
            channel: channel.clone(),
            sender: sender.clone(),
        };
        let is_approved = self.store.is_approved(channel, sender)?;
        let is_named = self
            .rules()?
            .get(channel)
            .is_some_and(|rules| rules.names(sender));
        Ok((is_approved || is_named) && self.is_admitted(&person, is_approved)? == Some(true))
    }
}

#[cfg(test)]
#[cfg(feature = "telegram")]
mod tests {
    use nanobot_channels::PairingReply;
    use nanobot_config::Environment;
    use serde_json::{Value, json};

    use super::*;
    use crate::LoadOptions;
    use crate::assembly::runtime::in_environment;

    fn home(folder: &std::path::Path, rules: &Value) -> HomeAccess {
        let mut section = json!({ "enabled": true, "token": "1:a" });
        section
            .as_object_mut()
            .unwrap()
            .extend(rules.as_object().unwrap().clone());
        std::fs::create_dir_all(folder.join(".nanobot")).unwrap();
        let config = json!({ "channels": { "telegram": section } }).to_string();
        std::fs::write(folder.join(".nanobot/config.json"), config).unwrap();
        let environment = Environment::new([], Some(folder.into()), "/".into());
        HomeAccess::of(&in_environment(environment, LoadOptions::default()))
    }

    #[test]
    fn only_listed_or_approved_people_may_approve() {
        let telegram = ChannelName::from("telegram");
        let table = [
            (json!({}), "8", false, false),
            (json!({}), "8", true, true),
            (json!({"allowFrom": ["7"]}), "7|ann", false, true),
            (json!({"allowFrom": ["7"]}), "8", false, false),
            (json!({"allowFrom": ["7"]}), "8", true, true),
            (json!({"allowFrom": ["*"]}), "8", false, false),
            (json!({"allowFrom": ["*"]}), "*", false, false),
            (json!({"allowFrom": ["*", "7"]}), "7", false, true),
            (json!({"allowFrom": ["*"]}), "8", true, true),
            (json!({"allowFrom": []}), "8", true, false),
            (
                json!({"allowFrom": ["7"], "dm": {"enabled": false}}),
                "7",
                false,
                false,
            ),
            (json!({"dm": {"policy": "open"}}), "8", false, false),
            (
                json!({"allowFrom": ["7"], "dm": {"policy": "allowlist", "allowFrom": ["9"]}}),
                "7",
                false,
                false,
            ),
            (
                json!({"allowFrom": ["7"], "dm": {"policy": "allowlist", "allowFrom": ["9"]}}),
                "9",
                false,
                true,
            ),
            (
                json!({"groupAllowFrom": ["8"], "groups": {"8": {"allowFrom": ["8"]}}}),
                "8",
                false,
                false,
            ),
        ];
        for (rules, sender, is_approved, expected) in table {
            let folder = tempfile::tempdir().unwrap();
            let access = home(folder.path(), &rules);
            let sender = SenderId::from(sender);
            let ask = || {
                access
                    .pairing()
                    .ask(&telegram, &sender, &sender.as_str().into(), Utc::now())
                    .unwrap()
            };
            if is_approved && let PairingReply::Code(code) = ask() {
                access
                    .pairing()
                    .approve(&code, Some(&telegram), Utc::now())
                    .unwrap();
            }
            assert_eq!(
                access.may_approve(&telegram, &sender).unwrap(),
                expected,
                "{rules} {sender} {is_approved}"
            );
            assert!(
                !access.may_approve(&"other".into(), &sender).unwrap(),
                "an approver of one channel may not approve in another"
            );
        }
    }

    #[test]
    fn access_follows_the_current_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let access = home(folder.path(), &json!({"allowFrom": ["7"]}));
        let ann = Person {
            channel: "telegram".into(),
            sender: "7|ann".into(),
        };
        assert_eq!(access.is_admitted(&ann, false).unwrap(), Some(true));
        home(folder.path(), &json!({"allowFrom": ["8"]}));
        assert_eq!(access.is_admitted(&ann, false).unwrap(), Some(false));
        assert_eq!(access.revoke(&ann, None).unwrap(), Revoked::WasNotApproved);
        let other = Person {
            channel: "other".into(),
            ..ann
        };
        assert_eq!(access.is_admitted(&other, true).unwrap(), None);
    }
}
