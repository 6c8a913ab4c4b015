//! From an event of Slack to a candidate message.
//!
//! A message that mentions the app comes twice (`message` and
//! `app_mention`, in any order); both become the same candidate, so whichever is second is a
//! duplicate by channel and `ts`.

use nanobot_channel::{
    Arrival, ChatId, ChatKind, CommandInfo, DeliveryContext, Map, MessageId, SenderId, Value,
};
use nanobot_channel_kit::attribute_text;
use nanobot_channel_kit::intake::Piece;
use serde_json::json;

use crate::SlackConfig;
use crate::attachment;
use crate::target::SendTarget;
use crate::text::{head, mentions, readable, strip_mention};
use crate::wire::{SlackEvent, SlashCommand};

/// Most shared messages of one message that are shown, and the longest text of each, in characters.
const MAX_SHARED: usize = 10;
const MAX_SHARED_LENGTH: usize = 4000;
/// Subtypes of messages that people write.
const WRITTEN_SUBTYPES: &[&str] = &["file_share", "me_message", "thread_broadcast"];

/// The app's own user.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) user: String,
    pub(crate) name: String,
    pub(crate) team: String,
}

/// A message that may be for the assistant.
pub(crate) type CandidateMessage = nanobot_channel_kit::intake::CandidateMessage<SlackOrigin>;

/// Facts that are needed after the delivery.
#[derive(Clone, Debug, Default)]
pub struct SlackOrigin {
    /// The message that a reaction can be put on.
    pub(crate) message: Option<String>,
    /// The thread of the message itself; its reply may begin another one.
    pub(crate) source_thread: Option<String>,
    /// The message whose button was pressed, with the label.
    pub(crate) pressed: Option<(Value, String)>,
}

/// Reads a message. `None` when it is not for the assistant.
pub(crate) fn message_candidate(
    config: &SlackConfig,
    me: &Identity,
    event: &SlackEvent,
) -> Option<CandidateMessage> {
    let is_mention = event.kind == "app_mention";
    if !is_mention && event.kind != "message" {
        return None;
    }
    let is_written = event
        .subtype
        .as_deref()
        .is_none_or(|subtype| WRITTEN_SUBTYPES.contains(&subtype));
    // Other bots may answer every message they see, and so would this one.
    if !is_written || event.bot_id.is_some() {
        return None;
    }
    let given = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
    let (user, chat, ts) = (
        given(&event.user)?,
        given(&event.channel)?,
        given(&event.ts)?,
    );
    if user == me.user {
        return None;
    }
    let kind = chat_kind(event.channel_type.as_deref(), &chat);
    let raw = event.text.as_deref().unwrap_or_default();
    let is_answer = event.parent_user_id.as_deref() == Some(&me.user);
    let is_addressed = is_mention || is_answer || mentions(raw, &me.user);
    let source_thread = given(&event.thread_ts);
    let begins_thread = kind == ChatKind::Group && config.reply_in_thread;
    let thread = source_thread
        .clone()
        .or_else(|| begins_thread.then(|| ts.clone()));
    let shared = event.attachments.iter().flatten().take(MAX_SHARED);
    let files = event.files.iter().flatten();
    let facts = json!({
        "type": event.kind, "user": user, "channel": chat, "ts": ts, "thread_ts": source_thread, "text": raw,
    });
    let mut candidate = empty_candidate(user, chat, kind, ts.clone(), thread, facts);
    if kind == ChatKind::Group {
        candidate.arrival = Arrival::group(is_addressed);
    }
    let text = readable(&strip_mention(raw, &me.user));
    candidate.pieces = [Piece::Text(text)]
        .into_iter()
        .chain(shared.filter_map(shared_text).map(Piece::Text))
        .chain(files.map(attachment::parse).map(Piece::File))
        .collect();
    candidate.delivery.reply_to = Some(MessageId::from(ts.as_str()));
    candidate.origin = SlackOrigin {
        message: Some(ts),
        source_thread,
        pressed: None,
    };
    Some(candidate)
}

/// Reads a slash command: a command of the assistant by its own name, or anything else after a name
/// that only the workspace knows (`/nanobot new`, `/nanobot how are you?`).
pub(crate) fn command_candidate(
    command: SlashCommand,
    commands: &[CommandInfo],
) -> Option<CandidateMessage> {
    let SlashCommand {
        command,
        text,
        user_id,
        channel_id,
        channel_name,
        trigger_id,
    } = command;
    if user_id.is_empty() || channel_id.is_empty() || trigger_id.is_empty() {
        return None;
    }
    let is_direct = channel_name.as_deref() == Some("directmessage");
    let kind = chat_kind(is_direct.then_some("im"), &channel_id);
    let facts = json!({"type": "slash_commands", "user": user_id, "channel": channel_id, "command": command});
    let mut candidate = empty_candidate(user_id, channel_id, kind, trigger_id, None, facts);
    let text = command_text(&command, text.as_deref().unwrap_or_default(), commands);
    candidate.pieces = vec![Piece::Text(text)];
    Some(candidate)
}

/// A candidate without content that means the assistant.
pub(crate) fn empty_candidate(
    user: String,
    chat: String,
    kind: ChatKind,
    id: String,
    thread: Option<String>,
    facts: Value,
) -> CandidateMessage {
    CandidateMessage {
        metadata: metadata(facts, thread.as_deref(), kind),
        sender: SenderId::from(user),
        chat: ChatId::from(chat),
        arrival: match kind {
            ChatKind::Direct => Arrival::direct(),
            ChatKind::Group => Arrival::group(true),
        },
        id: MessageId::from(id),
        pieces: Vec::new(),
        session: None,
        delivery: DeliveryContext {
            thread,
            ..DeliveryContext::default()
        },
        origin: SlackOrigin::default(),
    }
}

/// Returns the place and the `ts` of a candidate, if it is a message.
pub(crate) fn message_mark(candidate: &CandidateMessage) -> Option<(SendTarget, String)> {
    let SlackOrigin {
        message,
        source_thread,
        ..
    } = &candidate.origin;
    let place = SendTarget {
        chat: candidate.chat.to_string(),
        thread: source_thread.clone(),
    };
    message.clone().map(|ts| (place, ts))
}

/// Returns the marks of a candidate's conversation and of the thread of its reply, right before the
/// candidate.
pub(crate) fn initial_marks(candidate: &CandidateMessage) -> Vec<(SendTarget, String)> {
    let Some(ts) = &candidate.origin.message else {
        return Vec::new();
    };
    let place = |thread: Option<&String>| {
        let is_thread_root = thread == Some(ts);
        let before = if is_thread_root {
            Some(ts.clone())
        } else {
            previous_ts(ts)
        };
        let place = SendTarget {
            chat: candidate.chat.to_string(),
            thread: thread.cloned(),
        };
        Some((place, before?))
    };
    let thread = candidate.delivery.thread.as_ref().map(Some);
    [None].into_iter().chain(thread).filter_map(place).collect()
}

/// Returns a message that was shared, or the preview of a link, attributed to its author.
fn shared_text(attachment: &Value) -> Option<String> {
    let given = |key: &str| {
        attachment
            .get(key)
            .and_then(Value::as_str)
            .filter(|text| !text.trim().is_empty())
    };
    let is = |key: &str| {
        attachment
            .get(key)
            .and_then(Value::as_bool)
            .unwrap_or(false)
    };
    let kind = if is("is_share") || is("is_msg_unfurl") {
        "shared message of"
    } else {
        "preview of"
    };
    let name = given("author_name")
        .or(given("author_id"))
        .or(given("title"))
        .or(given("service_name"));
    let text = given("text").or(given("fallback"))?;
    Some(attribute_text(
        kind,
        name.unwrap_or("unknown"),
        &readable(head(text, MAX_SHARED_LENGTH)),
    ))
}

/// Returns the last possible `ts` before this one.
fn previous_ts(ts: &str) -> Option<String> {
    let (seconds, micros) = ts.split_once('.')?;
    let at = seconds
        .parse::<u64>()
        .ok()?
        .checked_mul(1_000_000)?
        .checked_add(micros.parse().ok()?)?
        .checked_sub(1)?;
    Some(format!("{}.{:06}", at / 1_000_000, at % 1_000_000))
}

/// Returns the kind of a chat, from its id if Slack does not report it.
pub(crate) fn chat_kind(channel_type: Option<&str>, chat: &str) -> ChatKind {
    let is_direct = channel_type.map_or_else(|| chat.starts_with('D'), |kind| kind == "im");
    if is_direct {
        ChatKind::Direct
    } else {
        ChatKind::Group
    }
}

fn command_text(command: &str, text: &str, commands: &[CommandInfo]) -> String {
    let is_known = |word: &str| commands.iter().any(|known| known.is_named(word));
    let (name, text) = (command.trim_start_matches('/'), readable(text.trim()));
    if is_known(name) {
        return format!("/{name} {text}").trim_end().to_owned();
    }
    match text.split_whitespace().next() {
        None => "/help".to_owned(),
        Some(word) if is_known(word) => format!("/{text}"),
        Some(_) => text,
    }
}

fn metadata(event: Value, thread: Option<&str>, kind: ChatKind) -> Map {
    let channel_type = if kind == ChatKind::Direct {
        "im"
    } else {
        "channel"
    };
    let slack = Map::from_iter([
        ("event".to_owned(), event),
        ("thread_ts".to_owned(), json!(thread)),
        ("channel_type".to_owned(), json!(channel_type)),
    ]);
    Map::from_iter([("slack".to_owned(), slack.into())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slash_command_maps_to_a_command_or_its_text() {
        let commands = [
            CommandInfo {
                name: "new",
                aliases: &["reset"],
                about: "Begin anew",
                usage: "",
            },
            CommandInfo {
                name: "model",
                aliases: &[],
                about: "Choose",
                usage: "[NAME]",
            },
        ];
        let table = [
            ("/new", "", "/new"),
            ("/Reset", "", "/Reset"),
            ("/model", " gpt ", "/model gpt"),
            ("/nanobot", "model gpt", "/model gpt"),
            ("/nanobot", "/new", "/new"),
            ("/nanobot", "how are &lt;you&gt;?", "how are <you>?"),
            ("/nanobot", " ", "/help"),
        ];
        for (command, text, expected) in table {
            assert_eq!(
                command_text(command, text, &commands),
                expected,
                "{command} {text}"
            );
        }
    }

    #[test]
    fn previous_ts_is_one_microsecond_earlier() {
        let table = [
            ("5.000002", Some("5.000001")),
            ("1700000000.000000", Some("1699999999.999999")),
            ("x", None),
        ];
        for (ts, before) in table {
            assert_eq!(previous_ts(ts).as_deref(), before, "{ts}");
        }
    }

    #[test]
    fn chat_kind_falls_back_to_the_id_prefix() {
        let table = [
            (Some("im"), "D1", ChatKind::Direct),
            (None, "D1", ChatKind::Direct),
            (Some("mpim"), "G1", ChatKind::Group),
            (Some("channel"), "C1", ChatKind::Group),
            (None, "C1", ChatKind::Group),
        ];
        for (kind, chat, expected) in table {
            assert_eq!(chat_kind(kind, chat), expected, "{kind:?} {chat}");
        }
    }
}
