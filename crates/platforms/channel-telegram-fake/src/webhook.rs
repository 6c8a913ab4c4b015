//! Configuration and state of the webhook.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use nanobot_testkit::json::set;
use serde_json::{Value, json};
use url::Url;

use crate::messages::now;

/// Configuration and state of the webhook.
#[derive(Debug, Default)]
pub(crate) struct Webhook {
    pub(crate) url: Option<Url>,
    pub(crate) secret: Option<String>,
    pub(crate) most: usize,
    pub(crate) allowed: Option<Value>,
    pub(crate) error: Option<String>,
    /// Address that posts go to, in place of the proxy that terminates TLS.
    pub(crate) address: Option<SocketAddr>,
    pub(crate) under_way: BTreeSet<i64>,
}

impl Webhook {
    pub(crate) fn is_set(&self) -> bool {
        self.url.is_some()
    }

    pub(crate) fn remove(&mut self) {
        *self = Self {
            address: self.address,
            under_way: std::mem::take(&mut self.under_way),
            ..Self::default()
        };
    }

    pub(crate) fn post_to(&mut self, address: SocketAddr) {
        self.address = Some(address);
    }

    /// Returns the `WebhookInfo` of the API.
    pub(crate) fn info(&self, pending: usize) -> Value {
        let mut info = json!({
            "url": self.url.as_ref().map(Url::as_str).unwrap_or_default(),
            "has_custom_certificate": false, "pending_update_count": pending,
        });
        if self.is_set() {
            set(&mut info, "max_connections", self.most);
            if let Some(allowed) = &self.allowed {
                set(&mut info, "allowed_updates", allowed.clone());
            }
        }
        if let Some(error) = &self.error {
            set(&mut info, "last_error_date", now());
            set(&mut info, "last_error_message", error.as_str());
        }
        info
    }
}
