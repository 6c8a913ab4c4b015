//! What the prompt's own commands do.

use nanobot_runtime::TerminalOptions;
use nanobot_runtime::types::SessionKey;

use super::commands::PromptAction;
use super::external;
use super::session::{Next, PROMPT, PromptSession};
use crate::failure::CommandFailure;
use crate::terminal::edit::rows_of;
use crate::terminal::screen::RawMode;

/// Maximum number of rows of each text of the last exchange that are shown on return.
const RETURN_ROWS: usize = 12;

impl PromptSession {
    pub(super) async fn act(
        &mut self,
        action: PromptAction,
        argument: &str,
    ) -> Result<Next, CommandFailure> {
        match action {
            PromptAction::Sessions => self.open_or_list(argument).await?,
            PromptAction::New => {
                let (key, exists) = self.conversations.named(argument).await?;
                if exists {
                    self.say("There is a conversation of that name; opening it.\n");
                }
                self.open(key).await?;
            }
            PromptAction::Rename => {
                let text = self.conversations.rename(argument).await?;
                self.say(&text);
            }
            PromptAction::Delete => self.delete(argument).await?,
            PromptAction::Restore => {
                let text = self.conversations.restore(argument).await?;
                self.say(&text);
            }
            PromptAction::Export => {
                let text = self.conversations.export(argument).await?;
                self.say(&text);
            }
            PromptAction::Last => {
                self.show_results();
            }
            PromptAction::Diff => {
                let changes = self.details.changes(self.view.layout());
                self.lines.push_str(&changes);
            }
            PromptAction::Copy => self.copy().await?,
            PromptAction::Edit => {
                self.editor.set_text(argument);
                return Ok(Next::OpenEditor);
            }
        }
        Ok(Next::Continue)
    }

    /// Copies the last reply to the clipboard of the terminal.
    async fn copy(&mut self) -> Result<(), CommandFailure> {
        let Some(reply) = self.conversations.last_reply().await? else {
            self.say("There is no reply to copy yet.\n");
            return Ok(());
        };
        let sequence = external::clipboard_sequence(&reply);
        self.say(match crate::output::write_verbatim(&sequence) {
            Ok(()) => {
                "Copied, if the terminal supports it (OSC 52; some ask or have to be configured).\n"
            }
            Err(_) => "The terminal takes no text.\n",
        });
        Ok(())
    }

    /// Opens the conversation that the argument names, or lists those that contain it.
    async fn open_or_list(&mut self, argument: &str) -> Result<(), CommandFailure> {
        if !argument.is_empty()
            && let Some(key) = self.conversations.find(argument).await?
        {
            return self.open(key).await;
        }
        let list = self.conversations.list(argument).await?;
        let list = self.view.render(&list);
        self.lines.push_str(&list);
        Ok(())
    }

    /// Deletes a conversation. After the open one, the usual one is opened.
    async fn delete(&mut self, argument: &str) -> Result<(), CommandFailure> {
        let key = match argument {
            "" => self.conversations.current().clone(),
            argument => self.conversations.find(argument).await?.ok_or_else(|| {
                CommandFailure::new(
                    format!("there is no conversation {argument}"),
                    "/sessions lists them.",
                )
            })?,
        };
        let is_open = key == *self.conversations.current();
        if is_open {
            self.refuse_while_working().await?;
        }
        let text = self.conversations.delete(key).await?;
        self.say(&text);
        if is_open {
            self.open(SessionKey::from(TerminalOptions::default().session))
                .await?;
        }
        Ok(())
    }

    /// Refuses to leave the conversation while its gateway is gone or work would be lost.
    async fn refuse_while_working(&self) -> Result<(), CommandFailure> {
        if !self.terminal.is_connected() {
            return Err(CommandFailure::new(
                "the gateway is gone",
                "Wait until it is back, or leave with Ctrl-D.",
            ));
        }
        if self.status.is_some() || self.commands > 0 {
            return Err(CommandFailure::new(
                "a turn is running in this conversation",
                "Wait for its end, or stop it with Ctrl-C.",
            ));
        }
        if self.terminal.has_unfinished_work().await {
            return Err(CommandFailure::new(
                "a subagent or a job still works here, and another conversation would stop it",
                "Wait for its result; /agents lists subagents, and /stop stops them. With a gateway they go on.",
            ));
        }
        Ok(())
    }

    /// Leaves the open conversation and opens another.
    async fn open(&mut self, key: SessionKey) -> Result<(), CommandFailure> {
        self.refuse_while_working().await?;
        self.terminal.switch(key.as_str()).await?;
        let name = crate::output::sanitize(key.as_str());
        self.conversations.opened(key);
        self.details.begin();
        self.say(&format!("Conversation {name}.\n"));
        self.show_last_exchange().await;
        Ok(())
    }

    /// Shows how the conversation ended.
    pub(super) async fn show_last_exchange(&mut self) {
        let Some((asked, reply)) = self.conversations.last_exchange().await else {
            return;
        };
        let width = self.region.width();
        let rows = rows_of(PROMPT, &asked, 0, width, RETURN_ROWS).rows;
        let mut lines: Vec<String> = rows.iter().map(|row| self.view.dim(row)).collect();
        let reply = self.view.render(&reply.unwrap_or_default());
        lines.extend(reply.lines().take(RETURN_ROWS).map(str::to_owned));
        if reply.lines().count() > RETURN_ROWS {
            lines.push(self.view.dim("…"));
        }
        self.lines.push_str(&lines.join("\n"));
        self.lines.push_str("\n\n");
    }

    /// Opens the text in the user's editor. Ctrl-C belongs to the editor until the next key at the
    /// prompt, because the signal may arrive here after the end of the editor.
    pub(super) async fn open_editor(&mut self, mode: &RawMode) -> Result<(), CommandFailure> {
        self.leave();
        let text = self.editor.text().to_owned();
        if !text.trim().is_empty() {
            self.editor.remember(&text);
        }
        self.interrupts.ignore();
        mode.restore();
        let edited = tokio::task::spawn_blocking(move || external::edit_text(&text)).await;
        mode.resume()?;
        self.region.restart();
        match edited {
            Ok(Ok(text)) => self.editor.set_text(&text),
            Ok(Err(error)) => self.say(&format!(
                "The text was not edited: {error}\n  try: set EDITOR to an editor that is installed.\n"
            )),
            Err(error) => self.say(&format!("The text was not edited: {error}\n")),
        }
        Ok(())
    }
}
