//! From a message of Discord to a candidate message.

use nanobot_channel::{
    Arrival, ChannelContext, ChatId, CommandInfo, DeliveryContext, Map, MessageId, SenderId,
    SessionKey,
};
use nanobot_channel_kit::attribute_text;
use nanobot_channel_kit::intake::Piece;
use serenity::model::channel::{Message, MessageType};
use serenity::model::id::{ChannelId, GuildId, MessageId as DiscordMessage, UserId};
use serenity::model::user::User;

use crate::attachment;
use crate::channel::Discord;
use crate::cursor::BotUser;

/// Most of a message that is replied to that is repeated, in characters.
const QUOTE_LIMIT: usize = 4000;

/// A message that may be for the assistant.
pub(crate) type CandidateMessage = nanobot_channel_kit::intake::CandidateMessage<DiscordOrigin>;

/// Facts that are needed after the check of access.
#[derive(Clone, Copy, Debug)]
pub struct DiscordOrigin {
    /// The message; `None` for a command or a button.
    pub(crate) message: Option<DiscordMessage>,
    /// Its id, which is larger for later messages.
    pub(crate) number: u64,
    pub(crate) channel: ChannelId,
    pub(crate) guild: Option<GuildId>,
}

/// The author and the channel of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Authorship<'a> {
    pub(crate) user: &'a User,
    pub(crate) guild: Option<GuildId>,
    pub(crate) channel: ChannelId,
    /// The channel that a thread is part of.
    pub(crate) parent: Option<ChannelId>,
}

impl Authorship<'_> {
    fn arrival(&self, addressed: bool) -> Arrival {
        match self.guild {
            None => Arrival::direct(),
            Some(guild) => {
                let parents = self
                    .parent
                    .map(|parent| parent.to_string())
                    .into_iter()
                    .chain([guild.to_string()]);
                Arrival {
                    parents: parents.map(ChatId::from).collect(),
                    ..Arrival::group(addressed)
                }
            }
        }
    }

    fn metadata(&self, number: u64, quoted: Option<String>) -> Map {
        let mut metadata = Map::new();
        let mut set =
            |key: &str, value: nanobot_channel::Value| metadata.insert(key.to_owned(), value);
        set("message_id", number.to_string().into());
        set("guild_id", self.guild.map(|guild| guild.to_string()).into());
        set("reply_to", quoted.into());
        set("username", self.user.name.as_str().into());
        set("is_group", self.guild.is_some().into());
        if let Some(parent) = self.parent {
            set("parent_channel_id", parent.to_string().into());
            set("context_chat_id", self.channel.to_string().into());
            set("thread_id", self.channel.to_string().into());
        }
        metadata
    }
}

impl Discord {
    /// Reads a message. `None` if it was not written by a person for the assistant.
    pub(crate) async fn message_candidate(
        &self,
        message: &Message,
        context: &ChannelContext,
    ) -> Option<CandidateMessage> {
        let bot = self.with_cursor(|cursor| cursor.bot().cloned())?;
        let is_user_message = matches!(
            message.kind,
            MessageType::Regular | MessageType::InlineReply
        );
        let is_automatic = message.author.bot && !self.config.allow_bots;
        if !is_user_message
            || is_automatic
            || message.author.id == bot.id
            || message.webhook_id.is_some()
        {
            return None;
        }
        let parent = match message.guild_id {
            Some(_) => self.threads.parent_of(message.channel_id, &self.api).await,
            None => None,
        };
        let origin = Authorship {
            user: &message.author,
            guild: message.guild_id,
            channel: message.channel_id,
            parent,
        };
        if !self.listens_to(&origin) {
            return None;
        }
        let (text, is_named) = strip_leading_mention(&message.content, bot.id);
        let addressed = is_named || is_addressed(message, &bot);
        let mut candidate = self.empty_candidate(&origin, message.id.get(), addressed);
        candidate.metadata = origin.metadata(message.id.get(), quoted_id(message));
        // In front of a command it would make a text of it.
        let reply = Some(message).filter(|_| !is_command(&text, &context.commands));
        let reply = reply.and_then(|message| Self::reply_context(message, &bot));
        candidate.pieces.extend(reply.map(Piece::Text));
        candidate.pieces.push(Piece::Text(text));
        candidate.pieces.extend(other_content(message));
        candidate.delivery.reply_to = Some(candidate.id.clone());
        candidate.origin.message = Some(message.id);
        Some(candidate)
    }

    /// A candidate without content.
    pub(crate) fn empty_candidate(
        &self,
        origin: &Authorship<'_>,
        number: u64,
        addressed: bool,
    ) -> CandidateMessage {
        let Authorship {
            user,
            guild,
            channel,
            parent,
        } = *origin;
        let session = |parent| format!("{}:{parent}:thread:{channel}", self.base.name);
        CandidateMessage {
            sender: SenderId::from(user.id.to_string()),
            chat: ChatId::from(channel.to_string()),
            arrival: origin.arrival(addressed),
            id: MessageId::from(number.to_string()),
            pieces: Vec::new(),
            metadata: origin.metadata(number, None),
            session: parent.map(session).map(SessionKey::from),
            delivery: DeliveryContext {
                thread: parent.map(|_| channel.to_string()),
                ..DeliveryContext::default()
            },
            origin: DiscordOrigin {
                message: None,
                number,
                channel,
                guild,
            },
        }
    }

    /// `true` if a channel, or the one that it is part of, is among those that are listened to.
    pub(crate) fn listens_to(&self, origin: &Authorship<'_>) -> bool {
        let allowed = &self.config.allow_channels;
        let channels = [Some(origin.channel), origin.parent];
        let listens = origin.guild.is_none()
            || allowed.is_empty()
            || channels
                .iter()
                .flatten()
                .any(|channel| allowed.contains(channel.get()));
        if !listens {
            tracing::debug!(channel = %self.base.name, chat = %origin.channel, "a message of a channel that is not listened to");
        }
        listens
    }

    /// Returns the message that this one answers, in words.
    fn reply_context(message: &Message, bot: &BotUser) -> Option<String> {
        let original = message.referenced_message.as_deref()?;
        let whom = if bot.id == original.author.id {
            "bot".to_owned()
        } else {
            format!("@{}", original.author.name)
        };
        let mut text: String = original.content.chars().take(QUOTE_LIMIT).collect();
        if text.len() < original.content.len() {
            text.push_str("...");
        }
        if text.trim().is_empty() {
            let first = original.attachments.first()?;
            text = format!("[attachment: {}]", first.filename);
        }
        Some(attribute_text("Reply to", &whom, &text))
    }
}

/// Returns the files of a message, and its other content than text.
fn other_content(message: &Message) -> Vec<Piece> {
    let forwarded = message.message_snapshots.iter();
    let files = forwarded.clone().flat_map(|snapshot| &snapshot.attachments);
    let files = message.attachments.iter().chain(files);
    let files = files.map(|file| Piece::File(attachment::parse(file, message)));
    let forwarded = forwarded.map(|snapshot| attribute_text("forwarded", "", &snapshot.content));
    let stickers = message.sticker_items.iter();
    let stickers = stickers.map(|sticker| format!("[sticker: {}]", sticker.name));
    let poll = message.poll.iter();
    let poll = poll.map(|poll| format!("[poll: {}]", poll.question.text.as_deref().unwrap_or("?")));
    forwarded
        .map(Piece::Text)
        .chain(files)
        .chain(stickers.chain(poll).map(Piece::Text))
        .collect()
}

fn quoted_id(message: &Message) -> Option<String> {
    let id = message
        .message_reference
        .as_ref()
        .and_then(|reference| reference.message_id);
    id.filter(|_| message.kind == MessageType::InlineReply)
        .map(|id| id.to_string())
}

/// `true` if a text begins with a command that the assistant knows.
fn is_command(text: &str, commands: &[CommandInfo]) -> bool {
    let name = text
        .split_whitespace()
        .next()
        .and_then(|word| word.strip_prefix('/'));
    name.is_some_and(|name| commands.iter().any(|known| known.is_named(name)))
}

/// `true` if a message mentions the bot or replies to it.
fn is_addressed(message: &Message, bot: &BotUser) -> bool {
    let answers = message
        .referenced_message
        .as_ref()
        .is_some_and(|original| original.author.id == bot.id);
    answers || message.mentions.iter().any(|user| user.id == bot.id)
}

/// Strips a mention of the bot in front of a command, so that `@bot /stop` is the command; other
/// mentions stay. Also returns `true` if the text mentions the bot.
fn strip_leading_mention(text: &str, bot: UserId) -> (String, bool) {
    let names = [format!("<@{bot}>"), format!("<@!{bot}>")];
    let command = names
        .iter()
        .find_map(|name| text.trim_start().strip_prefix(name.as_str()));
    let command = command
        .map(str::trim_start)
        .filter(|rest| rest.starts_with('/'));
    let is_named = names.iter().any(|name| text.contains(name.as_str()));
    (command.unwrap_or(text).to_owned(), is_named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_mention_is_stripped_from_commands() {
        let table = [
            ("<@5> /stop", "/stop", true),
            (" <@!5>/new now", "/new now", true),
            ("<@5> hello", "<@5> hello", true),
            ("hello <@5>", "hello <@5>", true),
            ("<@55> /stop", "<@55> /stop", false),
            ("/stop", "/stop", false),
        ];
        for (text, rest, is_named) in table {
            assert_eq!(
                strip_leading_mention(text, UserId::new(5)),
                (rest.to_owned(), is_named),
                "{text}"
            );
        }
    }
}
