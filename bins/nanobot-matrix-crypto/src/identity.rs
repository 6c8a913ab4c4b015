//! The cross-signing identity of the account.
//!
//! Decision: an identity is created only for an account that has none. Replacing one would take
//! the trust of its other clients away.

use matrix_sdk_common::ruma::{
    UserId, api::client::keys::upload_signing_keys::v3::Request as UploadRequest,
};
use matrix_sdk_crypto::{
    CrossSigningBootstrapRequests,
    types::requests::{OutgoingRequest, UploadSigningKeysRequest},
};
use nanobot_matrix_crypto::{HomeserverRequest, protocol::Failure};
use serde_json::Value;

use crate::{
    engine::Engine,
    fault::{failed, refused},
};

/// Attempts to publish, each of which the homeserver accepts and does not show.
const MAX_ATTEMPTS: u32 = 2;

/// What the homeserver shows of the account, and what was tried.
#[derive(Debug, Default)]
pub(crate) struct Publication {
    /// The account has an identity on the homeserver; `None` if that has to be asked.
    is_published: Option<bool>,
    attempts: u32,
}

impl Publication {
    /// Takes the response to a key query, if it is about the account.
    pub(crate) fn note_answer(&mut self, account: &UserId, body: &Value) {
        let part = |name: &str| body.get(name).and_then(|part| part.get(account.as_str()));
        if part("device_keys").is_some() || part("master_keys").is_some() {
            self.is_published = Some(part("master_keys").is_some());
        }
    }
}

impl Engine {
    /// Returns the requests that publish an identity and sign this device with it.
    pub(crate) async fn identity_requests(&mut self) -> Result<Vec<HomeserverRequest>, Failure> {
        let Some(is_published) = self.publication.is_published else {
            let account = self.machine.user_id();
            let (id, query) = self.machine.query_keys_for_users([account]);
            return Ok(vec![self.requests.issue_query(&id, &query)?]);
        };
        let has_keys = self.machine.cross_signing_status().await.is_complete();
        if is_published && !has_keys {
            return Err(refused(
                "the account has an identity of cross-signing that another client created: \
                 verify this device from there",
            ));
        }
        if is_published && self.is_signed().await? {
            self.publication.attempts = 0;
            return Ok(Vec::new());
        }
        if self.publication.attempts >= MAX_ATTEMPTS {
            return Err(refused(
                "the homeserver does not show the identity that was uploaded",
            ));
        }
        self.publication.attempts += 1;
        self.publication.is_published = None;
        let requests = Box::pin(self.machine.bootstrap_cross_signing(false))
            .await
            .map_err(failed("the identity cannot be stored"))?;
        self.issue_all(requests)
    }

    async fn is_signed(&self) -> Result<bool, Failure> {
        let (user, device) = (self.machine.user_id(), self.machine.device_id());
        let own = self.machine.get_device(user, device, None).await;
        let own = own.map_err(failed("the store cannot be read"))?;
        Ok(own.is_some_and(|device| device.is_cross_signed_by_owner()))
    }

    fn issue_all(
        &mut self,
        requests: CrossSigningBootstrapRequests,
    ) -> Result<Vec<HomeserverRequest>, Failure> {
        let mut issued = Vec::new();
        if let Some(keys) = &requests.upload_keys_req {
            issued.extend(self.requests.issue(keys)?);
        }
        let upload = upload(requests.upload_signing_keys_req);
        issued.push(self.requests.issue_identity(upload)?);
        let signatures = OutgoingRequest::from(requests.upload_signatures_req);
        issued.extend(self.requests.issue(&signatures)?);
        Ok(issued)
    }
}

fn upload(keys: UploadSigningKeysRequest) -> UploadRequest {
    let mut request = UploadRequest::new();
    request.master_key = keys.master_key.map(|key| key.to_raw());
    request.self_signing_key = keys.self_signing_key.map(|key| key.to_raw());
    request.user_signing_key = keys.user_signing_key.map(|key| key.to_raw());
    request
}
