//! The parts of [`Channel`] and [`ChannelFactory`] that are the same on every platform.
//!
//! Decision: a platform implements [`Platform`] with native `async fn`, and [`PlatformChannel`]
//! derives the contract from it: quarantine, background work, drafts and last notes are wired here
//! once. A platform with another structure implements the contract directly and uses the parts of
//! this crate alone.

use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use nanobot_channel::{
    Channel, ChannelContext, ChannelError, ChannelFactory, ChannelName, ChatId, Credential,
    DeliveryContext, DeliveryGuarantee, Drafts, EarlierNote, Notes, OutboundKind, OutboundMessage,
    OutboundPart, Probe, RawConfig, Sent, SignIn, StreamId, TextStyle, TurnEnds, Typing, Value,
    async_trait,
};

use crate::settings::{ConfigSection, default_section, section_schema};
use crate::{
    BackgroundWork, BegunDraft, CallError, DraftBoard, DraftPlace, OrphanedDraft, Quarantine,
    repeatable, wrong,
};

/// Time for the notes at the end of a run; losing them does no harm.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// The name of a message, as drafts of the platform use it.
pub type DraftMessage<P> = <<P as Platform>::Draft as DraftPlace>::Message;

/// A message of an earlier process, in its place.
pub type EarlierDraft<P> = (<P as Platform>::Draft, DraftMessage<P>);

/// Code that only the platform knows.
pub trait Platform: std::fmt::Debug + Send + Sync + Sized + 'static {
    /// The section of the configuration.
    type Config: ConfigSection;
    /// The place of a draft; [`NoDraft`](crate::NoDraft) for a platform without.
    type Draft: DraftPlace;
    /// The name of the platform (`telegram`).
    const KIND: &'static str;
    /// The markup and the limit of one part.
    const TEXT_STYLE: TextStyle;
    /// The largest draft, in the measure of [`Self::TEXT_STYLE`].
    const DRAFT_LIMIT: usize = Self::TEXT_STYLE.limit;
    /// The guarantee for a part that is sent twice.
    const GUARANTEE: DeliveryGuarantee;
    /// `groupPolicy` in the section of a new configuration.
    const GROUP_POLICY: &'static str = "mention";
    /// Notes that begin with files of the Python program.
    const EARLIER_NOTES: &'static [EarlierNote] = &[];

    /// Creates the platform. Does no I/O. `shared_proxy` applies if the configuration names no
    /// proxy.
    ///
    /// # Errors
    /// [`ChannelError::Config`] naming the key.
    fn new(
        base: ChannelBase<DraftMessage<Self>>,
        config: Self::Config,
        shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError>;

    /// Returns the base that [`Self::new`] was given.
    fn base(&self) -> &ChannelBase<DraftMessage<Self>>;

    /// Prepares a run: reads notes, and [recovers drafts](Self::recover_drafts) if the account is
    /// known.
    fn open(self: &Arc<Self>, _context: &ChannelContext) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Receives until the channel cannot go on. Dropped when the run is cancelled.
    ///
    /// # Errors
    /// The reason why the channel cannot receive.
    fn receive(
        self: &Arc<Self>,
        context: &ChannelContext,
    ) -> impl Future<Output = Result<(), ChannelError>> + Send;

    /// Writes the last notes of a run, for at most half a second.
    fn close(&self, _notes: &dyn Notes) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Sends one part.
    ///
    /// # Errors
    /// As [`Channel::send`].
    fn send(&self, part: &OutboundPart) -> impl Future<Output = Result<Sent, ChannelError>> + Send;

    /// Asks the platform for the account of the credentials (`@bot`).
    ///
    /// # Errors
    /// As [`Probe::probe`].
    fn account(&self) -> impl Future<Output = Result<String, ChannelError>> + Send;

    /// Returns the shortest time between two edits of a draft; `None` if no drafts are shown.
    fn edit_interval(&self) -> Option<Duration> {
        None
    }

    /// Returns the place of a new draft; `None` if there is none in this chat.
    ///
    /// # Errors
    /// The reason why the chat cannot be written to.
    fn draft(
        &self,
        _chat: &ChatId,
        _delivery: &DeliveryContext,
    ) -> impl Future<Output = Result<Option<Self::Draft>, ChannelError>> + Send {
        async { Ok(None) }
    }

    /// Takes the draft of a reply: its message becomes the reply. After a restart, returns the
    /// message that became the reply in an earlier process. `None` for parts without a draft.
    fn claim_draft(
        &self,
        part: &OutboundPart,
    ) -> impl Future<Output = Option<DraftMessage<Self>>> + Send {
        async move {
            let stream = part.message.completes.as_ref()?;
            if part.index > 0 {
                return None;
            }
            let (drafts, key) = (&self.base().drafts, part.message.key.to_string());
            if let Some(message) = drafts.claim(stream, &key).await {
                return Some(message);
            }
            let (_, message) = self.orphaned_draft(drafts.claimed_by(&key).await?)?;
            Some(message)
        }
    }

    /// Notes that a reply is sent as a new message, because its draft does not become it. For
    /// platforms that do not drop repeated sends.
    ///
    /// # Errors
    /// [`CallError::Unreachable`] if the note cannot be written: after a kill, the reply would be
    /// sent twice.
    fn give_up_draft<R>(
        &self,
        part: &OutboundPart,
    ) -> impl Future<Output = Result<(), CallError<R>>> + Send {
        async move {
            let key = part.message.key.to_string();
            if self.base().drafts.give_up(&key).await {
                return Ok(());
            }
            let why = "the note of a reply cannot be written";
            Err(CallError::Unreachable(why.to_owned()))
        }
    }

    /// Returns the place and the name of an orphaned draft from its [locator](DraftPlace::locator).
    fn orphaned_draft(&self, _locator: Value) -> Option<EarlierDraft<Self>> {
        None
    }

    /// Finds the message of a killed process by its [intent](DraftPlace::intent): by a search, or
    /// by sending it once more with its key, where the platform drops such a repetition and names
    /// the first message. `None` if there is none, or if it cannot be found any more.
    ///
    /// # Errors
    /// The reason why it is unknown; the next start is another attempt.
    fn begun_draft(
        &self,
        _begun: BegunDraft,
    ) -> impl Future<Output = Result<Option<EarlierDraft<Self>>, ChannelError>> + Send {
        async { Ok(None) }
    }

    /// Deletes the drafts that a killed process left, and records drafts from now on. Until then
    /// none are shown. `account` is the platform's name for the sender: drafts of another one are
    /// left alone.
    fn recover_drafts(
        self: &Arc<Self>,
        account: &str,
        context: &ChannelContext,
    ) -> impl Future<Output = ()> + Send {
        let platform = Arc::clone(self);
        let delete = move |orphan: OrphanedDraft| {
            let platform = Arc::clone(&platform);
            async move {
                let found = match orphan {
                    OrphanedDraft::Known(locator) => platform.orphaned_draft(locator),
                    OrphanedDraft::Begun(begun) => platform.begun_draft(begun).await?,
                };
                match found {
                    Some((place, message)) => place.remove(&message).await.map_err(repeatable),
                    None => Ok(()),
                }
            }
        };
        async move { self.base().drafts.recover(context, account, delete).await }
    }

    /// Returns the typing indicator, if there is one.
    fn typing(&self) -> Option<&dyn Typing> {
        None
    }

    /// Returns the receiver of turn ends, such as [`Reactions`](crate::Reactions).
    fn turn_ends(&self) -> Option<&dyn TurnEnds> {
        None
    }

    /// Returns the login in which a person acts on the platform, if there is one.
    fn sign_in(&self) -> Option<&dyn SignIn> {
        None
    }
}

/// The key of [`RawConfig::opened_networks`].
const NETWORKS_KEY: &str = "tools.ssrfWhitelist";

/// State that every platform has.
#[derive(Debug)]
pub struct ChannelBase<M> {
    /// The configured name.
    pub name: ChannelName,
    /// Attempts at received messages.
    pub quarantine: Quarantine,
    /// Replies that are shown while they are written.
    pub drafts: DraftBoard<M>,
    /// Work that runs concurrently with receiving.
    pub background: BackgroundWork,
    /// The folder of the program's data, in which the platform may have a folder of its own.
    pub data_dir: Option<PathBuf>,
    /// Private networks in which files may be, for [`Downloads`](crate::Downloads).
    pub opened_networks: Vec<IpNet>,
}

/// The channel of a platform.
#[derive(Debug)]
pub struct PlatformChannel<P>(Arc<P>);

impl<P: Platform> PlatformChannel<P> {
    /// Creates a channel from its configuration, without a folder for its files. Does no I/O.
    /// `shared_proxy` applies if the configuration names no proxy.
    ///
    /// # Errors
    /// [`ChannelError::Config`] naming the key.
    pub fn new(
        name: ChannelName,
        config: P::Config,
        shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        let shared = RawConfig {
            proxy: shared_proxy.map(str::to_owned),
            ..RawConfig::new(Value::Null)
        };
        Self::with_shared(name, config, &shared)
    }

    /// Creates a channel as [`Self::new`] does, with the settings that all channels share.
    fn with_shared(
        name: ChannelName,
        config: P::Config,
        shared: &RawConfig,
    ) -> Result<Self, ChannelError> {
        let networks = shared.opened_networks.iter().map(|network| {
            let unusable = |_| {
                wrong(
                    NETWORKS_KEY,
                    &format!("`{network}` is not a network such as 192.168.1.0/24"),
                )
            };
            network.parse().map_err(unusable)
        });
        let base = ChannelBase {
            quarantine: Quarantine::new(name.clone()),
            name,
            drafts: DraftBoard::new(P::TEXT_STYLE.measure, P::DRAFT_LIMIT),
            background: BackgroundWork::default(),
            data_dir: shared.data_dir.clone(),
            opened_networks: networks.collect::<Result<_, _>>()?,
        };
        let proxy = shared.proxy.as_deref();
        Ok(Self(Arc::new(P::new(base, config, proxy)?)))
    }
}

impl<P: Platform> PlatformChannel<P> {
    /// Refuses a part whose earlier attempts cannot be judged. At the begin of a program, waits for
    /// the notes about drafts.
    async fn check_doubt(&self, part: &OutboundPart) -> Result<(), ChannelError> {
        let drafts = &self.0.base().drafts;
        let message = &part.message;
        let may_be_draft =
            part.index == 0 && message.completes.is_some() && self.0.edit_interval().is_some();
        if may_be_draft {
            drafts.wait_until_recorded().await;
        }
        if !part.in_doubt || P::GUARANTEE != DeliveryGuarantee::BestEffort {
            return Ok(());
        }
        let key = message.key.to_string();
        // Files are sent before the text, and again with it.
        if may_be_draft && message.media.is_empty() && drafts.claimed_by(&key).await.is_some() {
            return Ok(());
        }
        let why = format!(
            "sending part {} was interrupted: the platform may have it",
            part.index + 1
        );
        Err(ChannelError::Ambiguous(why))
    }
}

#[async_trait]
impl<P: Platform> Channel for PlatformChannel<P> {
    fn name(&self) -> &ChannelName {
        &self.0.base().name
    }

    async fn run(&self, context: ChannelContext) -> Result<(), ChannelError> {
        let ChannelBase {
            name,
            quarantine,
            background,
            ..
        } = self.0.base();
        self.0.open(&context).await;
        let context = quarantine.open(&context).await;
        let outcome = background.during(&context, self.0.receive(&context)).await;
        if context.cancel.is_cancelled() {
            quarantine.close().await;
        }
        let last_notes = self.0.close(context.notes.as_ref());
        if tokio::time::timeout(CLOSE_TIMEOUT, last_notes)
            .await
            .is_err()
        {
            tracing::warn!(channel = %name, "the last notes of a run could not be written in time");
        }
        outcome
    }

    async fn send(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        self.check_doubt(part).await?;
        self.0.send(part).await
    }

    fn guarantee(&self) -> DeliveryGuarantee {
        match P::GUARANTEE {
            DeliveryGuarantee::BestEffort if self.0.edit_interval().is_some() => {
                DeliveryGuarantee::PartlyDetectable
            }
            guarantee => guarantee,
        }
    }

    fn text_style(&self) -> TextStyle {
        P::TEXT_STYLE
    }

    fn drafts(&self) -> Option<&dyn Drafts> {
        self.0.edit_interval().is_some().then_some(self)
    }

    fn typing(&self) -> Option<&dyn Typing> {
        self.0.typing()
    }

    fn turn_ends(&self) -> Option<&dyn TurnEnds> {
        self.0.turn_ends()
    }

    fn probe(&self) -> Option<&dyn Probe> {
        Some(self)
    }

    fn sign_in(&self) -> Option<&dyn SignIn> {
        self.0.sign_in()
    }
}

#[async_trait]
impl<P: Platform> Drafts for PlatformChannel<P> {
    async fn append(&self, delta: &OutboundMessage) -> Result<(), ChannelError> {
        let base = self.0.base();
        let (OutboundKind::Delta { stream }, Some(interval)) =
            (&delta.kind, self.0.edit_interval())
        else {
            return Ok(());
        };
        if !(base.background.is_open() && base.drafts.is_recorded()) {
            return Ok(());
        }
        let draft = self.0.draft(&delta.chat_id, &delta.delivery).await?;
        if let Some(draft) = draft
            && let Some(slot) = base.drafts.append(stream, &delta.content)
        {
            let interval = draft.interval(interval);
            base.background.spawn(slot.run(draft, interval));
        }
        Ok(())
    }

    async fn close(&self, end: &OutboundMessage) -> Result<(), ChannelError> {
        if let OutboundKind::StreamEnd { stream, resuming } = &end.kind {
            self.0.base().drafts.close(stream, *resuming).await;
        }
        Ok(())
    }

    async fn withdraw(
        &self,
        stream: &StreamId,
        _message: &OutboundMessage,
    ) -> Result<(), ChannelError> {
        self.0.base().drafts.withdraw(stream);
        Ok(())
    }
}

#[async_trait]
impl<P: Platform> Probe for PlatformChannel<P> {
    async fn probe(&self) -> Result<String, ChannelError> {
        self.0.account().await
    }
}

/// Creates the channels of a platform from their sections.
#[derive(Debug)]
pub struct PlatformFactory<P>(PhantomData<fn() -> P>);

impl<P> PlatformFactory<P> {
    /// Creates the factory.
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<P> Default for PlatformFactory<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> ChannelFactory for PlatformFactory<P> {
    fn kind(&self) -> &'static str {
        P::KIND
    }

    /// Includes `groupPolicy`, but neither `allowFrom` nor `groupAllowFrom`: an empty list admits
    /// no one.
    fn default_config(&self) -> Value {
        let mut section = default_section(P::Config::keys());
        section.insert("groupPolicy".to_owned(), P::GROUP_POLICY.into());
        section.into()
    }

    fn config_schema(&self) -> Option<Value> {
        Some(section_schema(P::Config::keys()))
    }

    fn credentials(&self) -> &'static [Credential] {
        P::Config::credentials()
    }

    fn earlier_notes(&self) -> &'static [EarlierNote] {
        P::EARLIER_NOTES
    }

    fn create(
        &self,
        name: ChannelName,
        config: &RawConfig,
    ) -> Result<Arc<dyn Channel>, ChannelError> {
        let section = P::Config::from_section(&config.section)?;
        let channel = PlatformChannel::<P>::with_shared(name, section, config)?;
        Ok(Arc::new(channel))
    }
}
