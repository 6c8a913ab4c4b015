//! From a message of Discord to one of ours.

use nanobot_channel::{
    Arrival, ChannelContext, ChatId, ChatKind, CommandInfo, DeliveryContext, InboundMessage, Map,
    MediaRef, MessageId, SenderId, SessionKey,
};
use nanobot_channel_kit::others_words;
use serenity::model::channel::{Message, MessageType};
use serenity::model::id::{ChannelId, GuildId, UserId};
use serenity::model::user::User;

use crate::attachment;
use crate::channel::DiscordChannel;
use crate::cursor::Bot;

/// How much of a message that is replied to is repeated, in characters.
const QUOTE_LIMIT: usize = 4000;

/// Where something was said, and by whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    pub(crate) user: &'a User,
    pub(crate) guild: Option<GuildId>,
    pub(crate) channel: ChannelId,
    /// The channel that a thread is part of.
    pub(crate) parent: Option<ChannelId>,
}

impl Origin<'_> {
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
}

/// A message that is for the assistant, if its sender may talk; nothing was fetched for it yet.
#[derive(Debug)]
pub(crate) struct Candidate<'a> {
    /// The message; `None` for a command or a button.
    pub(crate) message: Option<&'a Message>,
    origin: Origin<'a>,
    /// Its id: later ones are larger.
    pub(crate) number: u64,
    id: MessageId,
    text: String,
    pub(crate) arrival: Arrival,
    pub(crate) sender: SenderId,
    pub(crate) chat: ChatId,
}

impl<'a> Candidate<'a> {
    pub(crate) fn new(origin: Origin<'a>, number: u64, text: String, addressed: bool) -> Self {
        Self {
            message: None,
            origin,
            number,
            id: MessageId::from(number.to_string()),
            text,
            arrival: origin.arrival(addressed),
            sender: SenderId::from(origin.user.id.to_string()),
            chat: ChatId::from(origin.channel.to_string()),
        }
    }

    pub(crate) fn channel(&self) -> ChannelId {
        self.origin.channel
    }

    pub(crate) fn guild(&self) -> Option<GuildId> {
        self.origin.guild
    }

    fn metadata(&self) -> Map {
        let Origin {
            user,
            guild,
            channel,
            parent,
        } = self.origin;
        let quoted = self.message.and_then(quoted_id);
        let mut metadata = Map::new();
        let mut set =
            |key: &str, value: nanobot_channel::Value| metadata.insert(key.to_owned(), value);
        set("message_id", self.id.as_str().into());
        set("guild_id", guild.map(|guild| guild.to_string()).into());
        set("reply_to", quoted.into());
        set("username", user.name.as_str().into());
        set("is_group", (self.arrival.kind == ChatKind::Group).into());
        if let Some(parent) = parent {
            set("parent_channel_id", parent.to_string().into());
            set("context_chat_id", channel.to_string().into());
            set("thread_id", channel.to_string().into());
        }
        metadata
    }
}

impl DiscordChannel {
    /// Judges by what the message itself says: who wrote it, where, and to whom. `None` when it is
    /// nothing that a person said to be heard here.
    pub(crate) async fn candidate<'a>(&self, message: &'a Message) -> Option<Candidate<'a>> {
        let bot = self.with_cursor(|cursor| cursor.bot().cloned())?;
        let is_said = matches!(
            message.kind,
            MessageType::Regular | MessageType::InlineReply
        );
        let is_automatic = message.author.bot && !self.config.allow_bots;
        if !is_said || is_automatic || message.author.id == bot.id || message.webhook_id.is_some() {
            return None;
        }
        let parent = match message.guild_id {
            Some(_) => self.threads.parent_of(message.channel_id, &self.api).await,
            None => None,
        };
        let origin = Origin {
            user: &message.author,
            guild: message.guild_id,
            channel: message.channel_id,
            parent,
        };
        if !self.listens_to(&origin) {
            return None;
        }
        let (text, is_named) = without_salutation(&message.content, bot.id);
        let addressed = is_named || is_meant(message, &bot);
        Some(Candidate {
            message: Some(message),
            ..Candidate::new(origin, message.id.get(), text, addressed)
        })
    }

    /// Whether a channel, or the one that it is part of, is among those that are listened to.
    pub(crate) fn listens_to(&self, origin: &Origin<'_>) -> bool {
        let allowed = &self.config.allow_channels;
        let channels = [Some(origin.channel), origin.parent];
        let listens = origin.guild.is_none()
            || allowed.is_empty()
            || channels
                .iter()
                .flatten()
                .any(|channel| allowed.contains(channel.get()));
        if !listens {
            tracing::debug!(channel = %self.name, chat = %origin.channel, "a message of a channel that is not listened to");
        }
        listens
    }

    /// Makes the message, fetching its files. Only for senders who may talk.
    pub(crate) async fn compose(
        &self,
        candidate: &Candidate<'_>,
        context: &ChannelContext,
    ) -> InboundMessage {
        let mut media = Vec::new();
        let mut content = Vec::new();
        if let Some(message) = candidate.message {
            // In front of a command it would make a text of it.
            if !is_command(&candidate.text, &context.commands) {
                content.extend(self.reply_context(message));
            }
            content.extend(
                Some(&candidate.text)
                    .filter(|text| !text.trim().is_empty())
                    .cloned(),
            );
            self.add_what_is_beside_the_text(message, context, &mut content, &mut media)
                .await;
        } else {
            content.push(candidate.text.clone());
        }
        if content.is_empty() {
            content.push("[empty message]".to_owned());
        }
        let Origin {
            channel, parent, ..
        } = candidate.origin;
        let session = parent
            .map(|parent| SessionKey::from(format!("{}:{parent}:thread:{channel}", self.name)));
        let (sender, chat) = (candidate.sender.clone(), candidate.chat.clone());
        let mut inbound = InboundMessage::text(self.name.clone(), sender, chat, content.join("\n"));
        inbound.id = Some(candidate.id.clone());
        inbound.media = media;
        inbound.metadata = candidate.metadata();
        inbound.session_key_override = session;
        inbound.delivery = DeliveryContext {
            thread: parent.map(|_| channel.to_string()),
            reply_to: candidate.message.map(|_| candidate.id.clone()),
            extra: Map::new(),
        };
        inbound
    }

    async fn add_what_is_beside_the_text(
        &self,
        message: &Message,
        context: &ChannelContext,
        content: &mut Vec<String>,
        media: &mut Vec<MediaRef>,
    ) {
        let forwarded = message.message_snapshots.iter();
        content.extend(
            forwarded
                .clone()
                .map(|snapshot| others_words("forwarded", "", &snapshot.content)),
        );
        let attachments = message
            .attachments
            .iter()
            .chain(forwarded.flat_map(|snapshot| &snapshot.attachments));
        for attachment in attachments {
            let kept = attachment::keep(attachment, message, &self.api, context).await;
            content.push(kept.marker);
            media.extend(kept.image);
        }
        content.extend(
            message
                .sticker_items
                .iter()
                .map(|sticker| format!("[sticker: {}]", sticker.name)),
        );
        if let Some(poll) = &message.poll {
            content.push(format!(
                "[poll: {}]",
                poll.question.text.as_deref().unwrap_or("?")
            ));
        }
    }

    /// What the message answers, in words.
    fn reply_context(&self, message: &Message) -> Option<String> {
        let original = message.referenced_message.as_deref()?;
        let is_ours =
            self.with_cursor(|cursor| cursor.bot().is_some_and(|bot| bot.id == original.author.id));
        let whom = if is_ours {
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
        Some(others_words("Reply to", &whom, &text))
    }
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

/// Whether a message mentions the bot or answers it.
fn is_meant(message: &Message, bot: &Bot) -> bool {
    let answers = message
        .referenced_message
        .as_ref()
        .is_some_and(|original| original.author.id == bot.id);
    answers || message.mentions.iter().any(|user| user.id == bot.id)
}

/// A text and whether it names the bot. A name in front of a command is taken away, so that
/// `@bot /stop` is the command; all other names stay.
fn without_salutation(text: &str, bot: UserId) -> (String, bool) {
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
    fn a_name_in_front_of_a_command_is_taken_away() {
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
                without_salutation(text, UserId::new(5)),
                (rest.to_owned(), is_named),
                "{text}"
            );
        }
    }
}
