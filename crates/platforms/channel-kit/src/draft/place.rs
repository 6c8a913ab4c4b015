//! What a platform provides for drafts.

use std::time::Duration;

use nanobot_channel::{ChannelError, Value, async_trait};

/// The place of a draft, and the calls that show it.
pub trait DraftPlace: Send + Sync + 'static {
    /// The platform's name of a message.
    type Message: Clone + Send + Sync + 'static;

    /// Returns the text that the platform gets: as much as fits into one message, and escaped where
    /// the platform would read it as markup. Blank text is not shown.
    fn visible(&self, text: &str) -> String;

    /// Returns what is needed to find the message that [`Self::begin`] sends with `key`, although
    /// its name never became known, because the process was killed in between. It is recorded
    /// before the message is sent; [`DraftBoard::recover`](super::DraftBoard::recover) passes it on
    /// for deletion. `None` where such a message cannot be found.
    fn intent(&self, _key: &str) -> Option<Value> {
        None
    }

    /// Sends a new message. `None` if the platform accepted it without a name: then nothing more is
    /// shown. `key` has 32 hexadecimal digits, and no other message has it.
    ///
    /// # Errors
    /// The reason why it could not be sent.
    fn begin(
        &self,
        text: &str,
        key: &str,
    ) -> impl Future<Output = Result<Option<Self::Message>, ChannelError>> + Send;

    /// Replaces the text of the message.
    ///
    /// # Errors
    /// The reason why it could not be edited; the next text is another attempt.
    fn edit(
        &self,
        message: &Self::Message,
        text: &str,
    ) -> impl Future<Output = Result<(), ChannelError>> + Send;

    /// Deletes the message.
    ///
    /// # Errors
    /// The reason why it could not be deleted; the next start is another attempt.
    fn remove(
        &self,
        message: &Self::Message,
    ) -> impl Future<Output = Result<(), ChannelError>> + Send;

    /// Completes a message that stays without becoming a reply, because the turn goes on with tools
    /// or no reply came. Only for platforms that show a draft differently from a message.
    ///
    /// # Errors
    /// The reason why it looks like a draft for longer.
    fn leave(
        &self,
        _message: &Self::Message,
    ) -> impl Future<Output = Result<(), ChannelError>> + Send {
        async { Ok(()) }
    }

    /// Returns the address of the message after a restart, which
    /// [`DraftBoard::recover`](super::DraftBoard::recover) passes on for deletion. `None` if it
    /// cannot be deleted.
    fn locator(&self, _message: &Self::Message) -> Option<Value> {
        None
    }

    /// Returns the time between two edits in this place: the configured one, or a longer one that
    /// the platform requires here.
    fn interval(&self, configured: Duration) -> Duration {
        configured
    }

    /// Returns the preview of a place that shows text without a message. `None` if there is none,
    /// or from its first permanent refusal on: then the text is shown in a message.
    fn preview(&self) -> Option<&dyn DraftPreview> {
        None
    }
}

/// A text that is shown without a message. It vanishes by itself, so it is not recorded, not
/// deleted, and not taken over by the reply.
#[async_trait]
pub trait DraftPreview: Send + Sync {
    /// Shows a text in place of the one before, if there is one. Can be repeated.
    ///
    /// # Errors
    /// The reason why it is not shown. After an error
    /// [to give up on](nanobot_channel::SendRecovery::GiveUp) the text is shown in a message
    /// instead.
    async fn show(&self, text: &str) -> Result<(), ChannelError>;

    /// Returns the time after which an unchanged text has to be shown again, lest it vanish.
    fn refresh_interval(&self) -> Duration;
}

/// The place of a draft on a platform that shows none.
#[derive(Clone, Copy, Debug)]
pub enum NoDraft {}

impl DraftPlace for NoDraft {
    type Message = ();

    fn visible(&self, _text: &str) -> String {
        match *self {}
    }

    async fn begin(&self, _text: &str, _key: &str) -> Result<Option<()>, ChannelError> {
        match *self {}
    }

    async fn edit(&self, _message: &(), _text: &str) -> Result<(), ChannelError> {
        match *self {}
    }

    async fn remove(&self, _message: &()) -> Result<(), ChannelError> {
        match *self {}
    }
}
