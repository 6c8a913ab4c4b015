//! The login: the bridge is installed and started, and the person scans its code.

use nanobot_channel::{ChannelError, SignIn, SignInPrompt, async_trait};
use nanobot_whatsapp_bridge::BridgeError;

use crate::account::next_frame;
use crate::channel::WhatsApp;
use crate::frame::{Frame, Version};
use crate::handshake::{self, OpenBridge};
use crate::own_bridge::{StartedBridge, ended, start_error};
use crate::state::{Link, NOT_YET, State};

/// The steps of the person.
const SCAN: &str = "On the phone, open WhatsApp > Linked devices > Link a device, and scan this:";
/// The advice if the bridge cannot be started.
const IN_USE: &str = "the gateway runs the bridge of this account: stop it for the login";

#[async_trait]
impl SignIn for WhatsApp {
    async fn sign_in(&self, prompt: &dyn SignInPrompt) -> Result<String, ChannelError> {
        let mut bridge = self.install_and_start(prompt).await?;
        let address = self.address(bridge.as_ref());
        let link = async {
            let open = handshake::open(&self.client.rest, &address, self.client.timeout());
            link_device(open.await?, prompt).await
        };
        let linked = tokio::select! {
            linked = link => linked,
            why = ended(bridge.as_mut()) => Err(ChannelError::Unavailable(why)),
        };
        if let (Ok(state), Some(own), true) = (&linked, &self.own, bridge.is_some()) {
            own.note(state).await;
        }
        if let Some(bridge) = bridge {
            bridge.stop().await;
        }
        let account = linked?.account.unwrap_or_default();
        Ok(account.shown())
    }
}

impl WhatsApp {
    /// Installs the bridge that nanobot starts, if it starts one, and starts it.
    async fn install_and_start(
        &self,
        prompt: &dyn SignInPrompt,
    ) -> Result<Option<StartedBridge>, ChannelError> {
        let Some(own) = &self.own else {
            prompt.show(&format!("Using the bridge at {}", self.config.bridge_url));
            return Ok(None);
        };
        let progress = |line: &str| prompt.show(line);
        own.bridge.install(&progress).await.map_err(start_error)?;
        let started = own.start().await.map_err(|error| match error {
            BridgeError::InUse => ChannelError::Conflict(IN_USE.to_owned()),
            error => start_error(error),
        });
        started.map(Some)
    }
}

/// Shows codes until a device is linked, and returns its state.
async fn link_device(
    mut open: OpenBridge,
    prompt: &dyn SignInPrompt,
) -> Result<State, ChannelError> {
    let mut has_code = false;
    let mut is_connecting = false;
    // The reason that was shown last: the bridge reports it at each attempt.
    let mut failure = String::new();
    let mut frame = open.first.take();
    loop {
        match frame {
            Some(Frame::Ready(state) | Frame::Status(state)) => match &state.link {
                Link::Connected => return Ok(state),
                // A code follows.
                Link::Unlinked => {}
                Link::Waiting(_) if has_code => {
                    if !is_connecting {
                        prompt.show("WhatsApp is connecting...");
                    }
                    is_connecting = true;
                }
                Link::Waiting(why) if why != NOT_YET && *why != failure => {
                    prompt.show(&format!(
                        "WhatsApp is not connected: {why}. The bridge tries again."
                    ));
                    failure.clone_from(why);
                }
                Link::Waiting(_) => {}
                link => {
                    link.trouble()?;
                }
            },
            Some(Frame::Code(code)) => {
                if open.version == Version::One || !has_code {
                    prompt.show(SCAN);
                }
                (has_code, is_connecting) = (true, false);
                prompt.show_code(&code);
            }
            _ => {}
        }
        frame = next_frame(&mut open).await?;
    }
}
