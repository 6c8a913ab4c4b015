//! Commands from Discord's menu, and buttons.
//!
//! Discord expects a response within three seconds, so it is sent at once, independently of the
//! queue of events; the request itself passes through the queue as a message.

use std::sync::Arc;

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
use crate::candidate::{Authorship, CandidateMessage};
use crate::channel::Discord;
use crate::outbound::to_json;
use crate::route::Route;
use crate::threads::parent_of_kind;

/// Limit of a description, in characters.
const MAX_DESCRIPTION_LENGTH: usize = 100;
/// Name of the option for a command's arguments.
const ARGUMENTS_OPTION: &str = "arguments";

/// Common fields of commands and buttons.
struct InteractionRequest<'a> {
    id: InteractionId,
    token: &'a str,
    user: &'a User,
    guild: Option<GuildId>,
    channel: ChannelId,
    place: Option<&'a PartialChannel>,
    /// Its text as a message.
    text: String,
    /// The response if the person has access.
    answer: CreateInteractionResponse,
}

impl<'a> InteractionRequest<'a> {
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
                answer: ephemeral(&format!("`/{}`: on it.", command.data.name)),
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

/// Returns the channel of an interaction.
pub(crate) fn channel_of(interaction: &Interaction) -> Option<ChannelId> {
    InteractionRequest::of(interaction).map(|request| request.channel)
}

impl Discord {
    /// Sets the menu of commands, in the background.
    pub(crate) fn register_commands(&self, application: ApplicationId, context: &ChannelContext) {
        if !self.config.slash_commands || context.commands.is_empty() {
            return;
        }
        let commands: Vec<CreateCommand> = context.commands.iter().map(menu_entry).collect();
        let (api, name) = (self.api.clone(), self.base.name.clone());
        self.base.background.spawn(async move {
            let body = Body::Json(json!(commands));
            if let Err(error) = api
                .call::<IgnoredAny>(&Route::set_commands(application), body)
                .await
            {
                tracing::warn!(channel = %name, %error, "the commands of the bot could not be set");
            }
        });
    }

    /// Reads a command or a press of a button; `None` if it is not for the assistant.
    pub(crate) async fn interaction_candidate(
        &self,
        interaction: &Interaction,
    ) -> Option<CandidateMessage> {
        let request = InteractionRequest::of(interaction)?;
        let parent = match (request.guild, request.place) {
            (None, _) => None,
            (Some(_), Some(place)) => parent_of_kind(place.kind, place.parent_id),
            (Some(_), None) => self.threads.parent_of(request.channel, &self.api).await,
        };
        let origin = Authorship {
            user: request.user,
            guild: request.guild,
            channel: request.channel,
            parent,
        };
        if !self.listens_to(&origin) {
            return None;
        }
        let mut candidate = self.empty_candidate(&origin, request.id.get(), true);
        candidate.pieces.push(Piece::Text(request.text));
        Some(candidate)
    }

    /// Responds to an interaction of a person with access, in the background.
    pub(crate) fn acknowledge(
        self: &Arc<Self>,
        interaction: &Interaction,
        context: &ChannelContext,
    ) {
        let (channel, access) = (Arc::clone(self), Arc::clone(&context.access));
        let interaction = interaction.clone();
        self.base.background.spawn(async move {
            let (Some(candidate), Some(request)) = (channel.interaction_candidate(&interaction).await, InteractionRequest::of(&interaction)) else {
                return;
            };
            let answer = match access.check(&candidate.sender, &candidate.chat, &candidate.arrival).await {
                AccessDecision::Allowed => request.answer,
                AccessDecision::Ask(text) if candidate.arrival.kind == ChatKind::Direct => ephemeral(&text),
                AccessDecision::Ask(_) | AccessDecision::Denied => return,
            };
            let route = Route::interaction_callback(request.id, request.token);
            if let Err(error) = channel.api.call::<IgnoredAny>(&route, Body::Json(to_json(&answer))).await {
                tracing::debug!(channel = %channel.base.name, %error, "a command could not be acknowledged");
            }
        });
    }
}

/// Returns a message that only the person sees.
fn ephemeral(text: &str) -> CreateInteractionResponse {
    CreateInteractionResponse::Message(
        CreateInteractionResponseMessage::new()
            .content(text)
            .ephemeral(true),
    )
}

fn menu_entry(command: &CommandInfo) -> CreateCommand {
    let short = |text: &str| {
        text.chars()
            .take(MAX_DESCRIPTION_LENGTH)
            .collect::<String>()
    };
    let entry = CreateCommand::new(command.name).description(short(command.about));
    if command.usage.is_empty() {
        return entry;
    }
    let usage = short(command.usage);
    entry.add_option(
        CreateCommandOption::new(CommandOptionType::String, ARGUMENTS_OPTION, usage)
            .required(false),
    )
}

/// Returns a command as a person would type it.
fn command_line(data: &CommandData) -> String {
    let arguments = data.options.iter().find_map(|option| match &option.value {
        CommandDataOptionValue::String(text) if option.name == ARGUMENTS_OPTION => {
            Some(text.trim())
        }
        _ => None,
    });
    match arguments {
        Some(arguments) if !arguments.is_empty() => format!("/{} {arguments}", data.name),
        _ => format!("/{}", data.name),
    }
}

/// Returns the label of the pressed button.
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
