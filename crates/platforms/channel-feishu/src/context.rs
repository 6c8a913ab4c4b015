//! References of a message: the message it quotes, and the messages it forwards.
//!
//! Both are fetched after the access check, and marked as text that the sender did not write. If
//! they cannot be fetched, the message is delivered without them.

use nanobot_channel_kit::attribute_text;
use nanobot_channel_kit::intake::Piece;
use reqwest::Method;

use crate::api::{Body, Endpoint};
use crate::attachment::message_file;
use crate::candidate::CandidateMessage;
use crate::channel::Feishu;
use crate::content::{parse_content, text_of};
use crate::error::CallError;
use crate::mention::Mentions;
use crate::post::post_files;
use crate::wire::{StoredMessage, StoredMessages};

/// Longest quoted text, in characters.
const QUOTE_LIMIT: usize = 200;
/// Most forwarded messages that are shown, and the longest text of each, in characters.
const MAX_FORWARDED: usize = 50;
const FORWARDED_LIMIT: usize = 4000;

impl Feishu {
    /// Returns the quoted and the forwarded messages of a candidate whose sender has access.
    pub(crate) async fn references(&self, candidate: &CandidateMessage) -> Vec<Piece> {
        let mut pieces = Vec::new();
        if let Some(parent) = &candidate.origin.parent {
            pieces.extend(self.quoted_pieces(parent).await);
        }
        if candidate.origin.is_merge_forward
            && let Some(message) = &candidate.origin.message
        {
            pieces.push(Piece::Text(self.forwarded_text(message).await));
        }
        pieces
    }

    /// Returns the quoted message. Its file is fetched, too: a file has no text at Feishu, so people
    /// ask about a file by quoting it.
    async fn quoted_pieces(&self, parent: &str) -> Vec<Piece> {
        let messages = match self.stored_messages(parent).await {
            Ok(messages) => messages,
            Err(error) => {
                tracing::debug!(channel = %self.base.name, %error, "a quoted message could not be fetched");
                return Vec::new();
            }
        };
        let Some(quoted) = messages.first().filter(|quoted| !quoted.deleted) else {
            return Vec::new();
        };
        let content = parse_content(&quoted.body.content);
        if let Some(file) = message_file(&quoted.msg_type, &content, parent) {
            return vec![Piece::Framed("[Reply to: ".to_owned(), file, "]")];
        }
        let text = self.text_of_stored(quoted);
        let shown = shortened(text.trim(), QUOTE_LIMIT);
        if shown.is_empty() {
            return Vec::new();
        }
        let text = Piece::Text(attribute_text("Reply to", "", &shown));
        let files = if quoted.msg_type == "post" {
            post_files(&content, parent)
        } else {
            Vec::new()
        };
        [text]
            .into_iter()
            .chain(files.into_iter().map(Piece::Hidden))
            .collect()
    }

    async fn forwarded_text(&self, message: &str) -> String {
        let messages = self.stored_messages(message).await.unwrap_or_else(|error| {
            tracing::warn!(channel = %self.base.name, %error, "forwarded messages could not be fetched");
            Vec::new()
        });
        let forwarded = messages
            .iter()
            .filter(|inner| inner.message_id != message && !inner.upper_message_id.is_empty());
        let texts = forwarded.take(MAX_FORWARDED).map(|inner| {
            let text = self.text_of_stored(inner);
            attribute_text("forwarded", "", &shortened(text.trim(), FORWARDED_LIMIT))
        });
        let texts: Vec<String> = texts.collect();
        if texts.is_empty() {
            "[forwarded messages]".to_owned()
        } else {
            texts.join("\n")
        }
    }

    /// Returns a message, and the messages in it if it is a merged one.
    async fn stored_messages(&self, message: &str) -> Result<Vec<StoredMessage>, CallError> {
        let endpoint = Endpoint::new(Method::GET, ["im", "v1", "messages", message]);
        let messages: StoredMessages = self.api.data(&endpoint, Body::Empty).await?;
        Ok(messages.items)
    }

    fn text_of_stored(&self, message: &StoredMessage) -> String {
        let mentions = Mentions {
            list: &message.mentions,
            bot: "",
        };
        let content = parse_content(&message.body.content);
        text_of(&message.msg_type, &content, mentions)
    }
}

/// Returns the beginning of a text; `...` follows if that is not all.
fn shortened(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_shortened_between_characters() {
        assert_eq!(shortened("語語語", 3), "語語語");
        assert_eq!(shortened("語語語", 2), "語語...");
        assert_eq!(shortened("", 0), "");
    }
}
