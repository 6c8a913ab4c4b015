//! Shows that the assistant is at work, from the acceptance of a message to the end of its turn,
//! across restarts.
//!
//! Decision: one small task per active chat keeps the typing indicator alive, and sends a notice
//! when a turn has shown nothing for long. The task ends with the last turn of its chat, however
//! that turn ends. It ends by itself when the turn has been silent for so long that its end must
//! have been lost. The number of chats is bounded; chats beyond it show no indicator, which is
//! harmless.

mod activity;
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

use self::activity::TurnActivity;
use crate::ChannelSettings;

/// Maximum number of chats of a channel that show an indicator at a time.
const MAX_CHATS: usize = 64;
/// Maximum number of turns tracked per chat.
const MAX_TURNS: usize = 64;
/// Silence after which a turn counts as over.
const SILENCE_LIMIT: Duration = Duration::from_mins(10);
/// Slot of the notices that a turn is still at work.
const NOTICE_SLOT: OutboundSlot = OutboundSlot::Notice(NoticeKind::Working);
/// Interval between checks of the setting while notices are switched off.
const SETTING_POLL_INTERVAL: Duration = Duration::from_mins(1);

/// A chat, or a thread of it.
type ChatThread = (ChatId, Option<String>);

fn chat_thread(chat: &ChatId, delivery: &DeliveryContext) -> ChatThread {
    (chat.clone(), delivery.thread.clone())
}

/// The work in progress for one chat.
#[derive(Debug)]
struct ChatWork {
    /// The turns in progress, oldest first.
    turns: Vec<TraceId>,
    /// Signs of life of the oldest turn.
    activity: TurnActivity,
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
        let chat_thread = chat_thread(&message.chat_id, &message.delivery);
        let token = self.cancel.child_token();
        {
            let mut shown = self.shown();
            if let Some(work) = shown.get_mut(&chat_thread) {
                if work.turns.len() < MAX_TURNS && !work.turns.contains(&turn) {
                    work.turns.push(turn);
                }
                return;
            }
            if shown.len() >= MAX_CHATS {
                return;
            }
            let work = ChatWork {
                turns: vec![turn.clone()],
                activity: TurnActivity::begin(&message.content),
                token: token.clone(),
            };
            shown.insert(chat_thread.clone(), work);
        }
        let key = OutboundKey::new(turn, NOTICE_SLOT);
        let notice =
            OutboundMessage::in_reply_to(message, key, OutboundKind::Progress, String::new());
        let keeper = self.clone();
        self.tasks.spawn(async move {
            if token
                .run_until_cancelled(keeper.run_indicators(&chat_thread, &notice))
                .await
                .is_some()
            {
                keeper.shown().remove(&chat_thread);
            }
        });
    }

    /// Ends a turn when it is over or its reply was sent.
    pub(crate) fn end(&self, message: &OutboundMessage) {
        self.end_turn(
            &chat_thread(&message.chat_id, &message.delivery),
            &message.key.turn,
        );
    }

    fn end_turn(&self, chat_thread: &ChatThread, turn: &TraceId) {
        let mut shown = self.shown();
        let Some(work) = shown.get_mut(chat_thread) else {
            return;
        };
        let was_oldest = work.turns.first() == Some(turn);
        work.turns.retain(|other| other != turn);
        if was_oldest {
            work.activity.restart();
        }
        if work.turns.is_empty()
            && let Some(work) = shown.remove(chat_thread)
        {
            work.token.cancel();
        }
    }

    /// Records a message of a turn; `seen` is `true` if the message is shown.
    pub(crate) fn record(&self, message: &OutboundMessage, seen: bool) {
        if message.key.position == NOTICE_SLOT.position() {
            return;
        }
        let chat_thread = chat_thread(&message.chat_id, &message.delivery);
        if let Some(work) = self
            .shown()
            .get_mut(&chat_thread)
            .filter(|work| work.turns.contains(&message.key.turn))
        {
            work.activity.record(message, seen);
        }
    }

    /// Shows that a chat is worked for, until the turn was silent for too long.
    async fn run_indicators(&self, chat_thread: &ChatThread, notice: &OutboundMessage) {
        tokio::select! {
            () = self.refresh_typing(notice) => {}
            () = self.send_alive_notices(chat_thread, notice) => {}
            () = self.wait_for_silence(chat_thread) => {}
        }
    }

    /// Waits until the turn has been silent for too long.
    async fn wait_for_silence(&self, chat_thread: &ChatThread) {
        loop {
            let Some(last_activity) = self
                .shown()
                .get(chat_thread)
                .map(|work| work.activity.last_activity())
            else {
                return;
            };
            if last_activity.elapsed() >= SILENCE_LIMIT {
                return;
            }
            tokio::time::sleep_until(last_activity + SILENCE_LIMIT).await;
        }
    }

    /// Keeps the typing indicator alive if the channel has one.
    async fn refresh_typing(&self, notice: &OutboundMessage) {
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
    async fn send_alive_notices(&self, chat_thread: &ChatThread, notice: &OutboundMessage) {
        loop {
            let after = {
                let settings = self.settings.borrow();
                settings
                    .delivery
                    .alive_notice()
                    .filter(|_| settings.delivery.send_progress)
            };
            let Some(after) = after else {
                tokio::time::sleep(SETTING_POLL_INTERVAL).await;
                continue;
            };
            let Some(next_due) = self
                .shown()
                .get(chat_thread)
                .map(|work| work.activity.next_due(after))
            else {
                return;
            };
            if Instant::now() < next_due {
                tokio::time::sleep_until(next_due).await;
                continue;
            }
            let said = self.shown().get_mut(chat_thread).and_then(|work| {
                let turn = work.turns.first()?.clone();
                let (kind, content) = work.activity.next_notice();
                Some((OutboundKey::new(turn, NOTICE_SLOT), kind, content))
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
