//! Who may talk to the assistant, as the configuration and the file of paired people have it.

use std::collections::BTreeMap;

use nanobot_channel::{Arrival, ChannelName, ChatId, SenderId};
use nanobot_channels::{AccessRules, PairingStore, Person, Verdict};

use crate::assembly::channels::wanted;
use crate::{Runtime, RuntimeError};

/// What became of somebody whose approval was taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revoked {
    /// They are not let in any more.
    Done,
    /// They are, by the configuration.
    StillLetIn,
    /// There was no approval.
    WasNotApproved,
}

/// Access to a home's assistant, always as it is written now.
#[derive(Clone, Debug)]
pub struct HomeAccess {
    store: PairingStore,
    runtime: Runtime,
}

impl HomeAccess {
    /// Access to the assistant of `runtime`; nothing is read yet.
    #[must_use]
    pub fn of(runtime: &Runtime) -> Self {
        Self {
            store: PairingStore::in_folder(&runtime.config().paths().data_dir),
            runtime: runtime.clone(),
        }
    }

    /// Who was approved, and who waits for it. Its methods block.
    #[must_use]
    pub fn pairing(&self) -> &PairingStore {
        &self.store
    }

    /// The rules of every channel that can be used, by name. Reads the configuration again.
    ///
    /// # Errors
    /// [`RuntimeError::Config`].
    pub fn rules(&self) -> Result<BTreeMap<ChannelName, AccessRules>, RuntimeError> {
        let settings = wanted(&self.runtime.reload()?)?.into_iter();
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

    /// Whether the rules let somebody write in a direct chat who was approved, or was not; `None`
    /// where they have no such channel.
    ///
    /// # Errors
    /// [`RuntimeError::Config`].
    pub fn is_let_in(&self, person: &Person, approved: bool) -> Result<Option<bool>, RuntimeError> {
        let chat = ChatId::from(person.sender.as_str());
        let rules = self.rules()?;
        let verdict =
            |rules: &AccessRules| rules.judge(&person.sender, &chat, &Arrival::direct(), approved);
        Ok(rules
            .get(&person.channel)
            .map(|rules| verdict(rules) == Verdict::Allowed))
    }

    /// Takes an approval back.
    ///
    /// # Errors
    /// [`RuntimeError::Pairing`] and [`RuntimeError::Config`].
    pub fn revoke(&self, person: &Person) -> Result<Revoked, RuntimeError> {
        let mut meant = self.store.revoke(person)?;
        let was_approved = !meant.is_empty();
        meant.push(person.clone());
        for person in &meant {
            if self.is_let_in(person, false)? == Some(true) {
                return Ok(Revoked::StillLetIn);
            }
        }
        Ok(if was_approved {
            Revoked::Done
        } else {
            Revoked::WasNotApproved
        })
    }

    /// Whether somebody may say who else is let in: the rules know who they are and let them in. Who
    /// is let in only as everybody is, may not.
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
        Ok((is_approved || is_named) && self.is_let_in(&person, is_approved)? == Some(true))
    }
}

#[cfg(test)]
#[cfg(feature = "telegram")]
mod tests {
    use chrono::Utc;
    use nanobot_channels::Asked;
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
    fn only_who_is_known_and_let_in_says_who_else_is() {
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
            if is_approved && let Asked::Code(code) = ask() {
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
                "of no other channel"
            );
        }
    }

    #[test]
    fn the_rules_are_those_of_now() {
        let folder = tempfile::tempdir().unwrap();
        let access = home(folder.path(), &json!({"allowFrom": ["7"]}));
        let ann = Person {
            channel: "telegram".into(),
            sender: "7|ann".into(),
        };
        assert_eq!(access.is_let_in(&ann, false).unwrap(), Some(true));
        home(folder.path(), &json!({"allowFrom": ["8"]}));
        assert_eq!(access.is_let_in(&ann, false).unwrap(), Some(false));
        assert_eq!(access.revoke(&ann).unwrap(), Revoked::WasNotApproved);
        let other = Person {
            channel: "other".into(),
            ..ann
        };
        assert_eq!(access.is_let_in(&other, true).unwrap(), None);
    }
}
