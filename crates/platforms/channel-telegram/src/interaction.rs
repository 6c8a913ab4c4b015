//! Buttons below messages, and presses of them.
//!
//! Decision: a button carries its label, so that a press is understood after any restart. Labels
//! that are too long for that are found again in the keyboard that comes back with the press. Once
//! a press is durable the buttons go away: a choice is made once.

use std::sync::Arc;

use nanobot_channel::{Button, MessageId};
use nanobot_channel_kit::intake::Piece;
use serde::de::IgnoredAny;
use teloxide::payloads::{AnswerCallbackQuery, EditMessageReplyMarkup};
use teloxide::types::{
    CallbackQuery, CallbackQueryId, ChatId as TelegramChat, InlineKeyboardButton,
    InlineKeyboardButtonKind, InlineKeyboardMarkup, Message, MessageId as TelegramMessage,
};

use crate::author::Author;
use crate::candidate::{CandidateMessage, TelegramOrigin};
use crate::channel::Telegram;

/// Most bytes of a button's data.
const MAX_BUTTON_DATA: usize = 64;
/// Most buttons of a row, and of a message.
const MAX_ROW: usize = 8;
const MAX_BUTTONS: usize = 100;

/// Returns the keyboard for rows of choices; `None` if there are none.
pub(crate) fn keyboard(rows: &[Vec<Button>]) -> Option<InlineKeyboardMarkup> {
    let mut count = 0;
    let mut shown: Vec<Vec<InlineKeyboardButton>> = Vec::new();
    for row in rows {
        let labels = row
            .iter()
            .map(|button| button.label.trim())
            .filter(|label| !label.is_empty());
        let buttons: Vec<_> = labels
            .take(MAX_BUTTONS.saturating_sub(count))
            .enumerate()
            .map(|(index, label)| {
                let data = if label.len() <= MAX_BUTTON_DATA {
                    label.to_owned()
                } else {
                    format!("#{}", count + index)
                };
                InlineKeyboardButton::callback(label, data)
            })
            .collect();
        count += buttons.len();
        shown.extend(buttons.chunks(MAX_ROW).map(<[_]>::to_vec));
    }
    (!shown.is_empty()).then(|| InlineKeyboardMarkup::new(shown))
}

impl Telegram {
    /// Reads a press of a button as a message with its label. `None` if the button is unknown.
    pub(crate) fn interaction_candidate(&self, query: &CallbackQuery) -> Option<CandidateMessage> {
        let message = query.message.as_ref()?.regular_message()?;
        let author = Author::person(&query.from)?;
        let label = label_of(message, query.data.as_deref()?)?;
        let mut candidate = self.empty_candidate(message, &author, true);
        candidate.id = MessageId::from(format!("press-{}", query.id));
        candidate.pieces.push(Piece::Text(label));
        candidate.origin = TelegramOrigin::Press {
            id: query.id.clone(),
            chat: message.chat.id,
            message: message.id,
        };
        Some(candidate)
    }

    /// Ends the button's progress indicator and removes the keyboard, in the background.
    pub(crate) fn acknowledge(
        &self,
        id: CallbackQueryId,
        chat: TelegramChat,
        message: TelegramMessage,
    ) {
        let answer = AnswerCallbackQuery::new(id);
        let edit = EditMessageReplyMarkup::new(chat, message);
        let (api, name) = (Arc::clone(&self.api), self.base.name.clone());
        self.base.background.spawn(async move {
            if let Err(error) = api.call::<_, IgnoredAny>(&answer).await {
                tracing::debug!(channel = %name, %error, "a press could not be answered");
            }
            if let Err(error) = api.call::<_, IgnoredAny>(&edit).await {
                tracing::debug!(channel = %name, %error, "the buttons could not be taken away");
            }
        });
    }
}

/// Returns the label of the button with this data.
fn label_of(message: &Message, data: &str) -> Option<String> {
    let buttons = message
        .reply_markup()
        .into_iter()
        .flat_map(|markup| markup.inline_keyboard.iter().flatten());
    let mut carries = buttons.filter(|button| match &button.kind {
        InlineKeyboardButtonKind::CallbackData(own) => own == data,
        _ => false,
    });
    let label = carries.next().map(|button| button.text.clone());
    label.or_else(|| Some(data.to_owned()).filter(|data| !data.starts_with('#')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(labels: &[&[&str]]) -> Vec<Vec<Button>> {
        let button = |label: &&str| Button {
            label: (*label).to_owned(),
        };
        labels
            .iter()
            .map(|row| row.iter().map(button).collect())
            .collect()
    }

    #[test]
    fn keyboard_respects_telegrams_limits() {
        let data = |labels: &[&[&str]]| -> Vec<Vec<String>> {
            let markup = keyboard(&rows(labels)).unwrap();
            let data = |button: &InlineKeyboardButton| match &button.kind {
                InlineKeyboardButtonKind::CallbackData(data) => data.clone(),
                other => panic!("{other:?}"),
            };
            markup
                .inline_keyboard
                .iter()
                .map(|row| row.iter().map(data).collect())
                .collect()
        };
        assert_eq!(
            data(&[&["yes", " no "], &[], &["", "later"]]),
            [vec!["yes", "no"], vec!["later"]]
        );
        let long = "字".repeat(30);
        assert_eq!(data(&[&["yes"], &[&long]]), [["yes"], ["#1"]]);
        let nine = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        assert_eq!(
            data(&[&nine]).iter().map(Vec::len).collect::<Vec<_>>(),
            [8, 1]
        );
        let many = vec!["x"; 70];
        assert_eq!(
            data(&[&many, &many]).iter().map(Vec::len).sum::<usize>(),
            100
        );
        assert_eq!(keyboard(&rows(&[&[], &[" "]])), None);
    }
}
