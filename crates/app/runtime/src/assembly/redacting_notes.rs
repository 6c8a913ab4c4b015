//! Notes of a channel that register tokens as secrets when they are written.

use std::sync::Arc;

use nanobot_channel::{NoteError, Notes, Quarantined};
use nanobot_redact::Secrets;

use crate::assembly::secrets::tokens_in;

/// Passes everything on. Registers a token before it is written to disk.
#[derive(Debug)]
pub(super) struct RedactingNotes {
    pub(super) inner: Arc<dyn Notes>,
    pub(super) secrets: Secrets,
}

#[async_trait::async_trait]
impl Notes for RedactingNotes {
    async fn read(&self, name: &'static str) -> Result<Option<String>, NoteError> {
        self.inner.read(name).await
    }

    async fn write(&self, name: &'static str, text: &str) -> Result<(), NoteError> {
        self.secrets.add(tokens_in(text));
        self.inner.write(name, text).await
    }

    async fn remove(&self, name: &'static str) -> Result<(), NoteError> {
        self.inner.remove(name).await
    }

    async fn write_unsynced(&self, name: &'static str, text: &str) -> Result<(), NoteError> {
        self.secrets.add(tokens_in(text));
        self.inner.write_unsynced(name, text).await
    }

    async fn overwrite(&self, name: &'static str, text: &str) -> Result<(), NoteError> {
        self.secrets.add(tokens_in(text));
        self.inner.overwrite(name, text).await
    }

    async fn quarantine(&self, key: &str, bytes: &[u8]) -> Result<(), NoteError> {
        self.inner.quarantine(key, bytes).await
    }

    async fn quarantined(&self) -> Result<Quarantined, NoteError> {
        self.inner.quarantined().await
    }
}

#[cfg(test)]
mod tests {
    use nanobot_testkit::NoteBook;

    use super::*;

    #[tokio::test]
    async fn noted_token_is_redacted() {
        let secrets = Secrets::default();
        let notes = RedactingNotes {
            inner: Arc::new(NoteBook::default()),
            secrets: secrets.clone(),
        };
        let note = r#"{"insteadOf": "0123456789", "refreshToken": "fresh-token-1"}"#;
        notes.write("refresh-token", note).await.unwrap();
        assert_eq!(secrets.redact("0123456789 fresh-token-1"), "0123456789 ***");
        assert_eq!(
            notes.read("refresh-token").await.unwrap().as_deref(),
            Some(note)
        );
    }
}
