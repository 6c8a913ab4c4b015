//! From a message of Telegram to one of ours.

use nanobot_channel::{
    Arrival, ChannelContext, ChatId, ChatKind, DeliveryContext, InboundMessage, Map, MediaRef,
    MessageId, SenderId, SessionKey,
};
use nanobot_channel_kit::others_words;
use teloxide::types::{
    ChatKind as TelegramChatKind, Message, MessageKind, MessageOrigin, PublicChatKind, User,
};

use crate::address::{BotIdentity, Command, utf16_head};
use crate::attachment::Attachment;
use crate::author::Author;
use crate::channel::TelegramChannel;

/// How much of a message that is replied to is repeated, in UTF-16 units.
const QUOTE_LIMIT: usize = 4000;

/// A message that is for the assistant, if [`nanobot_channel::Access`] says so; nothing was fetched
/// for it yet.
#[derive(Debug)]
pub(crate) struct Candidate<'a> {
    /// One message, or those of an album.
    messages: &'a [Message],
    first: &'a Message,
    author: Author,
    /// What was written, commands without the bot's name.
    text: Vec<String>,
    is_command: bool,
    pub(crate) arrival: Arrival,
    pub(crate) sender: SenderId,
    pub(crate) chat: ChatId,
}

impl TelegramChannel {
    /// Reads from the message itself who wrote it, where, and whether it means the assistant. `None`
    /// when a bot or nobody wrote it, or it is a command for another bot.
    pub(crate) fn candidate<'a>(
        &self,
        bot: &BotIdentity,
        messages: &'a [Message],
    ) -> Option<Candidate<'a>> {
        let first = messages.first()?;
        let author = Author::of(first).filter(|_| matches!(first.kind, MessageKind::Common(_)))?;
        let mut is_command = false;
        let mut text = Vec::new();
        for message in messages {
            let written = message.text().or(message.caption());
            if let Some((kind, name)) = not_own_words(message) {
                text.push(others_words(kind, &name, written.unwrap_or_default()));
                continue;
            }
            let Some(written) = written else { continue };
            text.push(match bot.command(written) {
                Command::Foreign => return None,
                Command::No(text) => text,
                Command::Known(text) => {
                    is_command = true;
                    text
                }
            });
        }
        let is_addressed = is_command || messages.iter().any(|message| bot.is_meant_by(message));
        let arrival = self
            .moves
            .arrival(first.chat.id.0, kind_of(first), is_addressed);
        Some(Candidate {
            messages,
            first,
            text,
            is_command,
            arrival,
            sender: author.sender_id(),
            author,
            chat: ChatId::from(first.chat.id.0.to_string()),
        })
    }

    /// Makes the message, fetching its files. Only for senders who may talk.
    pub(crate) async fn compose(
        &self,
        bot: &BotIdentity,
        candidate: &Candidate<'_>,
        context: &ChannelContext,
    ) -> InboundMessage {
        let first = candidate.first;
        let mut media = Vec::new();
        let mut content = Vec::new();
        let mut markers = Vec::new();
        // In front of a command it would make a text of it.
        if !candidate.is_command {
            content.extend(self.reply_context(bot, first, &mut media, context).await);
        }
        for message in candidate.messages {
            if let Some(attachment) = Attachment::of(message) {
                let kept = attachment.keep(&self.api, context).await;
                markers.push(kept.marker);
                media.extend(kept.image);
            }
            markers.extend(other_content(message));
        }
        content.extend(
            candidate
                .text
                .iter()
                .filter(|text| !text.trim().is_empty())
                .cloned(),
        );
        content.append(&mut markers);
        if content.is_empty() {
            content.push("[empty message]".to_owned());
        }
        let id = MessageId::from(first.id.0.to_string());
        let mut inbound = self.message_at(first, &candidate.author, id, content.join("\n"));
        inbound.media = media;
        inbound
    }

    /// A text that somebody says in the place of `message`.
    pub(crate) fn message_at(
        &self,
        message: &Message,
        author: &Author,
        id: MessageId,
        content: String,
    ) -> InboundMessage {
        let chat = ChatId::from(message.chat.id.0.to_string());
        let thread = topic_of(message);
        let session = match &thread {
            Some(thread) => Some(format!("{}:{chat}:topic:{thread}", self.name)),
            None => self
                .moves
                .former(message.chat.id.0)
                .map(|old| format!("{}:{old}", self.name)),
        };
        let mut inbound =
            InboundMessage::text(self.name.clone(), author.sender_id(), chat, content);
        inbound.id = Some(id);
        inbound.metadata = metadata(message, author);
        inbound.session_key_override = session.map(SessionKey::from);
        let reply_to = Some(MessageId::from(message.id.0.to_string()));
        inbound.delivery = DeliveryContext {
            thread,
            reply_to,
            extra: Map::new(),
        };
        inbound
    }

    /// What the message answers, in words; its image goes before the message's own.
    async fn reply_context(
        &self,
        bot: &BotIdentity,
        message: &Message,
        media: &mut Vec<MediaRef>,
        context: &ChannelContext,
    ) -> Option<String> {
        let Some(original) = quoted(message) else {
            let quote = utf16_head(&message.quote()?.text, QUOTE_LIMIT);
            return Some(others_words(
                "Reply to a message of another chat",
                "",
                quote,
            ));
        };
        let chosen = message.quote().map(|quote| quote.text.as_str());
        let text = chosen
            .or(original.text())
            .or(original.caption())
            .filter(|text| !text.trim().is_empty());
        let mut marker = None;
        if let Some(attachment) = Attachment::of(original) {
            let kept = attachment.keep(&self.api, context).await;
            marker = Some(kept.marker);
            media.extend(kept.image);
        }
        let what = match text {
            Some(text) => {
                let head = utf16_head(text, QUOTE_LIMIT);
                if head.len() < text.len() {
                    format!("{head}...")
                } else {
                    head.to_owned()
                }
            }
            None => marker?,
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
        if text.is_none() {
            // The marker of a file is our own.
            let head = others_words("Reply to", &whom, "");
            return Some(format!("{}: {what}]", head.trim_end_matches(']')));
        }
        Some(others_words("Reply to", &whom, &what))
    }
}

/// Returns how a message came to have words that its sender did not write, and whose they are.
fn not_own_words(message: &Message) -> Option<(&'static str, String)> {
    if let Some(bot) = &message.via_bot {
        return Some((
            "sent through the bot",
            bot.username.clone().unwrap_or_default(),
        ));
    }
    // What a channel posts stays its own word in its discussion group.
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

/// Who else hears a message.
pub(crate) fn kind_of(message: &Message) -> ChatKind {
    if message.chat.is_private() {
        ChatKind::Direct
    } else {
        ChatKind::Group
    }
}

/// The topic a message is in. In groups without topics a thread is only a chain of replies.
fn topic_of(message: &Message) -> Option<String> {
    let is_topic = message.is_topic_message || message.chat.is_private();
    message
        .thread_id
        .filter(|_| is_topic)
        .map(|thread| thread.0.0.to_string())
}

/// The message that this one answers. The one that began a topic is none.
fn quoted(message: &Message) -> Option<&Message> {
    message
        .reply_to_message()
        .filter(|original| matches!(original.kind, MessageKind::Common(_)))
}

/// What is neither text nor file.
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
    set("is_group", (kind_of(message) == ChatKind::Group).into());
    set(
        "message_thread_id",
        message.thread_id.map(|thread| thread.0.0).into(),
    );
    set("is_forum", is_forum.into());
    set(
        "reply_to_message_id",
        quoted(message).map(|original| original.id.0).into(),
    );
    metadata
}
