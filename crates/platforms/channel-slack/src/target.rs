//! The destination of a message: a conversation by its id, or by its name.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use nanobot_channel::{ChannelError, ChatId, DeliveryContext};
use serde::Deserialize;
use serde_json::json;
use slack_morphism::{SlackChannelId, SlackTs};

use crate::channel::Slack;
use crate::error::CallError;

/// Number of resolved targets that are remembered.
const CAPACITY: usize = 1024;
/// Most pages of a list that are read.
const MAX_PAGES: usize = 50;
const PAGE_SIZE: &str = "200";

/// A conversation and the thread in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SendTarget {
    pub(crate) chat: String,
    pub(crate) thread: Option<String>,
}

impl SendTarget {
    pub(crate) fn channel_id(&self) -> SlackChannelId {
        SlackChannelId::new(self.chat.clone())
    }

    pub(crate) fn thread_ts(&self) -> Option<SlackTs> {
        self.thread.clone().map(SlackTs::new)
    }
}

/// A target as it is written, before Slack is asked.
#[derive(Debug, PartialEq, Eq)]
enum ParsedTarget<'a> {
    Conversation(&'a str),
    User(&'a str),
    ChannelName(&'a str),
    UserName(&'a str),
}

impl<'a> ParsedTarget<'a> {
    /// `C…`, `U…`, `<#C…|name>`, `<@U…>`, `#name`, `@name`.
    fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim();
        if let Some(token) = text
            .strip_prefix('<')
            .and_then(|token| token.strip_suffix('>'))
        {
            let id = token.strip_prefix(['#', '@'])?;
            return Self::of_id(id.split_once('|').map_or(id, |(id, _)| id));
        }
        match text.split_at_checked(1) {
            Some(("#", name)) if !name.is_empty() => Some(Self::ChannelName(name)),
            Some(("@", name)) if !name.is_empty() => {
                Some(Self::of_user_id(name).unwrap_or(Self::UserName(name)))
            }
            _ => Self::of_id(text),
        }
    }

    fn of_id(id: &'a str) -> Option<Self> {
        let is_id = id.len() > 1
            && id
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        match id.as_bytes().first() {
            Some(b'C' | b'G' | b'D') if is_id => Some(Self::Conversation(id)),
            _ => Self::of_user_id(id),
        }
    }

    fn of_user_id(id: &'a str) -> Option<Self> {
        let is_id = id.len() > 1
            && id
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        (is_id && id.starts_with(['U', 'W'])).then_some(Self::User(id))
    }
}

/// Splits a chat from the thread after it.
fn split_thread(chat: &str) -> (&str, Option<&str>) {
    let is_timestamp = |text: &str| {
        let Some((seconds, fraction)) = text.split_once('.') else {
            return false;
        };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        is_number(seconds) && is_number(fraction)
    };
    match chat.split_once(':') {
        Some((chat, thread)) if is_timestamp(thread) => (chat, Some(thread)),
        _ => (chat, None),
    }
}

/// Ids of conversations by the targets that were resolved to them.
#[derive(Debug, Default)]
pub(crate) struct Directory(Mutex<BTreeMap<String, String>>);

impl Directory {
    fn get(&self, target: &str) -> Option<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(target)
            .cloned()
    }

    fn insert(&self, target: &str, chat: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= CAPACITY {
            known.clear();
        }
        known.insert(target.to_owned(), chat.to_owned());
    }
}

/// A page of a list of conversations or people.
#[derive(Debug, Deserialize)]
struct ListPage {
    #[serde(default, alias = "members")]
    channels: Vec<ListEntry>,
    #[serde(default)]
    response_metadata: NextPage,
}

/// The cursor of the next page of a list; empty at its end.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NextPage {
    pub(crate) next_cursor: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ListEntry {
    id: String,
    name: String,
    deleted: bool,
    profile: Profile,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Profile {
    display_name: String,
    real_name: String,
}

impl Slack {
    /// Returns the target of a message; asks Slack if its chat is only a name. Without a thread in
    /// the delivery, the chat may name one as sessions do: `C1:1700000000.000100`.
    pub(crate) async fn target(
        &self,
        chat: &ChatId,
        delivery: &DeliveryContext,
    ) -> Result<SendTarget, ChannelError> {
        let (id, named) = split_thread(chat.as_str());
        let thread = delivery.thread.clone().or(named.map(str::to_owned));
        let Some(target) = ParsedTarget::parse(id) else {
            return Err(ChannelError::NotFound(format!(
                "`{chat}` is no channel, person or id of Slack"
            )));
        };
        if let ParsedTarget::Conversation(chat) = target {
            return Ok(SendTarget {
                chat: chat.to_owned(),
                thread,
            });
        }
        if let Some(chat) = self.directory.get(id) {
            return Ok(SendTarget { chat, thread });
        }
        let found = match target {
            ParsedTarget::Conversation(chat) => Ok(Some(chat.to_owned())),
            ParsedTarget::User(user) => self.direct_chat(user).await.map(Some),
            ParsedTarget::ChannelName(name) => self.channel_named(name).await,
            ParsedTarget::UserName(name) => match self.user_named(name).await {
                Ok(Some(user)) => self.direct_chat(&user).await.map(Some),
                other => other,
            },
        }
        .map_err(CallError::repeatable)?;
        let Some(found) = found else {
            return Err(ChannelError::NotFound(format!(
                "there is no `{chat}` that the app can see"
            )));
        };
        self.directory.insert(id, &found);
        Ok(SendTarget {
            chat: found,
            thread,
        })
    }

    /// Opens the conversation with a person.
    async fn direct_chat(&self, user: &str) -> Result<String, CallError> {
        #[derive(Deserialize)]
        struct Opened {
            channel: ListEntry,
        }
        let opened: Opened = self
            .api
            .call("conversations.open", &json!({"users": user}))
            .await?;
        Ok(opened.channel.id)
    }

    async fn channel_named(&self, name: &str) -> Result<Option<String>, CallError> {
        let query = [
            ("types", "public_channel,private_channel"),
            ("exclude_archived", "true"),
        ];
        self.find("conversations.list", &query, |entry| entry.name == name)
            .await
    }

    async fn user_named(&self, name: &str) -> Result<Option<String>, CallError> {
        let matches_name = |entry: &ListEntry| {
            let Profile {
                display_name,
                real_name,
            } = &entry.profile;
            !entry.deleted
                && [&entry.name, display_name, real_name]
                    .into_iter()
                    .any(|known| known == name)
        };
        self.find("users.list", &[], matches_name).await
    }

    /// The id of the first entry of a list that is meant.
    async fn find(
        &self,
        method: &str,
        query: &[(&str, &str)],
        matches_name: impl Fn(&ListEntry) -> bool + Send,
    ) -> Result<Option<String>, CallError> {
        let mut cursor = String::new();
        for _ in 0..MAX_PAGES {
            let mut query = query.to_vec();
            query.push(("limit", PAGE_SIZE));
            if !cursor.is_empty() {
                query.push(("cursor", &cursor));
            }
            let page: ListPage = self.api.query(method, &query).await?;
            if let Some(entry) = page.channels.into_iter().find(&matches_name) {
                return Ok(Some(entry.id));
            }
            cursor = page.response_metadata.next_cursor;
            if cursor.is_empty() {
                break;
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_of_a_session_is_split_from_its_chat() {
        let table = [
            ("C1:1700000000.000100", "C1", Some("1700000000.000100")),
            ("C1:1700000000", "C1:1700000000", None),
            ("C1:1.x", "C1:1.x", None),
            ("C1:", "C1:", None),
            ("#a:b", "#a:b", None),
            ("C1", "C1", None),
        ];
        for (text, chat, thread) in table {
            assert_eq!(split_thread(text), (chat, thread), "{text}");
        }
    }

    #[test]
    fn target_parses_ids_and_names() {
        use ParsedTarget::{ChannelName, Conversation, User, UserName};
        let table = [
            ("C012AB", Some(Conversation("C012AB"))),
            (" D1 ", Some(Conversation("D1"))),
            ("<#C1|general>", Some(Conversation("C1"))),
            ("<#C1>", Some(Conversation("C1"))),
            ("U1", Some(User("U1"))),
            ("W1", Some(User("W1"))),
            ("<@U1>", Some(User("U1"))),
            ("@U1", Some(User("U1"))),
            ("#general", Some(ChannelName("general"))),
            ("@ann", Some(UserName("ann"))),
            ("@語", Some(UserName("語"))),
            ("general", None),
            ("#", None),
            ("語", None),
            ("", None),
        ];
        for (text, target) in table {
            assert_eq!(ParsedTarget::parse(text), target, "{text}");
        }
    }
}
