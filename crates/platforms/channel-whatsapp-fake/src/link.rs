//! The link to WhatsApp: status, QR codes, and the account.

use nanobot_testkit::json::set;
use serde_json::{Value, json};

use crate::account::{ACCOUNT_ID, ACCOUNT_LID, ACCOUNT_NAME};
use crate::api::{ApiError, NOT_CONNECTED, UNLINKED};
use crate::connection::{Out, Role};
use crate::state::WhatsAppState;

/// Validity of a QR code, in milliseconds.
const QR_VALIDITY: i64 = 59_000;

/// Reason of a disconnection by another program.
pub(crate) const REPLACED: &str = "replaced";

/// State of the bridge's connection to WhatsApp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The account can send and receive.
    Connected,
    /// The bridge connects.
    Connecting,
    /// There is no connection.
    Disconnected,
    /// No device is linked.
    Unlinked,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Connecting => "connecting",
            Self::Disconnected => "disconnected",
            Self::Unlinked => "unlinked",
        }
    }
}

/// The state of the link that clients get.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) status: Status,
    /// `true` if the bridge has the keys of a device.
    is_linked: bool,
    reason: Option<String>,
    retry: Option<bool>,
    qr: Option<String>,
    /// Time of the QR code, in milliseconds of the fake's clock.
    qr_at: i64,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            status: Status::Connected,
            is_linked: true,
            reason: None,
            retry: None,
            qr: None,
            qr_at: 0,
        }
    }
}

impl Link {
    pub(crate) fn is_connected(&self) -> bool {
        self.status == Status::Connected
    }

    /// Returns `true` if another program uses the keys of the device.
    pub(crate) fn is_replaced(&self) -> bool {
        self.reason.as_deref() == Some(REPLACED)
    }

    /// Refuses requests that need WhatsApp.
    pub(crate) fn check(&self) -> Result<(), ApiError> {
        match self.status {
            Status::Connected => Ok(()),
            Status::Unlinked => Err(ApiError::new(UNLINKED)),
            Status::Connecting | Status::Disconnected => Err(ApiError::new(NOT_CONNECTED)),
        }
    }

    fn status_frame(&self) -> Value {
        let mut frame = json!({"type": "status", "status": self.status.name()});
        if self.is_connected() {
            set(&mut frame, "account", account());
        }
        if let Some(reason) = &self.reason {
            set(&mut frame, "reason", reason.clone());
        }
        if let Some(retry) = self.retry {
            set(&mut frame, "retry", retry);
        }
        frame
    }

    /// Returns the status as version 1 has it, which knows two.
    fn status_frame_of_version_1(&self) -> Value {
        let name = if self.is_connected() {
            Status::Connected.name()
        } else {
            Status::Disconnected.name()
        };
        json!({"type": "status", "status": name})
    }

    /// Returns the first frames of a client.
    pub(crate) fn greeting(&self, role: Role, now: i64) -> Vec<Value> {
        let is_valid = now - self.qr_at < QR_VALIDITY;
        let qr = self.qr_frame().filter(|_| is_valid);
        if role == Role::Version1 {
            let status = self.status_frame_of_version_1();
            return [status].into_iter().chain(qr).collect();
        }
        let mut ready = json!({
            "type": "ready", "protocol": 2, "version": "0.1.0", "status": self.status.name(),
        });
        if self.is_linked {
            set(&mut ready, "account", account());
        }
        [ready, self.status_frame()].into_iter().chain(qr).collect()
    }

    fn qr_frame(&self) -> Option<Value> {
        let qr = self.qr.as_ref()?;
        Some(json!({"type": "qr", "qr": qr}))
    }
}

fn account() -> Value {
    json!({"id": ACCOUNT_ID, "lid": ACCOUNT_LID, "name": ACCOUNT_NAME})
}

impl WhatsAppState {
    /// Changes the status, and tells every client.
    pub(crate) fn set_status(&mut self, status: Status, reason: Option<&str>, retry: Option<bool>) {
        self.link.status = status;
        self.link.reason = reason.map(str::to_owned);
        self.link.retry = retry;
        match status {
            Status::Connected => (self.link.is_linked, self.link.qr) = (true, None),
            Status::Unlinked => self.link.is_linked = false,
            Status::Connecting | Status::Disconnected => {}
        }
        let frame = self.link.status_frame();
        let frame_of_version_1 = self.link.status_frame_of_version_1();
        self.tell(&frame, &frame_of_version_1);
        if status == Status::Connected {
            self.receive_waiting();
        }
    }

    /// Shows a QR code to every client; it replaces an earlier one.
    pub(crate) fn show_qr(&mut self, qr: &str) {
        self.link.qr = Some(qr.to_owned());
        self.link.qr_at = self.now();
        let frame = self.link.qr_frame().unwrap_or_default();
        self.tell(&frame, &frame);
    }

    fn tell(&mut self, frame: &Value, frame_of_version_1: &Value) {
        for open in self.connections.values_mut() {
            let frame = match open.role {
                Some(Role::Version2) => frame,
                Some(Role::Version1) => frame_of_version_1,
                None => continue,
            };
            if open.is_admitted() {
                open.outbox.push_back(Out::Text(frame.to_string()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::probe::{FIRST, Probe};

    #[test]
    fn greeting_has_status_account_and_valid_qr() {
        let mut probe = Probe::without_client(Role::Version2);
        let (number, frames) = probe.connect(Some(2));
        let account = json!({"id": ACCOUNT_ID, "lid": ACCOUNT_LID, "name": ACCOUNT_NAME});
        let expected = [
            json!({"type": "ready", "protocol": 2, "version": "0.1.0", "status": "connected",
                   "account": account}),
            json!({"type": "status", "status": "connected", "account": account}),
        ];
        assert_eq!(frames, expected);
        probe.state.remove_connection(number);
        probe.state.set_status(Status::Unlinked, None, None);
        probe.state.show_qr("code");
        let unlinked = [
            json!({"type": "ready", "protocol": 2, "version": "0.1.0", "status": "unlinked"}),
            json!({"type": "status", "status": "unlinked"}),
        ];
        let (number, frames) = probe.connect(Some(2));
        assert_eq!(frames[..2], unlinked);
        assert_eq!(frames[2..], [json!({"type": "qr", "qr": "code"})]);
        probe.state.remove_connection(number);
        probe.state.advanced = Duration::from_secs(59);
        assert_eq!(probe.connect(Some(2)).1, unlinked);
    }

    #[test]
    fn every_client_gets_the_news() {
        let mut probe = Probe::new();
        let (old, _) = probe.connect(None);
        let stranger = probe.state.add_connection();
        probe.state.set_status(Status::Connecting, None, None);
        probe.state.show_qr("code");
        let qr = json!({"type": "qr", "qr": "code"});
        let status = json!({"type": "status", "status": "connecting"});
        assert_eq!(probe.outs(FIRST), [status, qr.clone()]);
        let status = json!({"type": "status", "status": "disconnected"});
        assert_eq!(probe.outs(old), [status, qr]);
        assert_eq!(probe.outs(stranger), Vec::<Value>::new());
    }
}
