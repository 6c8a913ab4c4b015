//! Slack as a [`Platform`].

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use nanobot_channel::{
    ChannelContext, ChannelError, ChatId, DeliveryContext, DeliveryGuarantee, Format, Measure,
    Notes, OutboundPart, Sent, TextStyle, TurnEnds, Value,
};
use nanobot_channel_kit::{
    Attempts, BegunDraft, ChannelBase, Platform, PlatformChannel, PlatformFactory, Reactions,
    Recent, Rejection,
};

use crate::SlackConfig;
use crate::api::{Api, NoContent};
use crate::catch_up::SlackMarks;
use crate::draft::SlackDraft;
use crate::error::required_call_error;
use crate::fetch_queue::FetchQueue;
use crate::markup::Mrkdwn;
use crate::outbound::EDIT_LIMIT;
use crate::reaction::{SlackReactor, emoji};
use crate::target::{Directory, SendTarget};
use crate::thread::ThreadsWithContext;
use crate::uncertain::SendProgress;

/// Limit of the visible text of a message, in code points; Slack cuts at 40,000 with the markup.
const TEXT_LIMIT: usize = 39_000;

/// Number of envelopes that are remembered as handled.
const RECENT: usize = 4096;

/// An app on Slack, created by [`SlackFactory`], or directly by a program without a configuration
/// file.
pub type SlackChannel = PlatformChannel<Slack>;

/// Creates [`SlackChannel`]s.
pub type SlackFactory = PlatformFactory<Slack>;

/// The platform of a [`SlackChannel`].
#[derive(Debug)]
pub struct Slack {
    pub(crate) base: ChannelBase<String>,
    pub(crate) config: SlackConfig,
    pub(crate) api: Arc<Api>,
    /// Names of handled events: Slack repeats what was not acknowledged in time, and a mention
    /// comes as two events.
    recent: Mutex<Recent<String>>,
    pub(crate) marks: SlackMarks,
    pub(crate) fetches: FetchQueue,
    pub(crate) threads_with_context: ThreadsWithContext,
    pub(crate) directory: Directory,
    pub(crate) attempts: Attempts<SendProgress>,
    pub(crate) reactions: Reactions<SlackReactor>,
    /// The app's own user, from the first connection on.
    pub(crate) bot_user: OnceLock<String>,
    pub(crate) rejection: Rejection,
}

impl Platform for Slack {
    type Config = SlackConfig;
    type Draft = SlackDraft;
    const KIND: &'static str = "slack";
    const TEXT_STYLE: TextStyle = TextStyle {
        format: Format::Markup(&Mrkdwn),
        measure: Measure::CodePoints,
        limit: TEXT_LIMIT,
    };
    const DRAFT_LIMIT: usize = EDIT_LIMIT;
    /// After a broken connection, messages are searched by their metadata.
    const GUARANTEE: DeliveryGuarantee = DeliveryGuarantee::Detectable;

    fn new(
        base: ChannelBase<String>,
        config: SlackConfig,
        shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        let api = Arc::new(Api::new(&config, shared_proxy)?);
        Ok(Self {
            reactions: Reactions::new(SlackReactor(Arc::clone(&api)), emoji(&config)),
            base,
            config,
            api,
            recent: Mutex::new(Recent::new(RECENT)),
            marks: SlackMarks::default(),
            fetches: FetchQueue::default(),
            threads_with_context: ThreadsWithContext::default(),
            directory: Directory::default(),
            attempts: Attempts::default(),
            bot_user: OnceLock::new(),
            rejection: Rejection::default(),
        })
    }

    fn base(&self) -> &ChannelBase<String> {
        &self.base
    }

    async fn open(self: &Arc<Self>, context: &ChannelContext) {
        self.rejection.clear();
        let notes = context.notes.as_ref();
        self.fetches.clear();
        self.marks.open(notes).await;
        self.threads_with_context.open(notes).await;
    }

    async fn receive(self: &Arc<Self>, context: &ChannelContext) -> Result<(), ChannelError> {
        let notes = context.notes.as_ref();
        tokio::select! {
            ended = self.receive_envelopes(context) => ended,
            () = self.marks.write_periodically(notes) => Ok(()),
            () = self.threads_with_context.write_periodically(notes) => Ok(()),
        }
    }

    async fn close(&self, notes: &dyn Notes) {
        tokio::join!(
            self.marks.write(notes),
            self.threads_with_context.write(notes)
        );
    }

    async fn send(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let sent = self.send_part(part).await;
        sent.inspect_err(|error| self.rejection.observe(error))
    }

    async fn account(&self) -> Result<String, ChannelError> {
        let me = self.identify().await.map_err(required_call_error)?;
        Ok(format!("@{} in {}", me.name, me.team))
    }

    fn edit_interval(&self) -> Option<Duration> {
        let interval = Duration::from_secs_f64(self.config.stream_edit_interval);
        self.config.streaming.then_some(interval)
    }

    async fn draft(
        &self,
        chat: &ChatId,
        delivery: &DeliveryContext,
    ) -> Result<Option<SlackDraft>, ChannelError> {
        let target = self.target(chat, delivery).await?;
        let api = Arc::clone(&self.api);
        Ok(Some(SlackDraft { api, target }))
    }

    fn orphaned_draft(&self, locator: Value) -> Option<(SlackDraft, String)> {
        let (chat, message) = serde_json::from_value(locator).ok()?;
        let target = SendTarget { chat, thread: None };
        let api = Arc::clone(&self.api);
        Some((SlackDraft { api, target }, message))
    }

    /// Searches for its key.
    async fn begun_draft(
        &self,
        begun: BegunDraft,
    ) -> Result<Option<(SlackDraft, String)>, ChannelError> {
        let age = begun.age();
        let Ok((chat, thread, key)) = serde_json::from_value(begun.intent) else {
            return Ok(None);
        };
        let target = SendTarget { chat, thread };
        let key: String = key;
        let found = self.search_since(&target, &key, age).await?;
        let api = Arc::clone(&self.api);
        Ok(found.map(|message| (SlackDraft { api, target }, message)))
    }

    fn turn_ends(&self) -> Option<&dyn TurnEnds> {
        self.reactions.turn_ends()
    }
}

impl Slack {
    pub(crate) fn recent(&self) -> MutexGuard<'_, Recent<String>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks the bot's token in the background; receiving ends if it was revoked.
    pub(crate) fn check_token(&self) {
        let (api, rejection) = (Arc::clone(&self.api), self.rejection.clone());
        self.base.background.spawn(async move {
            if let Err(error) = api.query::<NoContent>("auth.test", &[]).await {
                rejection.observe(&required_call_error(error));
            }
        });
    }
}
