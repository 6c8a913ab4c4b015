//! Requests with which the bot sends, checked as strictly as Discord checks them.

use bytes::Bytes;
use serde_json::Value;

use crate::account::BOT_ID;
use crate::messages::{StoredFile, StoredMessage};
use crate::refusal::{RestError, RestResult};
use crate::state::DiscordState;

/// Maximum length of a text, in code points.
const TEXT_LIMIT: usize = 2000;
const NONCE_LIMIT: usize = 25;
const MESSAGE_FIELDS: &[&str] = &[
    "content",
    "nonce",
    "tts",
    "embeds",
    "allowed_mentions",
    "message_reference",
    "components",
    "sticker_ids",
    "attachments",
    "flags",
    "enforce_nonce",
    "poll",
];
/// The last field means nothing, but discord.py sends it.
const EDIT_FIELDS: &[&str] = &[
    "content",
    "embeds",
    "flags",
    "allowed_mentions",
    "components",
    "attachments",
    "tts",
];

/// A file in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Upload {
    pub(crate) field: String,
    pub(crate) name: String,
    pub(crate) mime: Option<String>,
    pub(crate) bytes: Bytes,
}

/// Returns a field that Discord does not know, if any.
pub(crate) fn unknown_field(body: &Value, known: &[&str]) -> Option<String> {
    body.as_object()?
        .keys()
        .find(|key| !known.contains(&key.as_str()))
        .cloned()
}

impl DiscordState {
    pub(crate) fn create_message(
        &mut self,
        channel: u64,
        body: &Value,
        uploads: Vec<Upload>,
    ) -> RestResult {
        self.check_place(channel)?;
        self.check_body(body, MESSAGE_FIELDS)?;
        if uploads
            .iter()
            .map(|upload| upload.bytes.len())
            .sum::<usize>()
            > self.upload_limit
        {
            return Err(RestError::new(413, 40_005, "Request entity too large"));
        }
        check_uploads(body, &uploads)?;
        let text = body
            .get("content")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let has_something = ["embeds", "sticker_ids", "poll"]
            .iter()
            .any(|key| is_filled(body.get(*key)));
        if text.trim().is_empty()
            && uploads.is_empty()
            && !has_something
            && !is_filled(body.get("components"))
        {
            return Err(RestError::new(400, 50_006, "Cannot send an empty message"));
        }
        let nonce = nonce_of(body)?;
        let is_held_to = body
            .get("enforce_nonce")
            .and_then(Value::as_bool)
            .unwrap_or_default();
        if let Some(known) = nonce
            .as_ref()
            .filter(|_| is_held_to)
            .and_then(|nonce| self.nonces.get(nonce))
        {
            let message = self
                .messages
                .get(known)
                .filter(|message| !message.is_deleted);
            return message
                .map(|message| self.message_json(message))
                .ok_or_else(RestError::unknown_message);
        }
        let id = self.new_id();
        let replies_to = self.reference(channel, body)?;
        let mut files = Vec::new();
        for upload in uploads {
            let file = self.new_id();
            files.push(file);
            self.files.insert(
                file,
                StoredFile {
                    name: upload.name,
                    mime: upload.mime,
                    bytes: upload.bytes,
                },
            );
        }
        let message = StoredMessage {
            id,
            channel,
            is_by_bot: true,
            text: text.to_owned(),
            replies_to,
            files,
            components: body.get("components").cloned().unwrap_or_default(),
            nonce: body.get("nonce").cloned(),
            pings: pings(text, body.get("allowed_mentions")),
            ..StoredMessage::default()
        };
        if let Some(nonce) = nonce.filter(|_| is_held_to) {
            self.nonces.insert(nonce, id);
        }
        let json = self.message_json(&message);
        self.messages.insert(id, message);
        Ok(json)
    }

    pub(crate) fn edit_message(&mut self, channel: u64, id: u64, body: &Value) -> RestResult {
        self.check_place(channel)?;
        self.check_body(body, EDIT_FIELDS)?;
        let message = self
            .messages
            .get_mut(&id)
            .filter(|message| message.channel == channel && !message.is_deleted);
        let message = message.ok_or_else(RestError::unknown_message)?;
        if !message.is_by_bot {
            return Err(RestError::new(
                403,
                50_005,
                "Cannot edit a message authored by another user",
            ));
        }
        if let Some(text) = body.get("content").and_then(Value::as_str) {
            let before = std::mem::replace(&mut message.text, text.to_owned());
            message.history.push(before);
        }
        if let Some(components) = body.get("components") {
            message.components = components.clone();
        }
        let message = message.clone();
        Ok(self.message_json(&message))
    }

    /// Adds or removes a reaction of the bot.
    pub(crate) fn react(
        &mut self,
        channel: u64,
        message: u64,
        emoji: &str,
        is_set: bool,
    ) -> RestResult {
        self.check_place(channel)?;
        let is_emoji = !emoji.is_empty() && (!emoji.is_ascii() || emoji.contains(':'));
        if !is_emoji {
            return Err(RestError::new(400, 10_014, "Unknown Emoji"));
        }
        let message = self
            .messages
            .get_mut(&message)
            .filter(|message| message.channel == channel);
        let reactions = &mut message.ok_or_else(RestError::unknown_message)?.reactions;
        let place = reactions.iter().position(|known| known == emoji);
        match (place, is_set) {
            (None, true) => reactions.push(emoji.to_owned()),
            (Some(place), false) => drop(reactions.remove(place)),
            _ => {}
        }
        Ok(Value::Null)
    }

    pub(crate) fn check_place(&self, channel: u64) -> Result<(), RestError> {
        if self.room(channel).is_none() {
            return Err(RestError::unknown_channel());
        }
        if self.forbidden.contains(&channel) {
            return Err(RestError::new(403, 50_013, "Missing Permissions"));
        }
        Ok(())
    }

    fn check_body(&self, body: &Value, known: &[&str]) -> Result<(), RestError> {
        if !body.is_object() {
            return Err(RestError::new(
                400,
                50_109,
                "The request body contains invalid JSON.",
            ));
        }
        if let Some(field) = unknown_field(body, known) {
            return Err(RestError::form(format!("{field}: unknown")));
        }
        let text = body
            .get("content")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if text.chars().count() > TEXT_LIMIT {
            return Err(RestError::form("content: Must be 2000 or fewer in length."));
        }
        if let Some(problem) = body.get("components").and_then(components_problem) {
            return Err(RestError::form(problem));
        }
        mentions_problem(body.get("allowed_mentions"))
            .map_or(Ok(()), |problem| Err(RestError::form(problem)))
    }

    fn reference(&self, channel: u64, body: &Value) -> Result<Option<u64>, RestError> {
        let Some(reference) = body
            .get("message_reference")
            .filter(|reference| !reference.is_null())
        else {
            return Ok(None);
        };
        if let Some(field) = unknown_field(
            reference,
            &[
                "type",
                "message_id",
                "channel_id",
                "guild_id",
                "fail_if_not_exists",
            ],
        ) {
            return Err(RestError::form(format!(
                "message_reference.{field}: unknown"
            )));
        }
        let id = reference.get("message_id").and_then(id_of);
        let id = id.ok_or_else(|| {
            RestError::form("message_reference.message_id: Value is not snowflake.")
        })?;
        let exists = self
            .messages
            .get(&id)
            .is_some_and(|message| message.channel == channel && !message.is_deleted);
        let must_exist = reference
            .get("fail_if_not_exists")
            .and_then(Value::as_bool)
            .unwrap_or(true);
        if !exists && must_exist {
            return Err(RestError::form("message_reference: Unknown message"));
        }
        Ok(Some(id).filter(|_| exists))
    }
}

/// Parses an id given as a string or as a number.
pub(crate) fn id_of(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn is_filled(list: Option<&Value>) -> bool {
    list.is_some_and(|list| {
        list.as_array()
            .map_or(!list.is_null(), |list| !list.is_empty())
    })
}

fn nonce_of(body: &Value) -> Result<Option<String>, RestError> {
    let nonce = match body.get("nonce") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        Some(_) => return Err(RestError::form("nonce: must be a text or a number")),
    };
    if nonce.chars().count() > NONCE_LIMIT {
        return Err(RestError::form("nonce: Must be 25 or fewer in length."));
    }
    Ok(Some(nonce))
}

fn check_uploads(body: &Value, uploads: &[Upload]) -> Result<(), RestError> {
    let described = body
        .get("attachments")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    for description in &described {
        let field = description
            .get("id")
            .and_then(id_of)
            .map(|id| format!("files[{id}]"));
        if !uploads
            .iter()
            .any(|upload| Some(&upload.field) == field.as_ref())
        {
            return Err(RestError::form("attachments: there is no such file"));
        }
    }
    let is_named =
        |upload: &Upload| upload.field.starts_with("files[") && upload.field.ends_with(']');
    if !uploads.iter().all(is_named) || uploads.len() > 10 {
        return Err(RestError::form(
            "files: must be called files[0] to files[9]",
        ));
    }
    Ok(())
}

/// Returns the first problem of a message's buttons.
pub(crate) fn components_problem(components: &Value) -> Option<String> {
    let rows = components.as_array()?;
    let number =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_u64).unwrap_or_default();
    if rows.len() > 5 {
        return Some("components: Must be 5 or fewer in length.".to_owned());
    }
    let mut known = Vec::new();
    for row in rows {
        let buttons = row
            .get("components")
            .and_then(Value::as_array)
            .filter(|_| number(row, "type") == 1);
        let Some(buttons) = buttons.filter(|buttons| (1..=5).contains(&buttons.len())) else {
            return Some("components: a row has from 1 to 5 buttons".to_owned());
        };
        for button in buttons {
            let text = |key: &str| {
                button
                    .get(key)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            let (id, label) = (text("custom_id"), text("label"));
            let fits = (1..=100).contains(&id.chars().count())
                && (1..=80).contains(&label.chars().count());
            let is_button =
                number(button, "type") == 2 && (1..=4).contains(&number(button, "style"));
            if !fits || !is_button || known.contains(&id) {
                return Some(format!(
                    "components: {button} is no button, or one more of the same id"
                ));
            }
            known.push(id);
        }
    }
    None
}

fn mentions_problem(mentions: Option<&Value>) -> Option<&'static str> {
    let mentions = mentions?;
    if unknown_field(mentions, &["parse", "roles", "users", "replied_user"]).is_some() {
        return Some("allowed_mentions: unknown field");
    }
    let parse = mentions
        .get("parse")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    if parse.iter().any(|kind| {
        !["roles", "users", "everyone"]
            .iter()
            .any(|known| kind == known)
    }) {
        return Some("allowed_mentions.parse: must be one of roles, users, everyone");
    }
    let both = ["roles", "users"]
        .iter()
        .any(|kind| parse.iter().any(|p| p == kind) && is_filled(mentions.get(*kind)));
    both.then_some("allowed_mentions: parse and list are mutually exclusive")
}

/// Returns the mentions of a text that notify.
fn pings(text: &str, allowed: Option<&Value>) -> Vec<String> {
    let parses = |kind: &str| {
        let Some(allowed) = allowed else { return true };
        allowed
            .get("parse")
            .and_then(Value::as_array)
            .is_some_and(|parse| parse.iter().any(|entry| entry == kind))
    };
    let mut pings = Vec::new();
    if parses("everyone") && (text.contains("@everyone") || text.contains("@here")) {
        pings.push("everyone".to_owned());
    }
    for (opening, kind) in [("<@&", "roles"), ("<@", "users")] {
        let names = text
            .split(opening)
            .skip(1)
            .filter_map(|rest| rest.split_once('>'))
            .map(|(name, _)| name);
        pings.extend(
            names
                .filter(|name| parses(kind) && name.bytes().all(|b| b.is_ascii_digit()))
                .map(str::to_owned),
        );
    }
    pings.retain(|name| *name != BOT_ID.to_string());
    pings
}
