//! `/restart`: shuts down in order and starts again, with the configuration and the program of that
//! time.
//!
//! Decision: anyone who may talk to the assistant in a direct chat may restart it. Nothing is lost
//! by that, because turns resume where they were. In a group it is refused: access to a group is
//! not access to the machine. The answer is stored before anything ends. The confirmation is a
//! message that the next process finds in the home and sends to that chat once.

use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use nanobot_agent_core::{AgentError, Command, CommandContext, CommandReply, CommandTiming};
use nanobot_bus::Bus;
use nanobot_control::TERMINAL_CHANNEL;
use nanobot_types::{
    ChatKind, CommandInfo, InboundMessage, OutboundKey, OutboundKind, OutboundMessage,
    OutboundSlot, TraceId,
};
use tokio_util::sync::CancellationToken;

/// Text of the answer to the command.
pub(crate) const RESTARTING: &str = "Restarting...";
/// Text of the confirmation after the restart.
pub(crate) const RESTARTED: &str = "Restarted.";
/// File in the home with the confirmation that the next process sends.
const NOTE: &str = "restart.json";

/// Description of the command.
pub(crate) const INFO: CommandInfo = CommandInfo {
    name: "restart",
    aliases: &[],
    about: "Restart the assistant",
    usage: "",
};

/// The `/restart` command, and whether it was given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Restart {
    requested: CancellationToken,
    /// `None` if the user learns of the restart by other means.
    note: Option<PathBuf>,
}

impl Restart {
    /// Returns a command that leaves a note for the next process of this home.
    pub(crate) fn of_home(data_dir: &Path) -> Self {
        Self {
            note: Some(data_dir.join(NOTE)),
            ..Self::default()
        }
    }

    /// Fires after a restart was requested and the answer is stored.
    pub(crate) fn requested(&self) -> &CancellationToken {
        &self.requested
    }
}

#[async_trait]
impl Command for Restart {
    fn info(&self) -> CommandInfo {
        INFO
    }

    fn timing(&self) -> CommandTiming {
        CommandTiming::Now
    }

    async fn run(&self, context: &CommandContext<'_>) -> Result<CommandReply, AgentError> {
        if context.message.chat != Some(ChatKind::Direct) {
            return Ok(CommandReply::refusal(
                "/restart works in private chats only. Send it to me there.",
            ));
        }
        // A waiting terminal notices the restart by itself.
        if let Some(note) = self
            .note
            .as_ref()
            .filter(|_| context.message.channel.as_str() != TERMINAL_CHANNEL)
            && let Err(error) = write_note(note, context.message).await
        {
            tracing::warn!(%error, note = %note.display(), "could not note who requested the restart; its end will not be announced");
        }
        let requested = self.requested.clone();
        Ok(CommandReply::from(RESTARTING).then(move || requested.cancel()))
    }
}

async fn write_note(note: &Path, request: &InboundMessage) -> io::Result<()> {
    let turn = request
        .journal_id()
        .map_or_else(|| TraceId::from("restart"), |id| TraceId::from(id.as_str()));
    let key = OutboundKey::new(turn, OutboundSlot::Confirmation);
    let confirmation =
        OutboundMessage::in_reply_to(request, key, OutboundKind::Final, RESTARTED.to_owned());
    tokio::fs::write(note, serde_json::to_vec(&confirmation)?).await
}

/// Sends the confirmation of the restart that this process began with. The idempotency key is the
/// same at every attempt, so the user reads it once.
pub(crate) async fn send_confirmation(data_dir: &Path, bus: &dyn Bus) {
    let note = data_dir.join(NOTE);
    let Ok(text) = tokio::fs::read(&note).await else {
        return;
    };
    let confirmation = match serde_json::from_slice::<OutboundMessage>(&text) {
        Ok(message) => bus
            .publish_outbound(message)
            .await
            .map(drop)
            .map_err(|error| error.to_string()),
        // A power cut may have truncated the note; it is of no use any more.
        Err(error) => {
            tracing::warn!(%error, "could not announce the end of the restart");
            Ok(())
        }
    };
    let removed = match confirmation {
        Ok(()) => tokio::fs::remove_file(&note)
            .await
            .map_err(|error| error.to_string()),
        Err(error) => Err(error),
    };
    if let Err(error) = removed {
        tracing::error!(
            error,
            "could not announce the end of the restart; retrying at the next start"
        );
    }
}

#[cfg(test)]
mod tests {
    use nanobot_bus::{Ledger as _, LedgerFilter, MemoryBus, Queue};

    use super::*;

    #[tokio::test]
    async fn requester_is_notified_once() {
        let home = tempfile::tempdir().unwrap();
        let bus = MemoryBus::new();
        send_confirmation(home.path(), &bus).await;
        let request = InboundMessage {
            id: Some("7".into()),
            ..InboundMessage::text("telegram", "ann", "1", "/restart")
        };
        for _ in 0..2 {
            write_note(&home.path().join(NOTE), &request).await.unwrap();
            send_confirmation(home.path(), &bus).await;
        }
        let confirmation = bus
            .list(Queue::Outbound, LedgerFilter::Open, 9)
            .await
            .unwrap();
        let [confirmation] = confirmation.as_slice() else {
            panic!("{confirmation:?}")
        };
        let message = confirmation.outbound.as_ref().unwrap();
        assert_eq!(
            (message.content.as_str(), message.chat_id.as_str()),
            (RESTARTED, "1")
        );
        assert!(!home.path().join(NOTE).exists());
    }

    #[tokio::test]
    async fn torn_note_is_removed() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(NOTE), "{\"key\":").unwrap();
        send_confirmation(home.path(), &MemoryBus::new()).await;
        assert!(!home.path().join(NOTE).exists());
    }
}
