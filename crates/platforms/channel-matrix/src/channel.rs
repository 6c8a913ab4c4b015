//! Matrix as a [`Platform`].

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nanobot_channel::{
    ChannelContext, ChannelError, ChatId, DeliveryContext, DeliveryGuarantee, Format, Measure,
    Notes, OutboundKind, OutboundMessage, OutboundPart, Sent, SignIn, TextStyle, TurnEnds, Typing,
    Value, async_trait,
};
use nanobot_channel_kit::{
    Attempts, BegunDraft, ChannelBase, Platform, PlatformChannel, PlatformFactory, Reactions,
    Recent, Rejection,
};
use reqwest::Method;
use serde_json::json;

use crate::MatrixConfig;
use crate::api::{Api, Path};
use crate::draft::MatrixDraft;
use crate::encryption::Encryption;
use crate::error::{CallError, required_call_error};
use crate::markup::MatrixHtml;
use crate::mention::OwnNames;
use crate::outgoing::Outgoing;
use crate::reaction::{MatrixReactor, emoji};
use crate::receipt::Receipts;
use crate::rooms::Rooms;
use crate::target::SendTarget;
use crate::wire::{cut, text};

/// Limit of the text of a message, in bytes. An event has at most 65,536, in which the text may be
/// twice, and encryption adds a third.
pub(crate) const TEXT_LIMIT: usize = 16_000;

/// Time in which a repeated transaction id of the same device has no second effect. Matrix names no
/// limit; Synapse forgets after half an hour.
const TRANSACTION_LASTS: Duration = Duration::from_mins(30);
/// Time that the homeserver shows the typing indicator.
const TYPING_TIMEOUT: Duration = Duration::from_secs(30);
/// Time after which it is shown again.
const TYPING_LASTS: Duration = Duration::from_secs(20);
/// Number of messages that are remembered as handled.
const RECENT: usize = 8192;
/// Number of own messages that are remembered, to which a reply counts as addressed.
const OWN_MESSAGES: usize = 4096;
/// Longest display name that is used, in bytes.
const NAME_LIMIT: usize = 100;

/// An account on Matrix, created by [`MatrixFactory`], or directly by a program without a
/// configuration file.
pub type MatrixChannel = PlatformChannel<Matrix>;

/// Creates [`MatrixChannel`]s.
pub type MatrixFactory = PlatformFactory<Matrix>;

/// The platform of a [`MatrixChannel`].
#[derive(Debug)]
pub struct Matrix {
    pub(crate) base: ChannelBase<String>,
    pub(crate) config: MatrixConfig,
    pub(crate) api: Arc<Api>,
    pub(crate) rooms: Arc<Rooms>,
    pub(crate) encryption: Arc<Encryption>,
    pub(crate) outgoing: Outgoing,
    pub(crate) reactions: Reactions<MatrixReactor>,
    pub(crate) receipts: Receipts,
    /// Number of files of a part that were sent.
    pub(crate) attempts: Attempts<usize>,
    pub(crate) rejection: Rejection,
    names: Mutex<OwnNames>,
    /// Handled messages: one may come with a sync and be fetched.
    recent: Mutex<Recent<String>>,
    own_messages: Mutex<Recent<String>>,
    /// Rooms in which the typing indicator may be shown.
    typing: Mutex<HashSet<String>>,
    /// Invitations that were logged.
    pub(crate) ignored_invites: Mutex<Recent<String>>,
}

impl Platform for Matrix {
    type Config = MatrixConfig;
    type Draft = MatrixDraft;
    const KIND: &'static str = "matrix";
    const TEXT_STYLE: TextStyle = TextStyle {
        format: Format::Markup(&MatrixHtml),
        measure: Measure::Bytes,
        limit: TEXT_LIMIT,
    };
    const GUARANTEE: DeliveryGuarantee = DeliveryGuarantee::Idempotent {
        window: Some(TRANSACTION_LASTS),
    };

    fn new(
        base: ChannelBase<String>,
        config: MatrixConfig,
        shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        let data_dir = base.data_dir.as_deref();
        let api = Arc::new(Api::new(&config, &base.name, data_dir, shared_proxy)?);
        let rooms = Arc::new(Rooms::default());
        let encryption = Arc::new(Encryption::new(&config, Arc::clone(&api)));
        let outgoing = Outgoing::new(
            Arc::clone(&api),
            Arc::clone(&rooms),
            Arc::clone(&encryption),
        );
        Ok(Self {
            reactions: Reactions::new(MatrixReactor::new(outgoing.clone()), emoji(&config)),
            base,
            config,
            api,
            rooms,
            encryption,
            outgoing,
            receipts: Receipts::default(),
            attempts: Attempts::default(),
            rejection: Rejection::default(),
            names: Mutex::default(),
            recent: Mutex::new(Recent::new(RECENT)),
            own_messages: Mutex::new(Recent::new(OWN_MESSAGES)),
            typing: Mutex::default(),
            ignored_invites: Mutex::new(Recent::new(OWN_MESSAGES)),
        })
    }

    fn base(&self) -> &ChannelBase<String> {
        &self.base
    }

    async fn open(self: &Arc<Self>, context: &ChannelContext) {
        self.rejection.clear();
        self.receipts.open();
        self.outgoing.open(&context.notes).await;
    }

    async fn receive(self: &Arc<Self>, context: &ChannelContext) -> Result<(), ChannelError> {
        tokio::select! {
            ended = self.receive_syncs(context) => ended,
            rejected = self.rejection.wait() => Err(rejected),
        }
    }

    async fn close(&self, _notes: &dyn Notes) {
        // Without syncs, it is not known whether a room became encrypted.
        self.rooms.forget_all();
        self.outgoing.write_encrypted().await;
        self.encryption.close().await;
    }

    async fn send(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let sent = self.send_part(part).await;
        let sent = sent.inspect_err(|error| self.rejection.observe(error))?;
        if let Some(id) = &sent.message_id {
            lock(&self.own_messages).insert(id.to_string());
        }
        let message = &part.message;
        let is_answer = match message.kind {
            OutboundKind::Final => true,
            OutboundKind::Notice => message.key.is_reply(),
            _ => false,
        };
        if is_answer && part.index + 1 == part.count {
            self.end_typing(&message.chat_id);
            let reactions = self.reactions.clone();
            let (chat, delivery) = (message.chat_id.clone(), message.delivery.clone());
            self.base.background.spawn(async move {
                reactions.end(&chat, &delivery).await;
            });
        }
        Ok(sent)
    }

    async fn account(&self) -> Result<String, ChannelError> {
        self.api.session().await.map_err(required_call_error)?;
        let session = self.api.identify().await.map_err(required_call_error)?;
        let name = self.display_name(&session.user_id).await;
        let name = name.unwrap_or_default();
        Ok(if name.is_empty() {
            session.user_id
        } else {
            format!("{name} ({})", session.user_id)
        })
    }

    fn edit_interval(&self) -> Option<Duration> {
        let interval = Duration::from_secs_f64(self.config.stream_edit_interval);
        self.config.streaming.then_some(interval)
    }

    async fn draft(
        &self,
        chat: &ChatId,
        delivery: &DeliveryContext,
    ) -> Result<Option<MatrixDraft>, ChannelError> {
        Ok(Some(MatrixDraft {
            outgoing: self.outgoing.clone(),
            target: SendTarget::new(chat, delivery)?,
        }))
    }

    fn orphaned_draft(&self, locator: Value) -> Option<(MatrixDraft, String)> {
        let (room, message): (String, String) = serde_json::from_value(locator).ok()?;
        Some((self.draft_in(room)?, message))
    }

    async fn begun_draft(
        &self,
        begun: BegunDraft,
    ) -> Result<Option<(MatrixDraft, String)>, ChannelError> {
        let Ok((room, key)) = serde_json::from_value::<(String, String)>(begun.intent) else {
            return Ok(None);
        };
        let Some(draft) = self.draft_in(room) else {
            return Ok(None);
        };
        let user = self.names().user_id;
        let found = self.outgoing.find_sent(&draft.target.room, &user, &key);
        let found = found.await.map_err(CallError::repeatable)?;
        Ok(found.map(|message| (draft, message)))
    }

    fn typing(&self) -> Option<&dyn Typing> {
        Some(self)
    }

    fn turn_ends(&self) -> Option<&dyn TurnEnds> {
        Some(self)
    }

    fn sign_in(&self) -> Option<&dyn SignIn> {
        Some(self)
    }
}

impl Matrix {
    pub(crate) fn recent(&self) -> MutexGuard<'_, Recent<String>> {
        lock(&self.recent)
    }

    /// `true` if the assistant sent an event, as far as it is remembered.
    pub(crate) fn is_own_message(&self, event: &str) -> bool {
        lock(&self.own_messages).contains(&event.to_owned())
    }

    /// Returns the names of the assistant.
    pub(crate) fn names(&self) -> OwnNames {
        lock(&self.names).clone()
    }

    /// Asks for the account and its name, at the begin of a run.
    pub(crate) async fn learn_names(&self) -> Result<OwnNames, CallError> {
        self.api.session().await?;
        let session = self.api.identify().await?;
        let names = OwnNames {
            display_name: self
                .display_name(&session.user_id)
                .await
                .unwrap_or_default(),
            user_id: session.user_id,
        };
        lock(&self.names).clone_from(&names);
        Ok(names)
    }

    /// Returns the place of a draft in a room.
    fn draft_in(&self, room: String) -> Option<MatrixDraft> {
        let target = SendTarget::new(&ChatId::from(room), &DeliveryContext::default()).ok()?;
        Some(MatrixDraft {
            outgoing: self.outgoing.clone(),
            target,
        })
    }

    async fn display_name(&self, user: &str) -> Option<String> {
        let path = ["_matrix", "client", "v3", "profile", user, "displayname"];
        let profile = self.api.call(Method::GET, Path::new(&path), None).await;
        let profile = profile.ok()?;
        Some(cut(text(&profile, "displayname"), NAME_LIMIT).to_owned())
    }

    /// Hides the typing indicator, in the background.
    fn end_typing(&self, chat: &ChatId) {
        if lock(&self.typing).remove(chat.as_str()) {
            let (api, user) = (Arc::clone(&self.api), self.names().user_id);
            let room = chat.to_string();
            self.base.background.spawn(async move {
                if let Err(error) = set_typing(&api, &user, &room, false).await {
                    tracing::debug!(%error, "the typing indicator cannot be hidden");
                }
            });
        }
    }
}

#[async_trait]
impl Typing for Matrix {
    fn lasts(&self) -> Duration {
        TYPING_LASTS
    }

    async fn show(&self, chat: &ChatId, delivery: &DeliveryContext) -> Result<(), ChannelError> {
        let room = SendTarget::new(chat, delivery)?.room;
        let user = match self.names().user_id {
            user if user.is_empty() => self.config.user_id.clone(),
            user => user,
        };
        lock(&self.typing).insert(room.clone());
        set_typing(&self.api, &user, &room, true)
            .await
            .map_err(CallError::repeatable)
    }
}

#[async_trait]
impl TurnEnds for Matrix {
    async fn ended(&self, end: &OutboundMessage) -> Result<(), ChannelError> {
        self.end_typing(&end.chat_id);
        self.reactions.ended(end).await
    }
}

async fn set_typing(api: &Api, user: &str, room: &str, is_typing: bool) -> Result<(), CallError> {
    let path = ["_matrix", "client", "v3", "rooms", room, "typing", user];
    let body = if is_typing {
        let timeout = u64::try_from(TYPING_TIMEOUT.as_millis()).unwrap_or(u64::MAX);
        json!({"typing": true, "timeout": timeout})
    } else {
        json!({"typing": false})
    };
    let shown = api.call(Method::PUT, Path::new(&path), Some(&body));
    shown.await.map(drop)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
