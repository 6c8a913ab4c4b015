//! Conversations at the prompt: listing, opening, naming, deleting and exporting them.

use std::path::{Path, PathBuf};

use nanobot_runtime::types::{SessionKey, Timestamp};
use nanobot_runtime::{
    ConversationFilter, ConversationName, ConversationSummary, Runtime, check_conversation_name,
    conversation_keys, conversations, last_exchange, last_reply, session_editor, session_store,
};

use crate::commands::{ExportFormat, export_to, session_edit_failure};
use crate::failure::CommandFailure;
use crate::output::sanitize;
use crate::terminal::status::duration;

/// Maximum number of conversations in a list.
const MAX_LISTED: usize = 20;
/// Maximum length of a title and of a text in a list, in characters.
const TITLE_CHARS: usize = 48;

/// The conversations of a home, as the prompt uses them.
#[derive(Debug)]
pub(super) struct Conversations {
    runtime: Runtime,
    /// The open conversation.
    current: SessionKey,
    /// The last list that was shown; its numbers name conversations.
    listed: Vec<SessionKey>,
    /// The conversation that was deleted last.
    deleted: Option<SessionKey>,
}

impl Conversations {
    pub(super) fn new(runtime: &Runtime, session: &str) -> Self {
        Self {
            runtime: runtime.clone(),
            current: key_of(session),
            listed: Vec::new(),
            deleted: None,
        }
    }

    /// Returns the open conversation.
    pub(super) fn current(&self) -> &SessionKey {
        &self.current
    }

    /// Records that another conversation is open.
    pub(super) fn opened(&mut self, key: SessionKey) {
        self.current = key;
    }

    /// Returns a list of the latest conversations, in Markdown, optionally of those that contain
    /// words.
    ///
    /// # Errors
    /// Returns an error if the conversations cannot be read.
    pub(super) async fn list(&mut self, search: &str) -> Result<String, CommandFailure> {
        let filter = ConversationFilter {
            search: (!search.is_empty()).then(|| search.to_owned()),
            limit: Some(MAX_LISTED),
            ..ConversationFilter::default()
        };
        let found = conversations(self.runtime.config(), &filter).await?;
        self.listed = found.iter().map(|summary| summary.key.clone()).collect();
        if found.is_empty() {
            return Ok("No conversation was found.\n".to_owned());
        }
        let now = chrono::Local::now().fixed_offset();
        let rows = found.iter().enumerate();
        let rows = rows.map(|(index, summary)| self.row(index + 1, summary, now));
        Ok(rows.collect::<String>() + "\n/sessions NUMBER opens one; /sessions WORDS searches.\n")
    }

    fn row(&self, number: usize, summary: &ConversationSummary, now: Timestamp) -> String {
        let title = match summary.title.as_str() {
            "" => "(no messages)".to_owned(),
            title => shortened(title),
        };
        let age = summary.updated_at.map_or(String::new(), |at| {
            let seconds = now.signed_duration_since(at).num_seconds();
            format!(", {} ago", duration(u64::try_from(seconds).unwrap_or(0)))
        });
        let open = if summary.key == self.current {
            " (open)"
        } else {
            ""
        };
        format!(
            "{number}. {title}{open}\n   {}, {} messages{age}\n",
            sanitize(summary.key.as_str()),
            summary.messages
        )
    }

    /// Returns the conversation that a number of the last list, a key or a name means; `None` if
    /// the text is none of them.
    ///
    /// # Errors
    /// Returns an error if the conversations cannot be read.
    pub(super) async fn find(&self, text: &str) -> Result<Option<SessionKey>, CommandFailure> {
        if let Ok(number) = text.parse::<usize>() {
            return Ok(number
                .checked_sub(1)
                .and_then(|index| self.listed.get(index))
                .cloned());
        }
        let meant = [SessionKey::from(text), key_of(text)];
        let mut all = conversation_keys(self.runtime.config()).await?.into_iter();
        Ok(all.find(|key| meant.contains(key)))
    }

    /// Returns the conversation of a name, and whether it exists.
    ///
    /// # Errors
    /// Returns an error if the name cannot be used, or the conversations cannot be read.
    pub(super) async fn named(&self, name: &str) -> Result<(SessionKey, bool), CommandFailure> {
        let existing = conversation_keys(self.runtime.config()).await?;
        match check_conversation_name(name, &existing) {
            Ok(ConversationName::Free(key)) => Ok((key, false)),
            Ok(ConversationName::Taken(key)) => Ok((key, true)),
            Err(error) => Err(CommandFailure::new(
                error.to_string(),
                "/new without a name begins again in this conversation.",
            )),
        }
    }

    /// Names the open conversation.
    ///
    /// # Errors
    /// Returns an error if it has no messages, or the name cannot be used.
    pub(super) async fn rename(&self, name: &str) -> Result<String, CommandFailure> {
        let name = (!name.is_empty()).then_some(name);
        let editor = session_editor(self.runtime.config()).await?;
        let renamed = editor.rename(self.current.as_str(), name).await;
        renamed.map_err(|error| session_edit_failure(&error))?;
        Ok(match name {
            Some(name) => format!("This conversation is named {}.\n", sanitize(name)),
            None => "This conversation has no name now.\n".to_owned(),
        })
    }

    /// Deletes a conversation; it can be restored for a while.
    ///
    /// # Errors
    /// Returns an error if there is none, or a turn is running in it.
    pub(super) async fn delete(&mut self, key: SessionKey) -> Result<String, CommandFailure> {
        let editor = session_editor(self.runtime.config()).await?;
        let deleted = editor.delete(key.as_str()).await;
        deleted.map_err(|error| session_edit_failure(&error))?;
        let text = format!(
            "Deleted {}. /restore brings it back.\n",
            sanitize(key.as_str())
        );
        self.deleted = Some(key);
        Ok(text)
    }

    /// Restores the conversation that was deleted last at this prompt, or the one of a key.
    ///
    /// # Errors
    /// Returns an error if there is none.
    pub(super) async fn restore(&mut self, key: &str) -> Result<String, CommandFailure> {
        let key = match (key, &self.deleted) {
            ("", Some(deleted)) => deleted.clone(),
            ("", None) => {
                return Err(CommandFailure::new(
                    "no conversation was deleted at this prompt",
                    "Name one: /restore KEY; `nanobot sessions restore` lists them.",
                ));
            }
            (key, _) => key_of(key),
        };
        let editor = session_editor(self.runtime.config()).await?;
        let restored = editor.restore(key.as_str()).await;
        restored.map_err(|error| session_edit_failure(&error))?;
        self.deleted = None;
        Ok(format!("Restored {}.\n", sanitize(key.as_str())))
    }

    /// Writes the open conversation to a new file: JSON lines if it ends with `.jsonl`, Markdown
    /// otherwise.
    ///
    /// # Errors
    /// Returns an error if the file exists or cannot be written.
    pub(super) async fn export(&self, file: &str) -> Result<String, CommandFailure> {
        let file = match file {
            "" => PathBuf::from(format!("{}.md", plain_name(self.current.as_str()))),
            file => PathBuf::from(file),
        };
        let format = match file.extension() {
            Some(extension) if extension == "jsonl" => ExportFormat::Jsonl,
            _ => ExportFormat::Md,
        };
        let store = session_store(self.runtime.config())?;
        export_to(&store, self.current.as_str(), format, &file).await?;
        let shown = absolute(&file).display().to_string();
        Ok(format!("Wrote {}.\n", sanitize(&shown)))
    }

    /// Returns the last reply in the open conversation.
    ///
    /// # Errors
    /// Returns an error if the conversation cannot be read.
    pub(super) async fn last_reply(&self) -> Result<Option<String>, CommandFailure> {
        Ok(last_reply(self.runtime.config(), &self.current).await?)
    }

    /// Returns the last exchange of the open conversation: the message and the reply.
    pub(super) async fn last_exchange(&self) -> Option<(String, Option<String>)> {
        match last_exchange(self.runtime.config(), &self.current).await {
            Ok(exchange) => exchange.map(|exchange| (exchange.asked, exchange.reply)),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "could not read the last exchange");
                None
            }
        }
    }
}

/// Returns the key of a conversation that is named without its channel.
fn key_of(name: &str) -> SessionKey {
    match name.split_once(':') {
        Some(_) => SessionKey::from(name),
        None => SessionKey::from(format!("cli:{name}")),
    }
}

fn plain_name(key: &str) -> String {
    let name = key.strip_prefix("cli:").unwrap_or(key);
    let plain = |c: char| {
        if c.is_alphanumeric() || matches!(c, '-' | '_') {
            c
        } else {
            '-'
        }
    };
    format!("nanobot-{}", name.chars().map(plain).collect::<String>())
}

fn absolute(file: &Path) -> PathBuf {
    std::path::absolute(file).unwrap_or_else(|_| file.to_owned())
}

fn shortened(text: &str) -> String {
    let text = sanitize(text);
    if text.chars().count() <= TITLE_CHARS {
        return text;
    }
    text.chars().take(TITLE_CHARS).collect::<String>() + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_file_names_are_derived_from_names() {
        assert_eq!(key_of("travel").as_str(), "cli:travel");
        assert_eq!(key_of("telegram:7").as_str(), "telegram:7");
        for (key, expected) in [
            ("cli:direct", "nanobot-direct"),
            ("telegram:-5/../x", "nanobot-telegram--5----x"),
            ("cli:旅行", "nanobot-旅行"),
        ] {
            assert_eq!(plain_name(key), expected);
        }
    }
}
