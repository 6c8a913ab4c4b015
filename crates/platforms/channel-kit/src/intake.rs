//! From a candidate message to the assistant: access, files, text, delivery, retries.
//!
//! Decision: the order is the same for every platform. A platform reads a wire event into a
//! [`CandidateMessage`] without fetching anything, and implements [`IntakeSource`] for its own
//! steps. The attempt of a message in the [quarantine](crate::Quarantine) ends when the message is
//! composed, because later failures are not caused by its content.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nanobot_channel::{
    AccessDecision, Admission, Arrival, ChannelContext, ChannelName, ChatId, ChatKind,
    DeliveryContext, InboundMessage, Map, MessageId, SenderId, SessionKey,
};

use crate::attachment::{Attachment, FetchError};
use crate::call::Refusal;
use crate::{Handling, backoff};

/// The first pause before an unstored message is offered again.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The consequence of an event for its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It was handled: confirm it to the platform.
    Confirm,
    /// The run ends: the event stays with the platform.
    Stop,
}

/// A message that may be for the assistant; nothing has been fetched for it yet.
#[derive(Clone, Debug)]
pub struct CandidateMessage<O> {
    /// The author.
    pub sender: SenderId,
    /// The chat.
    pub chat: ChatId,
    /// The kind of its arrival.
    pub arrival: Arrival,
    /// The platform's id, by which a repetition is recognised.
    pub id: MessageId,
    /// Its content, in the order of the text.
    pub pieces: Vec<Piece>,
    /// Facts for tools and logs.
    pub metadata: Map,
    /// The session, where it is not that of the chat.
    pub session: Option<SessionKey>,
    /// The address of the reply.
    pub delivery: DeliveryContext,
    /// Facts that the platform needs after the delivery.
    pub origin: O,
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text. Blank text is left out.
    Text(String),
    /// A file, shown by its marker.
    File(Attachment),
    /// A file without a place in the text, such as the picture of a quoted message.
    Hidden(Attachment),
    /// A file with its marker between two texts.
    Framed(String, Attachment, &'static str),
}

/// A platform's side of the intake.
pub trait IntakeSource: Sync {
    /// Facts of an event that the platform needs after its delivery.
    type Origin: Send + Sync;
    /// The platform's refusals of downloads.
    type Refusal: Refusal;
    /// The reason for `degraded` while messages cannot be stored.
    const WAITING_NOTICE: &'static str = "messages cannot be stored now; they wait";

    /// Returns the name of the channel.
    fn name(&self) -> &ChannelName;

    /// Downloads a file, at most the [limit](nanobot_channel::MediaStore::limit) of it.
    fn fetch(
        &self,
        file: &Attachment,
        context: &ChannelContext,
    ) -> impl Future<Output = Result<Vec<u8>, FetchError<Self::Refusal>>> + Send;

    /// Sends a notice to a stranger in a direct chat.
    fn send_notice(
        &self,
        candidate: &CandidateMessage<Self::Origin>,
        text: String,
    ) -> impl Future<Output = ()> + Send;

    /// Called if the sender is allowed, before anything is fetched. Returns pieces that precede the
    /// content, such as a quoted message.
    fn on_allowed(
        &self,
        _candidate: &CandidateMessage<Self::Origin>,
        _context: &ChannelContext,
    ) -> impl Future<Output = Vec<Piece>> + Send {
        async { Vec::new() }
    }

    /// Called after a message was offered; `admission` is neither [`Admission::TryLater`] nor
    /// [`Admission::ShuttingDown`].
    fn on_delivered(&self, _candidate: &CandidateMessage<Self::Origin>, _admission: Admission) {}

    /// Returns the marker of a file that could not be stored.
    fn failure_marker(&self, file: &Attachment, _error: &FetchError<Self::Refusal>) -> String {
        format!("[{}: download failed]", file.kind)
    }

    /// Returns the number of messages that wait to be stored, where the platform shows it.
    fn waiting(&self) -> Option<&AtomicUsize> {
        None
    }
}

/// Checks access, composes the message of a candidate and delivers it. `handling` ends when the
/// message is composed, or with this call.
pub async fn accept<S: IntakeSource>(
    source: &S,
    candidate: &CandidateMessage<S::Origin>,
    handling: Option<Handling<'_>>,
    context: &ChannelContext,
) -> Next {
    let notify = |text| source.send_notice(candidate, text);
    let (sender, chat, arrival) = (&candidate.sender, &candidate.chat, &candidate.arrival);
    let message = if has_access(context, sender, chat, arrival, notify).await {
        let before = source.on_allowed(candidate, context).await;
        Some(compose(source, candidate, &before, context).await)
    } else {
        None
    };
    if let Some(handling) = handling {
        handling.end().await;
    }
    let Some(message) = message else {
        return Next::Confirm;
    };
    match deliver(
        context,
        message,
        arrival,
        S::WAITING_NOTICE,
        source.waiting(),
    )
    .await
    {
        Admission::ShuttingDown | Admission::TryLater => Next::Stop,
        admission => {
            source.on_delivered(candidate, admission);
            Next::Confirm
        }
    }
}

/// Asks [`nanobot_channel::Access`], and sends the text of [`AccessDecision::Ask`] to a stranger in
/// a direct chat.
pub async fn has_access<F: Future<Output = ()>>(
    context: &ChannelContext,
    sender: &SenderId,
    chat: &ChatId,
    arrival: &Arrival,
    notify: impl FnOnce(String) -> F,
) -> bool {
    match context.access.check(sender, chat, arrival).await {
        AccessDecision::Allowed => true,
        AccessDecision::Denied => false,
        AccessDecision::Ask(text) => {
            if arrival.kind == ChatKind::Direct {
                Box::pin(notify(text)).await;
            }
            false
        }
    }
}

/// Composes the message of a candidate and fetches its files. Only for senders with access.
async fn compose<S: IntakeSource>(
    source: &S,
    candidate: &CandidateMessage<S::Origin>,
    before: &[Piece],
    context: &ChannelContext,
) -> InboundMessage {
    let (mut content, mut media) = (Vec::new(), Vec::new());
    for piece in before.iter().chain(&candidate.pieces) {
        let (file, frame) = match piece {
            Piece::Text(text) => {
                content.push(text.clone());
                continue;
            }
            Piece::File(file) => (file, Some(("", ""))),
            Piece::Hidden(file) => (file, None),
            Piece::Framed(head, file, tail) => (file, Some((head.as_str(), *tail))),
        };
        let fetch = source.fetch(file, context);
        let failure_marker = |error: &FetchError<S::Refusal>| source.failure_marker(file, error);
        // Files are rare, and this keeps them out of the size of every message's future.
        let stored = Box::pin(file.store(context, fetch, failure_marker)).await;
        content.extend(frame.map(|(head, tail)| format!("{head}{}{tail}", stored.marker)));
        media.extend(stored.image);
    }
    content.retain(|text| !text.trim().is_empty());
    if content.is_empty() {
        content.push("[empty message]".to_owned());
    }
    let mut message = InboundMessage::text(
        source.name().clone(),
        candidate.sender.clone(),
        candidate.chat.clone(),
        content.join("\n"),
    );
    message.id = Some(candidate.id.clone());
    message.media = media;
    message.metadata = candidate.metadata.clone();
    message.session_key_override = candidate.session.clone();
    message.delivery = candidate.delivery.clone();
    message
}

/// Offers a message until there is an answer other than [`Admission::TryLater`]. Meanwhile the
/// channel is degraded with the notice `notice`, and `waiting_count` counts the message.
pub async fn deliver(
    context: &ChannelContext,
    message: InboundMessage,
    arrival: &Arrival,
    notice: &str,
    waiting_count: Option<&AtomicUsize>,
) -> Admission {
    let mut counted = None;
    for tries in 0.. {
        let admission = context.intake.deliver(message.clone(), arrival).await;
        if admission != Admission::TryLater {
            return admission;
        }
        if counted.is_none() {
            counted = waiting_count.map(CountedMessage::new);
        }
        context.progress.degraded(notice);
        tokio::time::sleep(backoff(FIRST_PAUSE, tries)).await;
    }
    Admission::TryLater
}

/// A message that is counted for as long as it waits.
#[derive(Debug)]
struct CountedMessage<'a>(&'a AtomicUsize);

impl<'a> CountedMessage<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for CountedMessage<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;
    use std::sync::{Arc, Mutex};

    use nanobot_channel::ChannelError;
    use nanobot_testkit::Assistant;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    struct NoReason;

    impl fmt::Display for NoReason {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("no")
        }
    }

    impl Refusal for NoReason {
        fn to_channel_error(&self) -> ChannelError {
            ChannelError::Refused("no".to_owned())
        }
    }

    /// A platform whose files hold their own names; `bad` cannot be fetched.
    #[derive(Debug)]
    struct Platform {
        name: ChannelName,
        notices: Mutex<Vec<String>>,
        delivered: Mutex<Vec<Admission>>,
        refused: AtomicUsize,
    }

    impl IntakeSource for Platform {
        type Origin = ();
        type Refusal = NoReason;

        fn name(&self) -> &ChannelName {
            &self.name
        }

        async fn fetch(
            &self,
            file: &Attachment,
            _context: &ChannelContext,
        ) -> Result<Vec<u8>, FetchError<NoReason>> {
            match file.name.as_str() {
                "bad" => Err(FetchError::Status(404)),
                name => Ok(name.as_bytes().to_vec()),
            }
        }

        async fn send_notice(&self, _candidate: &CandidateMessage<()>, text: String) {
            self.notices.lock().unwrap().push(text);
        }

        async fn on_allowed(&self, _: &CandidateMessage<()>, _: &ChannelContext) -> Vec<Piece> {
            vec![Piece::Text("before".to_owned())]
        }

        fn on_delivered(&self, _candidate: &CandidateMessage<()>, admission: Admission) {
            self.delivered.lock().unwrap().push(admission);
        }

        fn waiting(&self) -> Option<&AtomicUsize> {
            Some(&self.refused)
        }
    }

    fn platform() -> Platform {
        Platform {
            name: "chat".into(),
            notices: Mutex::default(),
            delivered: Mutex::default(),
            refused: AtomicUsize::new(0),
        }
    }

    fn candidate(sender: &str, arrival: Arrival, pieces: Vec<Piece>) -> CandidateMessage<()> {
        CandidateMessage {
            sender: sender.into(),
            chat: "room".into(),
            arrival,
            id: MessageId::from("1"),
            pieces,
            metadata: Map::new(),
            session: None,
            delivery: DeliveryContext::default(),
            origin: (),
        }
    }

    fn file(kind: &'static str, name: &str) -> Attachment {
        Attachment {
            kind,
            id: name.to_owned(),
            name: name.to_owned(),
            is_image: kind == "image",
            is_speech: kind == "voice",
            ..Attachment::default()
        }
    }

    #[tokio::test]
    async fn message_is_composed_of_its_pieces_in_order() {
        let (platform, assistant) = (platform(), Arc::new(Assistant::new("eve")));
        assistant.will_transcribe(" spoken ");
        let large = Attachment {
            size: Some(1 << 40),
            ..file("file", "large")
        };
        let pieces = vec![
            Piece::Hidden(file("image", "quoted")),
            Piece::Text(" \n".to_owned()),
            Piece::Text("text".to_owned()),
            Piece::Framed("[Reply: ".to_owned(), file("image", "shown"), "]"),
            Piece::File(file("voice", "talk")),
            Piece::File(file("file", "bad")),
            Piece::File(large),
        ];
        let candidate = candidate("ann", Arrival::direct(), pieces);
        let next = accept(&platform, &candidate, None, &assistant.context()).await;
        let message = assistant.message(1).await.unwrap();
        assert_eq!(
            (next, message.content.as_str()),
            (
                Next::Confirm,
                "before\ntext\n[Reply: [image: /media/shown]]\n[transcription: spoken]\n\
                 [file: download failed]\n[file: download failed]"
            )
        );
        let images: Vec<_> = message.media.iter().map(|media| &media.location).collect();
        assert_eq!(images, ["/media/quoted", "/media/shown"]);
        assert_eq!(*platform.delivered.lock().unwrap(), [Admission::Accepted]);
    }

    #[tokio::test]
    async fn stranger_gets_a_notice_only_in_direct_chats() {
        let (platform, assistant) = (platform(), Arc::new(Assistant::new("eve")));
        assistant.will_pair_strangers("who are you?");
        for arrival in [Arrival::direct(), Arrival::group(true)] {
            let pieces = vec![Piece::File(file("image", "a"))];
            let candidate = candidate("eve", arrival, pieces);
            let next = accept(&platform, &candidate, None, &assistant.context()).await;
            assert_eq!(next, Next::Confirm);
        }
        assert_eq!(*platform.notices.lock().unwrap(), ["who are you?"]);
        assert!(assistant.seen().kept.is_empty() && assistant.seen().arrived.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn unstored_message_is_offered_again() {
        let (platform, assistant) = (platform(), Arc::new(Assistant::new("eve")));
        assistant.will_answer([
            Admission::TryLater,
            Admission::TryLater,
            Admission::Duplicate,
            Admission::ShuttingDown,
        ]);
        let candidate = candidate("ann", Arrival::direct(), Vec::new());
        let context = assistant.context();
        let next = accept(&platform, &candidate, None, &context).await;
        let seen = assistant.seen();
        assert_eq!(
            (next, seen.arrived.len(), seen.degraded.as_slice()),
            (
                Next::Confirm,
                3,
                [Platform::WAITING_NOTICE, Platform::WAITING_NOTICE]
                    .map(str::to_owned)
                    .as_slice()
            )
        );
        let next = accept(&platform, &candidate, None, &context).await;
        assert_eq!(next, Next::Stop);
        assert_eq!(*platform.delivered.lock().unwrap(), [Admission::Duplicate]);
        assert_eq!(platform.refused.load(Ordering::Relaxed), 0);
    }
}
