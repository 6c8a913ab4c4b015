//! Notifies people of their approval, once, in the chat in which they got their pairing code.
//!
//! Decision: approving leaves a note in the file of paired people, and the gateway follows that
//! file. So it makes no difference which program approves, or whether a gateway runs at that time.
//! The notice is a durable message with an idempotency key: a kill in between neither loses nor
//! repeats it.

use std::path::PathBuf;
use std::sync::Arc;

use nanobot_bus::Bus;
use nanobot_channels::{Asker, Person, UnnotifiedPeople};
use nanobot_types::{
    ChatAddress, OutboundKey, OutboundKind, OutboundMessage, OutboundSlot, TraceId,
};
use nanobot_watch::FileWatch;
use tokio_util::sync::CancellationToken;

use super::channel_reload::{FileStamp, stamp};
use crate::RuntimeError;
use crate::assembly::access::HomeAccess;

/// Text of the notice.
const TEXT: &str = "You were let in: from now on you can talk to me here.";

/// Approved people, and whether the configuration lets them in.
type Approved = Vec<(Asker, Option<bool>)>;

/// Follows the file of paired people and sends the notices.
#[derive(Debug)]
pub(crate) struct ApprovalNotices {
    access: HomeAccess,
    bus: Arc<dyn Bus>,
    stamp: Option<FileStamp>,
    /// People with a code when the file was last read.
    waiting: Vec<Asker>,
}

impl ApprovalNotices {
    pub(crate) fn new(access: HomeAccess, bus: Arc<dyn Bus>) -> Self {
        Self {
            access,
            bus,
            stamp: None,
            waiting: Vec::new(),
        }
    }

    /// Follows the file until `cancel` fires.
    pub(crate) async fn run(mut self, watch: FileWatch, cancel: CancellationToken) {
        let file: PathBuf = self.access.pairing().path().to_owned();
        let mut changes = watch.follow(&file);
        let following = async {
            loop {
                let current = stamp(&file);
                if current != self.stamp {
                    self.stamp = current;
                    self.send_notices().await;
                }
                changes.changed().await;
            }
        };
        cancel.run_until_cancelled(following).await;
    }

    async fn send_notices(&mut self) {
        let (access, waited) = (self.access.clone(), self.waiting.clone());
        let read = match tokio::task::spawn_blocking(move || read(&access, &waited)).await {
            Ok(read) => read,
            Err(error) => return tracing::error!(%error, "could not read the pairing file"),
        };
        let (approved, waiting) = match read {
            Ok(read) => read,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                return tracing::warn!(error, "could not announce approvals");
            }
        };
        self.waiting = waiting;
        let mut done = Vec::new();
        for (asker, is_admitted) in approved {
            let is_done = match is_admitted {
                Some(true) => self.publish_notice(&asker).await,
                // The configuration keeps them out: there is nothing to notify them of.
                Some(false) => true,
                // The channel may be configured again later.
                None => false,
            };
            if is_done {
                done.push(asker);
            }
        }
        if !done.is_empty() {
            self.mark_notified(done).await;
        }
    }

    /// Publishes the notice; `true` if it is durable.
    async fn publish_notice(&self, asker: &Asker) -> bool {
        let Person { channel, sender } = &asker.person;
        let address = ChatAddress::new(channel.clone(), asker.chat.clone());
        let turn = TraceId::from(format!(
            "pairing of {sender} on {channel} {:.0}",
            asker.at * 1000.0
        ));
        let key = OutboundKey::new(turn, OutboundSlot::Reply);
        let notice = OutboundMessage::to(address, key, OutboundKind::Notice, TEXT.to_owned());
        match self.bus.publish_outbound(notice).await {
            Ok(_) => true,
            Err(error) => {
                tracing::error!(%channel, %sender, %error, "could not announce an approval");
                false
            }
        }
    }

    async fn mark_notified(&self, askers: Vec<Asker>) {
        let store = self.access.pairing().clone();
        match tokio::task::spawn_blocking(move || store.mark_notified(&askers)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "could not record that an approval was announced");
            }
            Err(error) => {
                tracing::error!(%error, "could not record that an approval was announced");
            }
        }
    }
}

/// Returns the people to notify, and those who wait now.
fn read(access: &HomeAccess, waited: &[Asker]) -> Result<(Approved, Vec<Asker>), RuntimeError> {
    let UnnotifiedPeople { approved, waiting } = access.pairing().unnotified(waited)?;
    let checked = approved.into_iter().map(|asker| {
        let is_admitted = access.is_admitted(&asker.person, true)?;
        Ok((asker, is_admitted))
    });
    Ok((checked.collect::<Result<_, RuntimeError>>()?, waiting))
}
