//! The channel: what it is made of, and the contract.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use nanobot_channel::{
    Channel, ChannelContext, ChannelError, ChannelName, DeliveryGuarantee, Drafts, Format, Measure,
    OutboundKind, OutboundMessage, OutboundPart, Probe, Sent, StreamId, TextStyle, TurnEnds,
    async_trait,
};
use nanobot_channel_kit::{Attempts, Background, DraftBoard, Quarantine, Recent};
use tokio::sync::watch;

use crate::SlackConfig;
use crate::api::{Api, Done};
use crate::catch_up::SlackMarks;
use crate::doubt::Attempt;
use crate::draft::Draft;
use crate::error::fundamental;
use crate::fetch_queue::FetchQueue;
use crate::markup::Mrkdwn;
use crate::outbound::EDIT_LIMIT;
use crate::place::Directory;
use crate::reactions::Reactions;
use crate::thread::ThreadsWithContext;

/// How much visible text a message gets, in code points; Slack cuts at 40,000 with the markup.
const TEXT_LIMIT: usize = 39_000;

/// Number of envelopes that are known as dealt with.
const RECENT: usize = 4096;

/// How long the end of a run waits for its notes; losing them does no harm.
const LAST_NOTE: Duration = Duration::from_millis(500);

/// An app on Slack.
///
/// Made by [`crate::SlackFactory`], or by hand for programs that have no configuration file.
#[derive(Debug)]
pub struct SlackChannel {
    pub(crate) name: ChannelName,
    pub(crate) config: SlackConfig,
    pub(crate) api: Arc<Api>,
    /// Names of what was dealt with: Slack repeats what was not acknowledged in time, and a mention
    /// comes as two events.
    pub(crate) recent: Mutex<Recent<String>>,
    pub(crate) marks: SlackMarks,
    pub(crate) fetches: FetchQueue,
    pub(crate) threads_with_context: ThreadsWithContext,
    pub(crate) directory: Directory,
    pub(crate) drafts: DraftBoard<String>,
    /// Whether drafts are noted, so that a kill leaves none.
    pub(crate) may_draft: AtomicBool,
    pub(crate) attempts: Attempts<Attempt>,
    pub(crate) reactions: Reactions,
    pub(crate) quarantine: Quarantine,
    /// The app's own user, once Slack said who it is.
    pub(crate) bot_user: OnceLock<String>,
    /// Why Slack does not accept the bot's token any more, once it said so to a send.
    pub(crate) refused: watch::Sender<Option<String>>,
    background: Background,
}

impl SlackChannel {
    /// A channel by its configuration; `shared_proxy` counts when the configuration names none.
    /// Opens nothing.
    ///
    /// # Errors
    /// [`ChannelError::Config`] naming the key.
    pub fn new(
        name: ChannelName,
        config: SlackConfig,
        shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        let api = Arc::new(Api::new(&config, shared_proxy)?);
        Ok(Self {
            quarantine: Quarantine::new(name.clone()),
            name,
            config,
            api,
            recent: Mutex::new(Recent::new(RECENT)),
            marks: SlackMarks::default(),
            fetches: FetchQueue::default(),
            threads_with_context: ThreadsWithContext::default(),
            directory: Directory::default(),
            drafts: DraftBoard::new(Measure::CodePoints, EDIT_LIMIT),
            may_draft: AtomicBool::new(false),
            attempts: Attempts::default(),
            reactions: Reactions::default(),
            bot_user: OnceLock::new(),
            refused: watch::Sender::default(),
            background: Background::default(),
        })
    }

    pub(crate) fn recent(&self) -> MutexGuard<'_, Recent<String>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something beside receiving, while the channel runs. Otherwise it is not done.
    pub(crate) fn in_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.background.spawn(work);
    }

    /// Looks whether the bot's token still works, without waiting for it; receiving ends if not.
    pub(crate) fn check_token(&self) {
        let (api, refused) = (Arc::clone(&self.api), self.refused.clone());
        self.in_background(async move {
            if let Err(error) = api.ask::<Done>("auth.test", &[]).await
                && let ChannelError::Auth(why) = fundamental(error)
            {
                refused.send_replace(Some(why));
            }
        });
    }
}

#[async_trait]
impl Channel for SlackChannel {
    fn name(&self) -> &ChannelName {
        &self.name
    }

    async fn run(&self, context: ChannelContext) -> Result<(), ChannelError> {
        self.refused.send_replace(None);
        let context = self.quarantine.open(&context).await;
        let notes = context.notes.as_ref();
        self.fetches.clear();
        self.marks.open(notes).await;
        self.threads_with_context.open(notes).await;
        let receiving = async {
            tokio::select! {
                ended = self.receive(&context) => ended,
                () = self.marks.keep_written(notes) => Ok(()),
                () = self.threads_with_context.keep_written(notes) => Ok(()),
            }
        };
        let ended = self.background.during(&context, receiving).await;
        if context.cancel.is_cancelled() {
            self.quarantine.close().await;
        }
        let last_notes = async {
            tokio::join!(
                self.marks.write(notes),
                self.threads_with_context.write(notes)
            )
        };
        if tokio::time::timeout(LAST_NOTE, last_notes).await.is_err() {
            tracing::warn!(channel = %self.name, "there was no time to note what was heard last");
        }
        ended
    }

    async fn send(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let sent = self.send_part(part).await;
        if let Err(ChannelError::Auth(why)) = &sent {
            self.refused.send_replace(Some(why.clone()));
        }
        sent
    }

    /// What is open after a broken connection is looked for by its metadata.
    fn guarantee(&self) -> DeliveryGuarantee {
        DeliveryGuarantee::Detectable
    }

    fn text_style(&self) -> TextStyle {
        TextStyle {
            format: Format::Markup(&Mrkdwn),
            measure: Measure::CodePoints,
            limit: TEXT_LIMIT,
        }
    }

    fn drafts(&self) -> Option<&dyn Drafts> {
        self.config.streaming.then_some(self)
    }

    fn turn_ends(&self) -> Option<&dyn TurnEnds> {
        let reacts = !self.config.react_emoji.is_empty() || !self.config.done_emoji.is_empty();
        reacts.then_some(self)
    }

    fn probe(&self) -> Option<&dyn Probe> {
        Some(self)
    }
}

#[async_trait]
impl Drafts for SlackChannel {
    async fn append(&self, delta: &OutboundMessage) -> Result<(), ChannelError> {
        let OutboundKind::Delta { stream } = &delta.kind else {
            return Ok(());
        };
        if !(self.background.is_open() && self.may_draft.load(Ordering::Relaxed)) {
            return Ok(());
        }
        let place = self.place(&delta.chat_id, &delta.delivery).await?;
        if let Some(slot) = self.drafts.append(stream, &delta.content) {
            let draft = Draft {
                api: Arc::clone(&self.api),
                place,
            };
            self.in_background(slot.run(draft, self.config.edit_interval()));
        }
        Ok(())
    }

    async fn close(&self, end: &OutboundMessage) -> Result<(), ChannelError> {
        if let OutboundKind::StreamEnd { stream, resuming } = &end.kind {
            self.drafts.close(stream, *resuming).await;
        }
        Ok(())
    }

    async fn withdraw(
        &self,
        stream: &StreamId,
        _message: &OutboundMessage,
    ) -> Result<(), ChannelError> {
        self.drafts.withdraw(stream);
        Ok(())
    }
}

#[async_trait]
impl TurnEnds for SlackChannel {
    async fn ended(&self, end: &OutboundMessage) -> Result<(), ChannelError> {
        self.end_reactions(&end.chat_id, &end.delivery).await;
        Ok(())
    }
}

#[async_trait]
impl Probe for SlackChannel {
    async fn probe(&self) -> Result<String, ChannelError> {
        let me = self.identify().await.map_err(fundamental)?;
        Ok(format!("@{} in {}", me.name, me.team))
    }
}
