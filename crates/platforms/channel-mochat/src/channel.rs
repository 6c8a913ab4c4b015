//! Mochat as a [`Platform`].

use std::sync::Arc;

use nanobot_channel::{
    ChannelContext, ChannelError, DeliveryGuarantee, EarlierNote, Format, Measure, Notes,
    OutboundPart, Sent, TextStyle,
};
use nanobot_channel_kit::{
    ChannelBase, NoDraft, Noted as _, Platform, PlatformChannel, PlatformFactory, Rejection,
    Trouble, push,
};

use crate::MochatConfig;
use crate::api::Api;
use crate::error::required_call_error;
use crate::positions::Positions;
use crate::targets::Targets;

/// Limit of a text, in characters. Mochat names none.
pub(crate) const TEXT_LIMIT: usize = 4000;

/// An agent at Mochat, created by [`MochatFactory`], or directly by a program without a
/// configuration file.
pub type MochatChannel = PlatformChannel<Mochat>;

/// Creates [`MochatChannel`]s.
pub type MochatFactory = PlatformFactory<Mochat>;

/// The platform of a [`MochatChannel`].
#[derive(Debug)]
pub struct Mochat {
    pub(crate) base: ChannelBase<()>,
    pub(crate) config: MochatConfig,
    pub(crate) api: Api,
    pub(crate) targets: Targets,
    pub(crate) rejection: Rejection,
    /// The reason why messages are polled.
    pub(crate) trouble: Arc<Trouble>,
}

impl Platform for Mochat {
    type Config = MochatConfig;
    type Draft = NoDraft;
    const KIND: &'static str = "mochat";
    /// Which messages of groups are answered is decided by `mention`, `groups` and
    /// `replyDelayMode`, as in the Python program.
    const GROUP_POLICY: &'static str = "open";
    const EARLIER_NOTES: &'static [EarlierNote] = &[EarlierNote {
        note: Positions::NAME,
        file: "mochat/session_cursors.json",
    }];
    const TEXT_STYLE: TextStyle = TextStyle {
        format: Format::Markdown,
        measure: Measure::CodePoints,
        limit: TEXT_LIMIT,
    };
    const GUARANTEE: DeliveryGuarantee = DeliveryGuarantee::BestEffort;

    fn new(
        base: ChannelBase<()>,
        config: MochatConfig,
        shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        Ok(Self {
            base,
            api: Api::new(&config, shared_proxy)?,
            targets: Targets::new(&config),
            config,
            rejection: Rejection::default(),
            trouble: Arc::default(),
        })
    }

    fn base(&self) -> &ChannelBase<()> {
        &self.base
    }

    async fn open(self: &Arc<Self>, context: &ChannelContext) {
        self.rejection.clear();
        self.trouble.set(None);
        self.targets.open(context.notes.as_ref()).await;
    }

    async fn receive(self: &Arc<Self>, context: &ChannelContext) -> Result<(), ChannelError> {
        let context = ChannelContext {
            progress: self.trouble.wrap(&context.progress),
            ..context.clone()
        };
        tokio::select! {
            ended = push::receive_pushed(self, &context) => ended,
            () = self.targets.write_soon(context.notes.as_ref()) => Ok(()),
        }
    }

    async fn close(&self, notes: &dyn Notes) {
        self.targets.write(notes).await;
    }

    async fn send(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let sent = self.send_part(part).await;
        sent.inspect_err(|error| self.rejection.observe(error))
    }

    async fn account(&self) -> Result<String, ChannelError> {
        self.config.check_targets()?;
        let listed = self.api.directory(false).await;
        listed.map_err(required_call_error)?;
        // No call tells the agent of a token.
        let agent = &self.config.agent_user_id;
        Ok(format!(
            "{agent} (the token is accepted; Mochat cannot confirm agentUserId)"
        ))
    }
}
