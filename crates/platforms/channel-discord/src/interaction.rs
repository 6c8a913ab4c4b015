//! Commands from Discord's menu, and buttons.
//!
//! Discord waits three seconds for an answer to either, so that is given at once, beside the queue
//! of events; what the person asked for goes through the queue as a message.

use nanobot_channel::{AccessDecision, ChannelContext, ChatKind, CommandInfo};
use nanobot_channel_kit::intake::Piece;
use serde::de::IgnoredAny;
use serde_json::json;
use serenity::builder::{
    CreateCommand, CreateCommandOption, CreateInteractionResponse, CreateInteractionResponseMessage,
};
use serenity::model::application::{
    ActionRowComponent, ButtonKind, CommandData, CommandDataOptionValue, CommandOptionType,
    ComponentInteraction, Interaction,
};
use serenity::model::channel::PartialChannel;
use serenity::model::id::{ApplicationId, ChannelId, GuildId, InteractionId};
use serenity::model::user::User;

use crate::api::Body;
use crate::candidate::{Candidate, Origin};
use crate::channel::DiscordChannel;
use crate::outbound::json_of;
use crate::route::Route;
use crate::threads::parent_of_kind;

/// How long a description may be, in characters.
const DESCRIPTION: usize = 100;
/// What stands behind a command.
const ARGUMENTS: &str = "arguments";

/// What commands and buttons have in common.
struct Asked<'a> {
    id: InteractionId,
    token: &'a str,
    user: &'a User,
    guild: Option<GuildId>,
    channel: ChannelId,
    place: Option<&'a PartialChannel>,
    /// What the person said with it.
    text: String,
    /// What is to be answered when it is heard.
    answer: CreateInteractionResponse,
}

impl<'a> Asked<'a> {
    fn of(interaction: &'a Interaction) -> Option<Self> {
        match interaction {
            Interaction::Command(command) => Some(Self {
                id: command.id,
                token: &command.token,
                user: &command.user,
                guild: command.guild_id,
                channel: command.channel_id,
                place: command.channel.as_ref(),
                text: command_line(&command.data),
                answer: only_you(&format!("`/{}`: on it.", command.data.name)),
            }),
            Interaction::Component(button) => Some(Self {
                id: button.id,
                token: &button.token,
                user: &button.user,
                guild: button.guild_id,
                channel: button.channel_id,
                place: button.channel.as_ref(),
                text: label_of(button)?,
                // A choice is made once.
                answer: CreateInteractionResponse::UpdateMessage(
                    CreateInteractionResponseMessage::new().components(Vec::new()),
                ),
            }),
            _ => None,
        }
    }
}

/// Where a command was given or a button pressed.
pub(crate) fn channel_of(interaction: &Interaction) -> Option<ChannelId> {
    Asked::of(interaction).map(|asked| asked.channel)
}

impl DiscordChannel {
    /// Tells Discord which commands there are, without waiting for it.
    pub(crate) fn offer_commands(&self, application: ApplicationId, context: &ChannelContext) {
        if !self.config.slash_commands || context.commands.is_empty() {
            return;
        }
        let commands: Vec<CreateCommand> = context.commands.iter().map(menu_entry).collect();
        let (api, name) = (self.api.clone(), self.name.clone());
        self.in_background(async move {
            let body = Body::Json(json!(commands));
            if let Err(error) = api
                .call::<IgnoredAny>(&Route::set_commands(application), body)
                .await
            {
                tracing::warn!(channel = %name, %error, "the commands of the bot could not be set");
            }
        });
    }

    /// What a command or a button asks for; `None` when it is nothing to be heard here.
    pub(crate) async fn command(&self, interaction: &Interaction) -> Option<Candidate> {
        let asked = Asked::of(interaction)?;
        let parent = match (asked.guild, asked.place) {
            (None, _) => None,
            (Some(_), Some(place)) => parent_of_kind(place.kind, place.parent_id),
            (Some(_), None) => self.threads.parent_of(asked.channel, &self.api).await,
        };
        let origin = Origin {
            user: asked.user,
            guild: asked.guild,
            channel: asked.channel,
            parent,
        };
        if !self.listens_to(&origin) {
            return None;
        }
        let mut candidate = self.candidate_at(&origin, asked.id.get(), true);
        candidate.pieces.push(Piece::Text(asked.text));
        Some(candidate)
    }

    /// Answers Discord for a person who may talk, without waiting for it.
    pub(crate) fn acknowledge(&self, interaction: &Interaction, context: &ChannelContext) {
        let (channel, access) = (self.clone(), context.access.clone());
        let interaction = interaction.clone();
        self.in_background(async move {
            let (Some(candidate), Some(asked)) = (channel.command(&interaction).await, Asked::of(&interaction)) else {
                return;
            };
            let answer = match access.check(&candidate.sender, &candidate.chat, &candidate.arrival).await {
                AccessDecision::Allowed => asked.answer,
                AccessDecision::Ask(text) if candidate.arrival.kind == ChatKind::Direct => only_you(&text),
                AccessDecision::Ask(_) | AccessDecision::Denied => return,
            };
            let route = Route::interaction_callback(asked.id, asked.token);
            if let Err(error) = channel.api.call::<IgnoredAny>(&route, Body::Json(json_of(&answer))).await {
                tracing::debug!(channel = %channel.name, %error, "a command could not be acknowledged");
            }
        });
    }
}

/// A message that nobody else sees.
fn only_you(text: &str) -> CreateInteractionResponse {
    CreateInteractionResponse::Message(
        CreateInteractionResponseMessage::new()
            .content(text)
            .ephemeral(true),
    )
}

fn menu_entry(command: &CommandInfo) -> CreateCommand {
    let short = |text: &str| text.chars().take(DESCRIPTION).collect::<String>();
    let entry = CreateCommand::new(command.name).description(short(command.about));
    if command.usage.is_empty() {
        return entry;
    }
    let usage = short(command.usage);
    entry.add_option(
        CreateCommandOption::new(CommandOptionType::String, ARGUMENTS, usage).required(false),
    )
}

/// A command as one would write it.
fn command_line(data: &CommandData) -> String {
    let arguments = data.options.iter().find_map(|option| match &option.value {
        CommandDataOptionValue::String(text) if option.name == ARGUMENTS => Some(text.trim()),
        _ => None,
    });
    match arguments {
        Some(arguments) if !arguments.is_empty() => format!("/{} {arguments}", data.name),
        _ => format!("/{}", data.name),
    }
}

/// What is written on the button that was pressed.
fn label_of(pressed: &ComponentInteraction) -> Option<String> {
    let buttons = pressed
        .message
        .components
        .iter()
        .flat_map(|row| &row.components);
    buttons.into_iter().find_map(|component| match component {
        ActionRowComponent::Button(button) => match &button.data {
            ButtonKind::NonLink { custom_id, .. } if *custom_id == pressed.data.custom_id => {
                button.label.clone()
            }
            _ => None,
        },
        _ => None,
    })
}
