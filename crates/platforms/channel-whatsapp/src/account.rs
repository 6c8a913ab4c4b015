//! The account, for the operator.
//!
//! Decision: a bridge serves one client, so a probe asks the running channel, or the bridge while
//! no gateway has it. That a gateway has it is a good sign, not a failure. A probe installs
//! nothing.

use nanobot_channel::ChannelError;
use nanobot_channel_kit::websocket::Incoming;
use nanobot_whatsapp_bridge::BridgeError;
use tokio::time::timeout;

use crate::channel::WhatsApp;
use crate::error::NOT_LINKED;
use crate::frame::{Frame, Version};
use crate::handshake::{self, HandshakeError, OpenBridge};
use crate::own_bridge::start_error;
use crate::receive::connection_error;
use crate::state::{Link, State};

/// The account of a bridge that the running gateway uses.
const IN_USE: &str = "a linked device (the running gateway uses the bridge)";
/// The account of a bridge that does not tell.
const UNKNOWN: &str = "a linked device (the bridge does not tell the account)";
/// The advice if only another version of the bridge is installed.
const OUTDATED: &str = "the installed bridge belongs to another version of nanobot: `nanobot \
                        gateway` and `nanobot channels login whatsapp` install the right one";
/// Normal closure (RFC 6455).
const NORMAL: u16 = 1000;

impl WhatsApp {
    /// Returns the account of the linked device.
    pub(crate) async fn find_account(&self) -> Result<String, ChannelError> {
        if self.client.is_connected() {
            return match self.client.link() {
                Some(link) => {
                    link.trouble()?;
                    Ok(self.client.account().shown())
                }
                None => Ok(UNKNOWN.to_owned()),
            };
        }
        if let Some(own) = &self.own
            && own.bridge.is_outdated().await
        {
            return Err(ChannelError::Unavailable(OUTDATED.to_owned()));
        }
        let bridge = match self.start_bridge().await {
            Ok(bridge) => bridge,
            Err(BridgeError::InUse) => return self.noted_account().await,
            Err(error) => return Err(start_error(error)),
        };
        let is_missing = self.own.is_some() && bridge.is_none();
        let address = self.address(bridge.as_ref());
        let account =
            match handshake::open(&self.client.rest, &address, self.client.timeout()).await {
                Ok(open) => self.ask(open).await,
                Err(HandshakeError::InUse) => Ok(IN_USE.to_owned()),
                Err(error) => Err(connection_error(error, is_missing)),
            };
        if let Some(bridge) = bridge {
            bridge.stop().await;
        }
        account
    }

    /// Returns the account as the running gateway noted it.
    async fn noted_account(&self) -> Result<String, ChannelError> {
        let note = match &self.own {
            Some(own) => own.bridge.account_note().await,
            None => None,
        };
        match note.as_deref() {
            Some("") => Err(ChannelError::Auth(NOT_LINKED.to_owned())),
            Some(account) => Ok(format!("{account} (the running gateway uses the bridge)")),
            None => Ok(IN_USE.to_owned()),
        }
    }

    /// Asks a bridge for the account. Waits until it is known, or no device is linked.
    async fn ask(&self, mut open: OpenBridge) -> Result<String, ChannelError> {
        if open.version == Version::One {
            // It tells changes only.
            open.socket.close(NORMAL).await;
            return Ok(UNKNOWN.to_owned());
        }
        let known = timeout(self.client.timeout(), known_account(&mut open)).await;
        open.socket.close(NORMAL).await;
        known.unwrap_or_else(|_| {
            let why = "the bridge does not tell the account";
            Err(ChannelError::Unavailable(why.to_owned()))
        })
    }
}

async fn known_account(open: &mut OpenBridge) -> Result<String, ChannelError> {
    let mut frame = open.first.take();
    loop {
        if let Some(Frame::Ready(state) | Frame::Status(state)) = frame
            && let Some(account) = account_of(&state)?
        {
            return Ok(account);
        }
        frame = next_frame(open).await?;
    }
}

/// Returns the account of a report; `None` if a later one will have it.
fn account_of(state: &State) -> Result<Option<String>, ChannelError> {
    let State { link, account } = state;
    if !matches!(link, Link::Connected | Link::Waiting(_)) {
        link.trouble()?;
    }
    match account {
        Some(account) => Ok(Some(account.shown())),
        None if *link == Link::Connected => Ok(Some(UNKNOWN.to_owned())),
        None => Ok(None),
    }
}

/// Waits for the next frame of a bridge.
///
/// # Errors
/// The end of the connection.
pub(crate) async fn next_frame(open: &mut OpenBridge) -> Result<Option<Frame>, ChannelError> {
    let ended = |why: String| ChannelError::Unavailable(format!("the bridge: {why}"));
    match open.socket.next().await.map_err(ended)? {
        Incoming::Text(text) => Frame::parse(&text).map(Some).map_err(ended),
        Incoming::Control | Incoming::Binary(_) => Ok(None),
        Incoming::Closed(_) => Err(ended("it closed the connection".to_owned())),
    }
}
