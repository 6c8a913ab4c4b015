//! Shows that the assistant is at work, from the acceptance of a message to the end of its turn,
//! across restarts.
//!
//! Decision: one small task per active chat keeps the typing indicator alive, and sends a notice
//! when a turn has shown nothing for long. The task ends with the last turn of its chat, however
//! that turn ends. It ends by itself when the turn has been silent for so long that its end must
//! have been lost. The number of chats is bounded; chats beyond it show no indicator, which is
//! harmless.

mod alive;
mod resumed;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nanobot_bus::Bus;
use nanobot_channel::{
    Channel, ChatId, DeliveryContext, InboundMessage, NoticeKind, OutboundKey, OutboundKind,
    OutboundMessage, OutboundSlot, TraceId,
};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::alive::Life;
use crate::ChannelSettings;

/// Maximum number of chats of a channel that show an indicator at a time.
const CHATS: usize = 64;
/// Maximum number of turns tracked per chat.
const TURNS: usize = 64;
/// Silence after which a turn counts as over.
const LONGEST_SILENCE: Duration = Duration::from_mins(10);
/// Slot of the notices that a turn is still at work.
const SLOT: OutboundSlot = OutboundSlot::Notice(NoticeKind::Working);
/// Interval between checks of the setting while notices are switched off.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// A chat, or a thread of it.
type ChatThread = (ChatId, Option<String>);

fn place(chat: &ChatId, delivery: &DeliveryContext) -> ChatThread {
    (chat.clone(), delivery.thread.clone())
}

/// The work in progress for one chat.
#[derive(Debug)]
struct ChatWork {
    /// The turns in progress, oldest first.
    turns: Vec<TraceId>,
    /// Signs of life of the oldest turn.
    life: Life,
    /// Ends the task.
    token: CancellationToken,
}

/// Keeps the indicators of one channel's active chats.
#[derive(Clone, Debug)]
pub(crate) struct WorkKeeper {
    pub(crate) channel: Arc<dyn Channel>,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) settings: watch::Receiver<ChannelSettings>,
    pub(crate) cancel: CancellationToken,
    pub(crate) tasks: TaskTracker,
    shown: Arc<Mutex<HashMap<ChatThread, ChatWork>>>,
}

impl WorkKeeper {
    pub(crate) fn new(
        channel: Arc<dyn Channel>,
        bus: Arc<dyn Bus>,
        settings: watch::Receiver<ChannelSettings>,
        cancel: CancellationToken,
        tasks: TaskTracker,
    ) -> Self {
        Self {
            channel,
            bus,
            settings,
            cancel,
            tasks,
            shown: Arc::default(),
        }
    }

    fn shown(&self) -> MutexGuard<'_, HashMap<ChatThread, ChatWork>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the turn of an accepted message.
    pub(crate) fn begin(&self, message: &InboundMessage) {
        let turn = message.turn_id();
        let place = place(&message.chat_id, &message.delivery);
        let token = self.cancel.child_token();
        {
            let mut shown = self.shown();
            if let Some(work) = shown.get_mut(&place) {
                if work.turns.len() < TURNS && !work.turns.contains(&turn) {
                    work.turns.push(turn);
                }
                return;
            }
            if shown.len() >= CHATS {
                return;
            }
            let work = ChatWork {
                turns: vec![turn.clone()],
                life: Life::begin(&message.content),
                token: token.clone(),
            };
            shown.insert(place.clone(), work);
        }
        let key = OutboundKey::new(turn, SLOT);
        let notice =
            OutboundMessage::in_reply_to(message, key, OutboundKind::Progress, String::new());
        let keeper = self.clone();
        self.tasks.spawn(async move {
            if token
                .run_until_cancelled(keeper.keep(&place, &notice))
                .await
                .is_some()
            {
                keeper.shown().remove(&place);
            }
        });
    }

    /// Ends a turn when it is over or its reply was sent.
    pub(crate) fn end(&self, message: &OutboundMessage) {
        self.end_turn(
            &place(&message.chat_id, &message.delivery),
            &message.key.turn,
        );
    }

    fn end_turn(&self, place: &ChatThread, turn: &TraceId) {
        let mut shown = self.shown();
        let Some(work) = shown.get_mut(place) else {
            return;
        };
        let was_oldest = work.turns.first() == Some(turn);
        work.turns.retain(|other| other != turn);
        if was_oldest {
            work.life.begin_again();
        }
        if work.turns.is_empty()
            && let Some(work) = shown.remove(place)
        {
            work.token.cancel();
        }
    }

    /// Records a message of a turn; `seen` is `true` if the message is shown.
    pub(crate) fn saw(&self, message: &OutboundMessage, seen: bool) {
        if message.key.position == SLOT.position() {
            return;
        }
        let place = place(&message.chat_id, &message.delivery);
        if let Some(work) = self
            .shown()
            .get_mut(&place)
            .filter(|work| work.turns.contains(&message.key.turn))
        {
            work.life.saw(message, seen);
        }
    }

    /// Shows that a chat is worked for, until the turn was silent for too long.
    async fn keep(&self, place: &ChatThread, notice: &OutboundMessage) {
        tokio::select! {
            () = self.type_on(notice) => {}
            () = self.say_so(place, notice) => {}
            () = self.wait_for_silence(place) => {}
        }
    }

    /// Waits until the turn has been silent for too long.
    async fn wait_for_silence(&self, place: &ChatThread) {
        loop {
            let Some(heard) = self.shown().get(place).map(|work| work.life.heard()) else {
                return;
            };
            if heard.elapsed() >= LONGEST_SILENCE {
                return;
            }
            tokio::time::sleep_until(heard + LONGEST_SILENCE).await;
        }
    }

    /// Keeps the typing indicator alive if the channel has one.
    async fn type_on(&self, notice: &OutboundMessage) {
        loop {
            let Some(typing) = self.channel.typing() else {
                return std::future::pending().await;
            };
            let pause = typing.lasts().mul_f64(0.8).max(Duration::from_secs(1));
            if let Err(error) = typing.show(&notice.chat_id, &notice.delivery).await {
                tracing::debug!(channel = %self.channel.name(), %error, "the typing indicator was not shown");
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Sends a notice now and then that the turn is alive, while nothing else shows it.
    async fn say_so(&self, place: &ChatThread, notice: &OutboundMessage) {
        loop {
            let after = {
                let settings = self.settings.borrow();
                settings
                    .delivery
                    .alive_notice()
                    .filter(|_| settings.delivery.send_progress)
            };
            let Some(after) = after else {
                tokio::time::sleep(LOOK_AGAIN).await;
                continue;
            };
            let Some(due) = self.shown().get(place).map(|work| work.life.due(after)) else {
                return;
            };
            if Instant::now() < due {
                tokio::time::sleep_until(due).await;
                continue;
            }
            let said = self.shown().get_mut(place).and_then(|work| {
                let turn = work.turns.first()?.clone();
                let (kind, content) = work.life.say();
                Some((OutboundKey::new(turn, SLOT), kind, content))
            });
            let Some((key, kind, content)) = said else {
                return;
            };
            self.bus.offer(OutboundMessage {
                key,
                kind,
                content,
                ..notice.clone()
            });
        }
    }
}
