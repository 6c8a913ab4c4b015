//! The client of the bridge: the current connection, and what is known about the device.
//!
//! Decision: requests go through the connection of the run. Without one they fail at once: the
//! bridge serves one client, and a second connection would be refused.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nanobot_channel::{ChannelError, Value};
use nanobot_channel_kit::Rest;
use nanobot_channel_kit::http::ProxyMode;
use tokio::sync::mpsc;

use crate::WhatsAppConfig;
use crate::config::BRIDGE_URL;
use crate::error::{CallError, Refusal};
use crate::frame::Version;
use crate::request::Request;
use crate::state::{Account, Link, State};

/// The client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) rest: Rest,
    current: Mutex<Current>,
    /// Number of requests and uploads of this process.
    count: AtomicU64,
}

/// The current connection.
#[derive(Debug, Default)]
struct Current {
    requests: Option<mpsc::Sender<Request>>,
    version: Version,
    link: Option<Link>,
    account: Arc<Account>,
}

impl Client {
    /// Creates the client. Does no I/O.
    ///
    /// # Errors
    /// [`ChannelError::Config`] naming the key.
    pub(crate) fn new(config: &WhatsAppConfig) -> Result<Self, ChannelError> {
        // The bridge is on this machine or in its network.
        let (base, timeout) = (config.http_url(), config.request_timeout());
        let rest = Rest::new(&base, BRIDGE_URL, ProxyMode::Direct, timeout)?;
        Ok(Self {
            rest: rest.redacting(&config.bridge_token),
            current: Mutex::default(),
            count: AtomicU64::new(0),
        })
    }

    /// Makes an open connection the current one.
    pub(crate) fn connected(&self, requests: mpsc::Sender<Request>, version: Version) {
        let mut current = self.current();
        current.requests = Some(requests);
        current.version = version;
        current.link = None;
    }

    /// Keeps a report of the bridge.
    pub(crate) fn update(&self, state: &State) {
        let mut current = self.current();
        current.link = Some(state.link.clone());
        if let Some(account) = &state.account {
            current.account = Arc::new(account.clone());
        }
    }

    /// Returns the account, as far as it is known.
    pub(crate) fn account(&self) -> Arc<Account> {
        Arc::clone(&self.current().account)
    }

    /// Returns the state of the device while there is a connection.
    pub(crate) fn link(&self) -> Option<Link> {
        let current = self.current();
        current.open()?;
        current.link.clone()
    }

    /// `true` while there is a connection.
    pub(crate) fn is_connected(&self) -> bool {
        self.current().open().is_some()
    }

    /// `true` if the bridge speaks version 1, now or last.
    pub(crate) fn is_version_1(&self) -> bool {
        self.current().version == Version::One
    }

    /// Returns the time that an answer may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.rest.timeout()
    }

    /// Returns a name that no other request or upload of this process has.
    pub(crate) fn new_id(&self) -> String {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        (count + 1).to_string()
    }

    /// Makes a request and returns its answer.
    pub(crate) async fn call(&self, body: Value) -> Result<Value, CallError> {
        let (requests, version, link) = {
            let current = self.current();
            (current.open(), current.version, current.link.clone())
        };
        let unreachable =
            || CallError::Unreachable("there is no connection to the bridge now".to_owned());
        let requests = requests.ok_or_else(unreachable)?;
        let body = match version {
            Version::Two => {
                let mut body = body;
                if let Some(members) = body.as_object_mut() {
                    members.insert("requestId".to_owned(), self.new_id().into());
                }
                body
            }
            Version::One => version_1(&body, link.as_ref())?,
        };
        let (request, reply) = Request::new(body);
        let patience = self.timeout();
        let submitted = tokio::time::timeout(patience, requests.send(request)).await;
        if !matches!(submitted, Ok(Ok(()))) {
            return Err(unreachable());
        }
        reply.wait(patience).await
    }

    /// Sends a frame that is not answered, of version 2 only. It may be lost.
    pub(crate) fn tell(&self, body: Value) {
        let requests = {
            let current = self.current();
            current.open().filter(|_| current.version == Version::Two)
        };
        let Some(requests) = requests else { return };
        if requests.try_send(Request::unanswered(body)).is_err() {
            tracing::debug!("a frame for the bridge was left out");
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Current {
    fn open(&self) -> Option<mpsc::Sender<Request>> {
        let requests = self.requests.as_ref();
        requests.filter(|requests| !requests.is_closed()).cloned()
    }
}

/// Returns a request of version 1: texts are all it has. It does not say whether a failed send was
/// one, so nothing is sent while the device is known to be away.
fn version_1(body: &Value, link: Option<&Link>) -> Result<Value, CallError> {
    let (kind, to, text) = (body.get("type"), body.get("to"), body.get("text"));
    let (Some("send"), Some(to), Some(text), None) =
        (kind.and_then(Value::as_str), to, text, body.get("media"))
    else {
        return Err(CallError::Refused(Refusal::of_version_1()));
    };
    if link.is_some_and(|link| *link != Link::Connected) {
        let why = "the bridge is not connected to WhatsApp".to_owned();
        return Err(CallError::Unreachable(why));
    }
    Ok(serde_json::json!({"type": "send", "to": to, "text": text}))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn nothing_is_sent_without_a_connection() {
        let client = Client::new(&WhatsAppConfig::default()).unwrap();
        let error = client.call(json!({"type": "send"})).await.unwrap_err();
        assert!(matches!(error, CallError::Unreachable(_)), "{error:?}");
        let (requests, queue) = mpsc::channel(1);
        client.connected(requests, Version::Two);
        assert!(client.is_connected() && !client.is_version_1());
        drop(queue);
        assert!(!client.is_connected());
        assert_eq!(client.link(), None);
        client.tell(json!({"type": "read"}));
        let error = client.call(json!({"type": "send"})).await.unwrap_err();
        assert!(matches!(error, CallError::Unreachable(_)), "{error:?}");
    }

    #[test]
    fn version_1_has_texts_only() {
        let send = json!({"type": "send", "to": "a@lid", "text": "x", "id": "3EB0", "quote": {}});
        let frame = json!({"type": "send", "to": "a@lid", "text": "x"});
        assert_eq!(version_1(&send, None), Ok(frame.clone()));
        assert_eq!(version_1(&send, Some(&Link::Connected)), Ok(frame));
        let away = version_1(&send, Some(&Link::Waiting(String::new()))).unwrap_err();
        assert!(matches!(away, CallError::Unreachable(_)), "{away:?}");
        for body in [
            json!({"type": "fetch", "ref": "m"}),
            json!({"type": "send", "to": "a@lid", "text": "x", "media": {}}),
        ] {
            let refused = version_1(&body, None).unwrap_err();
            assert!(refused.refuses_content(), "{refused:?}");
        }
    }
}
