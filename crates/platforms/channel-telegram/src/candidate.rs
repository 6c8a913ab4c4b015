//! From a message of Telegram to a candidate message.

use nanobot_channel::{ChatId, ChatKind, DeliveryContext, Map, MessageId, SessionKey};
use nanobot_channel_kit::attribute_text;
use nanobot_channel_kit::intake::Piece;
use teloxide::types::{
    CallbackQueryId, ChatId as TelegramChat, ChatKind as TelegramChatKind, Message,
    MessageId as TelegramMessage, MessageKind, MessageOrigin, PublicChatKind, User,
};

use crate::address::{BotIdentity, TextCommand, utf16_head};
use crate::attachment;
use crate::author::Author;
use crate::channel::Telegram;

/// Limit of a quoted message, in UTF-16 units.
const QUOTE_LIMIT: usize = 4000;

/// A message that may be for the assistant.
pub(crate) type CandidateMessage = nanobot_channel_kit::intake::CandidateMessage<TelegramOrigin>;

/// Facts that are needed after the delivery.
#[derive(Clone, Debug)]
pub enum TelegramOrigin {
    /// A message, or those of an album.
    Message,
    /// A press of a button below this message.
    Press {
        id: CallbackQueryId,
        chat: TelegramChat,
        message: TelegramMessage,
    },
}

impl Telegram {
    /// Reads a message, or the messages of an album. `None` if a bot or no one wrote them, or for a
    /// command for another bot.
    pub(crate) fn message_candidate(
        &self,
        bot: &BotIdentity,
        messages: &[Message],
    ) -> Option<CandidateMessage> {
        let first = messages.first()?;
        let author = Author::of(first).filter(|_| matches!(first.kind, MessageKind::Common(_)))?;
        let mut is_command = false;
        let mut text = Vec::new();
        for message in messages {
            let written = message.text().or(message.caption());
            if let Some((kind, name)) = foreign_origin(message) {
                text.push(attribute_text(kind, &name, written.unwrap_or_default()));
                continue;
            }
            let Some(written) = written else { continue };
            text.push(match bot.command(written) {
                TextCommand::Foreign => return None,
                TextCommand::No(text) => text,
                TextCommand::Known(text) => {
                    is_command = true;
                    text
                }
            });
        }
        let is_addressed =
            is_command || messages.iter().any(|message| bot.is_addressed_by(message));
        let mut candidate = self.empty_candidate(first, &author, is_addressed);
        // In front of a command it would make a text of it.
        if !is_command {
            candidate.pieces = reply_context(bot, first);
        }
        candidate.pieces.extend(text.into_iter().map(Piece::Text));
        for message in messages {
            let file = attachment::parse(message).map(Piece::File);
            let other = other_content(message).map(Piece::Text);
            candidate.pieces.extend(file.into_iter().chain(other));
        }
        Some(candidate)
    }

    /// A candidate without content, in the place of `message`.
    pub(crate) fn empty_candidate(
        &self,
        message: &Message,
        author: &Author,
        is_addressed: bool,
    ) -> CandidateMessage {
        let chat = message.chat.id.0;
        let thread = topic(message);
        let session = match &thread {
            Some(thread) => Some(format!("{}:{chat}:topic:{thread}", self.base.name)),
            None => self
                .migrations
                .former_id(chat)
                .map(|old| format!("{}:{old}", self.base.name)),
        };
        let id = MessageId::from(message.id.0.to_string());
        CandidateMessage {
            sender: author.sender_id(),
            chat: ChatId::from(chat.to_string()),
            arrival: self
                .migrations
                .arrival(chat, chat_kind(message), is_addressed),
            id: id.clone(),
            pieces: Vec::new(),
            metadata: metadata(message, author),
            session: session.map(SessionKey::from),
            delivery: DeliveryContext {
                thread,
                reply_to: Some(id),
                ..DeliveryContext::default()
            },
            origin: TelegramOrigin::Message,
        }
    }
}

/// Returns the message that this one answers, in words; its image goes before the message's own.
fn reply_context(bot: &BotIdentity, message: &Message) -> Vec<Piece> {
    let Some(original) = quoted_message(message) else {
        let Some(quote) = message.quote() else {
            return Vec::new();
        };
        let quote = utf16_head(&quote.text, QUOTE_LIMIT);
        let words = attribute_text("Reply to a message of another chat", "", quote);
        return vec![Piece::Text(words)];
    };
    let whom = match original.from.as_ref() {
        _ if bot.is_author_of(original) => "bot".to_owned(),
        Some(User {
            username: Some(username),
            ..
        }) => format!("@{username}"),
        Some(user) => user.first_name.clone(),
        None => String::new(),
    };
    let file = attachment::parse(original);
    let chosen = message.quote().map(|quote| quote.text.as_str());
    let text = chosen
        .or(original.text())
        .or(original.caption())
        .filter(|text| !text.trim().is_empty());
    let Some(text) = text else {
        // The marker of a file is our own.
        let head = attribute_text("Reply to", &whom, "");
        let head = format!("{}: ", head.trim_end_matches(']'));
        let framed = file.map(|file| Piece::Framed(head, file, "]"));
        return framed.into_iter().collect();
    };
    let head = utf16_head(text, QUOTE_LIMIT);
    let mark = if head.len() < text.len() { "..." } else { "" };
    let words = attribute_text("Reply to", &whom, &format!("{head}{mark}"));
    let file = file.map(Piece::Hidden);
    [Piece::Text(words)].into_iter().chain(file).collect()
}

/// Returns the kind and the author of text that its sender did not write.
fn foreign_origin(message: &Message) -> Option<(&'static str, String)> {
    if let Some(bot) = &message.via_bot {
        return Some((
            "sent through the bot",
            bot.username.clone().unwrap_or_default(),
        ));
    }
    // Posts of a channel stay its own in its discussion group.
    let origin = message
        .forward_origin()
        .filter(|_| !message.is_automatic_forward())?;
    let name = match origin {
        MessageOrigin::User { sender_user, .. } => sender_user.full_name(),
        MessageOrigin::HiddenUser {
            sender_user_name, ..
        } => sender_user_name.clone(),
        MessageOrigin::Chat {
            sender_chat: chat, ..
        }
        | MessageOrigin::Channel { chat, .. } => chat.title().unwrap_or_default().to_owned(),
    };
    Some(("forwarded from", name))
}

/// Returns the kind of a chat.
pub(crate) fn chat_kind(message: &Message) -> ChatKind {
    if message.chat.is_private() {
        ChatKind::Direct
    } else {
        ChatKind::Group
    }
}

/// Returns the topic of a message. In groups without topics a thread is only a chain of replies.
fn topic(message: &Message) -> Option<String> {
    let is_topic = message.is_topic_message || message.chat.is_private();
    message
        .thread_id
        .filter(|_| is_topic)
        .map(|thread| thread.0.0.to_string())
}

/// Returns the message that this one replies to, unless that one only began a topic.
fn quoted_message(message: &Message) -> Option<&Message> {
    message
        .reply_to_message()
        .filter(|original| matches!(original.kind, MessageKind::Common(_)))
}

/// Describes content other than texts and files.
fn other_content(message: &Message) -> Option<String> {
    if let Some(venue) = message.venue() {
        let place = &venue.location;
        return Some(format!(
            "[location: {}, {} ({})]",
            place.latitude, place.longitude, venue.title
        ));
    }
    if let Some(location) = message.location() {
        return Some(format!(
            "[location: {}, {}]",
            location.latitude, location.longitude
        ));
    }
    if let Some(contact) = message.contact() {
        return Some(format!(
            "[contact: {} {}]",
            contact.first_name, contact.phone_number
        ));
    }
    if let Some(poll) = message.poll() {
        let options: Vec<&str> = poll
            .options
            .iter()
            .map(|option| option.text.as_str())
            .collect();
        return Some(format!(
            "[poll: {} ({})]",
            poll.question,
            options.join(" / ")
        ));
    }
    if let Some(dice) = message.dice() {
        return Some(format!("[dice: {}]", dice.value));
    }
    let sticker = message.sticker()?;
    Some(format!(
        "[sticker: {}]",
        sticker.emoji.as_deref().unwrap_or("?")
    ))
}

fn metadata(message: &Message, author: &Author) -> Map {
    let is_forum = matches!(
        &message.chat.kind,
        TelegramChatKind::Public(chat) if matches!(&chat.kind, PublicChatKind::Supergroup(group) if group.is_forum)
    );
    let mut metadata = Map::new();
    let mut set = |key: &str, value: nanobot_channel::Value| metadata.insert(key.to_owned(), value);
    set("message_id", message.id.0.into());
    set("user_id", author.id.into());
    set("username", author.username.clone().into());
    set("first_name", author.first_name.clone().into());
    set("is_group", (chat_kind(message) == ChatKind::Group).into());
    set(
        "message_thread_id",
        message.thread_id.map(|thread| thread.0.0).into(),
    );
    set("is_forum", is_forum.into());
    set(
        "reply_to_message_id",
        quoted_message(message).map(|original| original.id.0).into(),
    );
    metadata
}
