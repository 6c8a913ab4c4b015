//! From a message of Beacon to the kit's intake.

use nanobot_channel::{Arrival, ChannelContext, ChannelName, DeliveryContext, Map};
use nanobot_channel_kit::attachment::{Attachment, FetchError};
use nanobot_channel_kit::intake::{CandidateMessage, IntakeSource, Piece};

use crate::channel::Beacon;
use crate::error::BeaconRefusal;
use crate::wire::{File, Message};

/// Converts a message. Fetches nothing.
pub(crate) fn candidate(id: &str, message: Message) -> CandidateMessage<()> {
    let mut pieces = vec![Piece::Text(message.text)];
    pieces.extend(message.file.map(|file| Piece::File(attachment(file))));
    CandidateMessage {
        sender: message.sender.into(),
        chat: message.room.into(),
        arrival: match message.direct {
            true => Arrival::direct(),
            false => Arrival::group(message.mentioned),
        },
        id: id.into(),
        pieces,
        metadata: Map::new(),
        session: None,
        delivery: DeliveryContext::default(),
        origin: (),
    }
}

fn attachment(file: File) -> Attachment {
    let is = |kind: &str| {
        file.mime
            .as_deref()
            .is_some_and(|mime| mime.starts_with(kind))
    };
    let (is_image, is_speech) = (is("image/"), is("audio/"));
    Attachment {
        kind: "file",
        id: file.id,
        name: file.name,
        mime: file.mime,
        size: file.size,
        is_image,
        is_speech,
        ..Attachment::default()
    }
}

impl IntakeSource for Beacon {
    type Origin = ();
    type Refusal = BeaconRefusal;

    fn name(&self) -> &ChannelName {
        &self.base.name
    }

    async fn fetch(
        &self,
        file: &Attachment,
        context: &ChannelContext,
    ) -> Result<Vec<u8>, FetchError<BeaconRefusal>> {
        self.api.download(&file.id, context.media.limit()).await
    }

    async fn send_notice(&self, candidate: &CandidateMessage<()>, text: String) {
        let key = format!("notice/{}", candidate.id.as_str());
        if let Err(error) = self.post(candidate.chat.as_str(), &key, &text).await {
            tracing::warn!(channel = %self.base.name, %error, "a notice could not be sent");
        }
    }
}
