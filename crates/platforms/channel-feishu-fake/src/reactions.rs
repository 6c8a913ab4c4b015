//! Reactions to messages.

use serde_json::{Value, json};

use crate::account::APP_ID;
use crate::api::{ApiError, ApiResult};
use crate::emoji;
use crate::model::{Reaction, Sender, StoredMessage};
use crate::params::Params;
use crate::state::FeishuState;

impl FeishuState {
    /// Returns the message of a call. Its chat must be one of the bot, or `foreign` is the code.
    fn reactable(&self, id: &str, foreign: u64) -> Result<&StoredMessage, ApiError> {
        let message = self.messages.get(id).filter(|message| !message.is_deleted);
        let message = message.ok_or_else(|| ApiError::new(231003))?;
        match self.chats.get(&message.chat) {
            Some(chat) if chat.has_bot => Ok(message),
            _ => Err(ApiError::new(foreign)),
        }
    }

    pub(crate) fn add_reaction(&mut self, params: &Params) -> ApiResult {
        let emoji = params.object("reaction_type").get("emoji_type");
        let emoji = emoji.and_then(Value::as_str).unwrap_or_default().to_owned();
        let id = self.reactable(params.id(0), 231002)?.id.clone();
        if !emoji::is_known(&emoji) {
            return Err(ApiError::new(231001));
        }
        let reaction = Reaction {
            id: self.next_id("reaction-"),
            emoji,
            operator: Sender::Bot,
            at: self.now(),
        };
        let Some(message) = self.messages.get_mut(&id) else {
            return Err(ApiError::new(231003));
        };
        // The same emoji of the same operator is one reaction.
        let is_same = |known: &&Reaction| {
            known.operator == reaction.operator && known.emoji == reaction.emoji
        };
        if let Some(known) = message.reactions.iter().find(is_same) {
            return Ok(known.json());
        }
        let json = reaction.json();
        message.reactions.push(reaction);
        Ok(json)
    }

    pub(crate) fn list_reactions(&mut self, params: &Params) -> ApiResult {
        let message = self.reactable(params.id(0), 231008)?;
        let wanted = params.asked("reaction_type");
        let items: Vec<Value> = message
            .reactions
            .iter()
            .filter(|reaction| wanted.is_empty() || reaction.emoji == wanted)
            .map(Reaction::json)
            .collect();
        Ok(json!({"items": items, "has_more": false, "page_token": ""}))
    }

    pub(crate) fn delete_reaction(&mut self, params: &Params) -> ApiResult {
        let (id, reaction) = (
            self.reactable(params.id(0), 231002)?.id.clone(),
            params.id(1),
        );
        let all = self
            .messages
            .values()
            .flat_map(|message| &message.reactions);
        if !all.clone().any(|known| known.id == reaction) {
            return Err(ApiError::new(231011));
        }
        let Some(message) = self.messages.get_mut(&id) else {
            return Err(ApiError::new(231003));
        };
        let Some(place) = message
            .reactions
            .iter()
            .position(|known| known.id == reaction)
        else {
            return Err(ApiError::new(231010));
        };
        if message
            .reactions
            .get(place)
            .is_some_and(|known| known.operator != Sender::Bot)
        {
            return Err(ApiError::new(231007));
        }
        Ok(message.reactions.remove(place).json())
    }

    /// Returns the bot's reactions to a message.
    pub(crate) fn own_reactions(&self, id: &str) -> Vec<String> {
        let message = self.messages.get(id).into_iter();
        message
            .flat_map(|message| &message.reactions)
            .filter(|reaction| reaction.operator == Sender::Bot)
            .map(|reaction| reaction.emoji.clone())
            .collect()
    }
}

impl Reaction {
    fn json(&self) -> Value {
        let (operator, kind) = match &self.operator {
            Sender::Bot => (APP_ID, "app"),
            Sender::Person(person) => (person.open_id.as_str(), "user"),
            Sender::OtherBot(bot) => (bot.open_id.as_str(), "app"),
        };
        json!({
            "reaction_id": self.id, "reaction_type": {"emoji_type": self.emoji},
            "operator": {"operator_id": operator, "operator_type": kind},
            "action_time": self.at.to_string(),
        })
    }
}
