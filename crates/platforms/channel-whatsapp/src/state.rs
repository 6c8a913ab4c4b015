//! The state of the linked device, as the bridge reports it.

use nanobot_channel::{ChannelError, Value};

use crate::error::NOT_LINKED;
use crate::jid::{Jid, JidKind};
use crate::wire::{flag, given, shortened, text};

/// Longest reason and longest name that are kept, in characters.
const TEXT_LIMIT: usize = 200;
/// The advice for a second program with the keys of the device.
const REPLACED: &str = "WhatsApp serves one program with the keys of a linked device";

/// The reason of a bridge that connects for the first time, or did not say why again.
pub(crate) const NOT_YET: &str = "it is not connected yet";

/// The connection between the bridge and WhatsApp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// Messages come and go.
    Connected,
    /// The bridge connects, for the first time or again; holds the reason.
    Waiting(String),
    /// No device is linked.
    Unlinked,
    /// Another program uses the keys of the device.
    Replaced,
    /// The bridge gave up, for this reason.
    Stopped(String),
}

/// The account of the linked device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    ids: Vec<Jid>,
    name: String,
}

/// A report of the bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) link: Link,
    /// `None` if the report has none.
    pub(crate) account: Option<Account>,
}

impl State {
    /// Reads the members of a `ready` or a `status`. An unknown status is a pause.
    pub(crate) fn read(report: &Value) -> Self {
        let reason = text(report, "reason");
        // Version 1 has no `retry`, and always tries again.
        let retries = report.get("retry").is_none() || flag(report, "retry");
        let link = match (text(report, "status"), reason) {
            ("connected", _) => Link::Connected,
            ("unlinked", _) | ("disconnected", "logged_out") => Link::Unlinked,
            ("disconnected", "replaced") => Link::Replaced,
            ("disconnected", reason) if !retries => Link::Stopped(shortened(reason, TEXT_LIMIT)),
            ("disconnected", "restart") => Link::Waiting("it connects anew".to_owned()),
            ("disconnected", reason) if !reason.is_empty() => {
                Link::Waiting(shortened(reason, TEXT_LIMIT))
            }
            _ => Link::Waiting(NOT_YET.to_owned()),
        };
        let account = report.get("account").filter(|account| account.is_object());
        Self {
            link,
            account: account.map(Account::read),
        }
    }
}

impl Link {
    /// Returns the reason why the channel is impaired; `None` if it works.
    ///
    /// # Errors
    /// The reason why the channel cannot go on.
    pub(crate) fn trouble(&self) -> Result<Option<String>, ChannelError> {
        match self {
            Self::Connected => Ok(None),
            Self::Waiting(why) => Ok(Some(format!("WhatsApp is not connected: {why}"))),
            Self::Unlinked => Err(ChannelError::Auth(NOT_LINKED.to_owned())),
            Self::Replaced => Err(ChannelError::Conflict(REPLACED.to_owned())),
            Self::Stopped(why) => {
                let why = format!("the bridge does not connect to WhatsApp any more: {why}");
                Err(ChannelError::Unavailable(why))
            }
        }
    }
}

impl Account {
    fn read(account: &Value) -> Self {
        let ids = ["id", "lid"].iter().filter_map(|key| given(account, key));
        Self {
            ids: ids.filter_map(Jid::person).collect(),
            name: shortened(text(account, "name").trim(), TEXT_LIMIT),
        }
    }

    /// `true` if a mention of `user` means the account.
    pub(crate) fn is_user(&self, user: &str) -> bool {
        self.ids.iter().any(|jid| jid.user == user)
    }

    /// Returns the account for people: `+4915… (Ann)`.
    pub(crate) fn shown(&self) -> String {
        let number = self.ids.iter().find(|jid| jid.kind == JidKind::Phone);
        let number = number.map(|jid| format!("+{}", jid.user));
        let lid = self.ids.first().map(ToString::to_string);
        let id = number.or(lid);
        match (id, self.name.as_str()) {
            (Some(id), "") => id,
            (Some(id), name) => format!("{id} ({name})"),
            (None, "") => "a linked device".to_owned(),
            (None, name) => name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(report: &Value) -> Link {
        State::read(report).link
    }

    #[test]
    fn reports_have_the_right_meaning() {
        let waiting = |why: &str| Link::Waiting(why.to_owned());
        let stopped = Link::Stopped("banned".to_owned());
        let table = [
            (json!({"status": "connected"}), Link::Connected),
            (
                json!({"status": "connecting"}),
                waiting("it is not connected yet"),
            ),
            (json!({"status": "unlinked"}), Link::Unlinked),
            (
                json!({"status": "disconnected", "reason": "logged_out", "retry": false}),
                Link::Unlinked,
            ),
            (
                json!({"status": "disconnected", "reason": "replaced", "retry": false}),
                Link::Replaced,
            ),
            (
                json!({"status": "disconnected", "reason": "restart", "retry": true}),
                waiting("it connects anew"),
            ),
            (
                json!({"status": "disconnected", "reason": "timeout", "retry": true}),
                waiting("timeout"),
            ),
            (
                json!({"status": "disconnected", "reason": "banned", "retry": false}),
                stopped,
            ),
            (
                json!({"status": "disconnected"}),
                waiting("it is not connected yet"),
            ),
            (json!({"status": 5}), waiting("it is not connected yet")),
            (json!(null), waiting("it is not connected yet")),
        ];
        for (report, expected) in table {
            assert_eq!(read(&report), expected, "{report}");
        }
    }

    #[test]
    fn only_a_pause_is_bridged() {
        let why = Link::Waiting("x".to_owned()).trouble().unwrap();
        assert_eq!(why.as_deref(), Some("WhatsApp is not connected: x"));
        assert_eq!(Link::Connected.trouble().unwrap(), None);
        let end = |link: Link| link.trouble().unwrap_err();
        assert!(end(Link::Unlinked).is_permanent());
        assert!(matches!(end(Link::Replaced), ChannelError::Conflict(_)));
        let stopped = end(Link::Stopped("x".to_owned()));
        assert!(matches!(stopped, ChannelError::Unavailable(_)));
    }

    #[test]
    fn account_is_shown_by_number_and_name() {
        let shown = |account: Value| {
            let state = State::read(&json!({"status": "connected", "account": account}));
            state.account.map(|account| account.shown())
        };
        let full = json!({"id": "4915:7@s.whatsapp.net", "lid": "12@lid", "name": "Ann"});
        assert_eq!(shown(full.clone()).as_deref(), Some("+4915 (Ann)"));
        assert_eq!(shown(json!({"lid": "12@lid"})).as_deref(), Some("12@lid"));
        assert_eq!(shown(json!({"id": 5})).as_deref(), Some("a linked device"));
        assert_eq!(shown(json!("x")), None);
        let account = Account::read(&full);
        assert!(account.is_user("4915") && account.is_user("12") && !account.is_user("1"));
    }
}
