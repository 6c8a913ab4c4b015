use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use nanobot_channel::{
    ChannelName, Credential, DeliveryGuarantee, Format, Measure, OutboundPart, PlainText, Sent,
    TextStyle, Value,
};
use nanobot_testkit::Assistant;
use tokio::sync::Semaphore;

use super::*;
use crate::settings::{ConfigSection, Key};
use crate::{BackgroundWork, ChannelBase, DraftBoard, NoDraft, Quarantine};

/// The reason that a message under way gives for being degraded.
const WAITS: &str = "it waits";

/// A platform with numbers as events, all of one lane.
#[derive(Debug)]
struct Numbers {
    base: ChannelBase<()>,
    repeats: bool,
    /// The connections to come. There are no others.
    connections: Mutex<VecDeque<NumberConnection>>,
    /// Has a permit for each event that can be stored.
    storage: Semaphore,
    stored: Mutex<Vec<u32>>,
    rejection: Rejection,
}

/// The news of a connection. Nothing follows them.
#[derive(Debug)]
struct NumberConnection(VecDeque<Result<Pushed<u32>, PushEnd>>);

struct NoKeys;

impl ConfigSection for NoKeys {
    fn keys() -> Vec<Key> {
        Vec::new()
    }

    fn credentials() -> &'static [Credential] {
        &[]
    }

    fn from_section(_section: &Value) -> Result<Self, ChannelError> {
        Ok(Self)
    }
}

impl Platform for Numbers {
    type Config = NoKeys;
    type Draft = NoDraft;
    const KIND: &'static str = "numbers";
    const TEXT_STYLE: TextStyle = TextStyle {
        format: Format::Markup(&PlainText),
        measure: Measure::Bytes,
        limit: 1,
    };
    const GUARANTEE: DeliveryGuarantee = DeliveryGuarantee::BestEffort;

    fn new(
        base: ChannelBase<()>,
        _config: NoKeys,
        _shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        Ok(Self {
            base,
            repeats: false,
            connections: Mutex::default(),
            storage: Semaphore::new(0),
            stored: Mutex::default(),
            rejection: Rejection::default(),
        })
    }

    fn base(&self) -> &ChannelBase<()> {
        &self.base
    }

    async fn receive(self: &Arc<Self>, context: &ChannelContext) -> Result<(), ChannelError> {
        receive_pushed(self, context).await
    }

    async fn send(&self, _part: &OutboundPart) -> Result<Sent, ChannelError> {
        Err(gone())
    }

    async fn account(&self) -> Result<String, ChannelError> {
        Err(gone())
    }
}

impl PushPlatform for Numbers {
    const NAME: &'static str = "Numbers";
    type Connection = NumberConnection;

    async fn connect(
        self: &Arc<Self>,
        _context: &ChannelContext,
    ) -> Result<NumberConnection, ChannelError> {
        let mut connections = self
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        connections.pop_front().ok_or_else(gone)
    }

    fn lane(&self, _event: &u32) -> String {
        String::new()
    }

    async fn handle(&self, event: u32, context: &ChannelContext) -> ((), Next) {
        self.storage.acquire().await.unwrap().forget();
        context.progress.degraded(WAITS);
        self.stored.lock().unwrap().push(event);
        ((), Next::Confirm)
    }

    fn rejection(&self) -> &Rejection {
        &self.rejection
    }

    fn repeats_unconfirmed(&self) -> bool {
        self.repeats
    }
}

impl PushConnection for NumberConnection {
    type Event = u32;
    type Receipt = ();

    async fn next(&mut self) -> Result<Pushed<u32>, PushEnd> {
        match self.0.pop_front() {
            Some(news) => news,
            None => std::future::pending().await,
        }
    }

    async fn confirm(&mut self, _receipts: Vec<()>) -> Result<(), PushEnd> {
        Ok(())
    }
}

fn gone() -> ChannelError {
    ChannelError::Unavailable("gone".to_owned())
}

/// Returns a platform whose only connection brings these numbers, and then this end.
fn platform(numbers: impl IntoIterator<Item = u32>, end: Option<PushEnd>) -> Numbers {
    let name = ChannelName::from("numbers");
    let base = ChannelBase {
        quarantine: Quarantine::new(name.clone()),
        name,
        drafts: DraftBoard::new(Measure::Bytes, 1),
        background: BackgroundWork::default(),
        data_dir: None,
        opened_networks: Vec::new(),
    };
    let platform = Numbers::new(base, NoKeys, None).unwrap();
    let numbers = numbers.into_iter().map(|number| Ok(Pushed::Event(number)));
    let news = numbers.chain(end.map(Err)).collect();
    let connection = NumberConnection(news);
    platform.connections.lock().unwrap().push_back(connection);
    platform
}

fn conflict() -> PushEnd {
    PushEnd::Final(ChannelError::Conflict("another one".to_owned()))
}

#[tokio::test(start_paused = true)]
async fn events_that_are_not_repeated_are_stored_before_an_error() {
    let lost = PushEnd::Lost("cut".to_owned());
    let table = [
        (Some(conflict()), false, conflict_text()),
        (Some(lost), false, gone().to_string()),
        // All events are at hand when the credentials are refused, more than may wait at a time.
        (None, true, ChannelError::Auth("no".to_owned()).to_string()),
    ];
    for (end, is_rejected, expected) in table {
        let assistant = Arc::new(Assistant::new("-"));
        let (platform, context) = (Arc::new(platform(0..300, end)), assistant.context());
        if is_rejected {
            let refusal = ChannelError::Auth("no".to_owned());
            platform.rejection.observe(&refusal);
        }
        let store = async {
            // The end follows more events than may wait at a time.
            if !is_rejected {
                platform.storage.add_permits(100);
            }
            let is_shown = |why: &String| *why == expected;
            assistant
                .wait_until(&expected, |seen| seen.degraded.iter().any(is_shown))
                .await
                .unwrap();
            platform.storage.add_permits(300);
        };
        let (outcome, ()) = tokio::join!(receive_pushed(&platform, &context), store);
        assert_eq!(outcome.unwrap_err().to_string(), expected);
        let stored = platform.stored.lock().unwrap().clone();
        assert_eq!(stored, (0..300).collect::<Vec<u32>>(), "{expected}");
        // The error stays shown, whatever the work under way reports.
        assert_eq!(assistant.seen().degraded.last(), Some(&expected));
    }
}

fn conflict_text() -> String {
    ChannelError::Conflict("another one".to_owned()).to_string()
}

#[tokio::test(start_paused = true)]
async fn error_does_not_wait_for_events_that_are_repeated_or_cannot_be_stored() {
    for repeats in [true, false] {
        let assistant = Arc::new(Assistant::new("-"));
        let mut platform = platform(0..3, Some(conflict()));
        platform.repeats = repeats;
        let (platform, context) = (Arc::new(platform), assistant.context());
        let outcome = receive_pushed(&platform, &context);
        let outcome = tokio::time::timeout(FINISH_TIMEOUT * 2, outcome).await;
        assert_eq!(outcome.unwrap().unwrap_err().to_string(), conflict_text());
        let is_shown = assistant.seen().degraded.contains(&conflict_text());
        assert_eq!(is_shown, !repeats);
        assert_eq!(*platform.stored.lock().unwrap(), Vec::<u32>::new());
    }
}
