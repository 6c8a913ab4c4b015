//! Requests to the homeserver as data, and their responses.

use std::{borrow::Cow, collections::BTreeMap};

use matrix_sdk_common::ruma::{
    TransactionId,
    api::{
        IncomingResponse, MatrixVersion, Metadata, OutgoingRequest as OutgoingRequestData,
        SupportedVersions,
        auth_scheme::{AccessToken, SendAccessToken},
        client::{
            keys::{claim_keys, get_keys, upload_keys, upload_signatures, upload_signing_keys},
            to_device::send_event_to_device,
        },
        path_builder::VersionHistory,
    },
    exports::http,
};
use matrix_sdk_crypto::{
    OlmError,
    types::requests::{
        AnyIncomingResponse, AnyOutgoingRequest, KeysQueryRequest, OutgoingRequest,
        OutgoingVerificationRequest, ToDeviceRequest,
    },
};
use nanobot_matrix_crypto::{HomeserverRequest, protocol::Failure};
use serde_json::Value;

use crate::{
    engine::Engine,
    fault::{failed, refused},
};

/// Maximum number of requests whose response is awaited. The oldest is forgotten first.
const MAX_AWAITED: usize = 4096;

/// Maximum number of requests that are kept until they were sent.
const MAX_KEPT: usize = 256;

/// The endpoint of a request, which decides how its response is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    KeysUpload,
    KeysQuery,
    KeysClaim,
    ToDevice,
    SignatureUpload,
    SigningKeysUpload,
}

/// The requests that were returned to the caller.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// By id, with the order in which they were issued.
    awaited: BTreeMap<String, (u64, Endpoint)>,
    issued: u64,
    /// Requests that the machine returns only once.
    kept: Vec<HomeserverRequest>,
}

impl Requests {
    /// Issues a request of the machine. `None` for a kind that is not supported: messages in rooms.
    pub(crate) fn issue(
        &mut self,
        request: &OutgoingRequest,
    ) -> Result<Option<HomeserverRequest>, Failure> {
        let id = request.request_id();
        let issued = match request.request() {
            AnyOutgoingRequest::KeysUpload(request) => {
                self.register(id, Endpoint::KeysUpload, request.clone())
            }
            AnyOutgoingRequest::KeysQuery(request) => self.issue_query(id, request),
            AnyOutgoingRequest::KeysClaim(request) => self.issue_claim(id, request.clone()),
            AnyOutgoingRequest::ToDeviceRequest(request) => self.issue_to_device(request),
            AnyOutgoingRequest::SignatureUpload(request) => {
                self.register(id, Endpoint::SignatureUpload, request.clone())
            }
            AnyOutgoingRequest::RoomMessage(_) => return Ok(None),
        };
        issued.map(Some)
    }

    /// Issues a key query.
    pub(crate) fn issue_query(
        &mut self,
        id: &TransactionId,
        request: &KeysQueryRequest,
    ) -> Result<HomeserverRequest, Failure> {
        let mut query = get_keys::v3::Request::new();
        query.timeout = request.timeout;
        query.device_keys.clone_from(&request.device_keys);
        self.register(id, Endpoint::KeysQuery, query)
    }

    /// Issues a claim of one-time keys.
    pub(crate) fn issue_claim(
        &mut self,
        id: &TransactionId,
        request: claim_keys::v3::Request,
    ) -> Result<HomeserverRequest, Failure> {
        self.register(id, Endpoint::KeysClaim, request)
    }

    /// Issues a message to devices.
    pub(crate) fn issue_to_device(
        &mut self,
        request: &ToDeviceRequest,
    ) -> Result<HomeserverRequest, Failure> {
        let send = send_event_to_device::v3::Request::new_raw(
            request.event_type.clone(),
            request.txn_id.clone(),
            request.messages.clone(),
        );
        self.register(&request.txn_id, Endpoint::ToDevice, send)
    }

    /// Issues an upload of a cross-signing identity.
    pub(crate) fn issue_identity(
        &mut self,
        request: upload_signing_keys::v3::Request,
    ) -> Result<HomeserverRequest, Failure> {
        self.register(&TransactionId::new(), Endpoint::SigningKeysUpload, request)
    }

    /// Keeps a request until it was answered.
    pub(crate) fn keep(&mut self, request: HomeserverRequest) {
        if self.kept.len() < MAX_KEPT {
            self.kept.push(request);
        }
    }

    /// Keeps a message of a verification until it was answered. Those in rooms are not supported.
    pub(crate) fn keep_verification(
        &mut self,
        request: OutgoingVerificationRequest,
    ) -> Result<(), Failure> {
        if let Some(request) = self.issue(&OutgoingRequest::from(request))? {
            self.keep(request);
        }
        Ok(())
    }

    /// Adds the kept requests to others, and sorts all by their first issue: a verification fails
    /// if its messages arrive in another order.
    pub(crate) fn with_kept(&self, mut others: Vec<HomeserverRequest>) -> Vec<HomeserverRequest> {
        others.extend(self.kept.iter().cloned());
        others.sort_by_key(|request| self.awaited.get(&request.id).map(|(order, _)| *order));
        others
    }

    fn register<R>(
        &mut self,
        id: &TransactionId,
        endpoint: Endpoint,
        request: R,
    ) -> Result<HomeserverRequest, Failure>
    where
        R: OutgoingRequestData
            + Metadata<Authentication = AccessToken, PathBuilder = VersionHistory>,
    {
        let request = as_data(id, request)?;
        let next = self.issued;
        self.issued += 1;
        // A request that is issued again keeps its place.
        self.awaited
            .entry(request.id.clone())
            .or_insert((next, endpoint));
        if self.awaited.len() > MAX_AWAITED {
            let oldest = self.awaited.iter().min_by_key(|(_, (order, _))| *order);
            if let Some(id) = oldest.map(|(id, _)| id.clone()) {
                self.awaited.remove(&id);
            }
        }
        Ok(request)
    }

    fn forget(&mut self, id: &str) {
        self.awaited.remove(id);
        self.kept.retain(|request| request.id != id);
    }
}

/// Returns method, path and body of a request.
fn as_data<R>(id: &TransactionId, request: R) -> Result<HomeserverRequest, Failure>
where
    R: OutgoingRequestData + Metadata<Authentication = AccessToken, PathBuilder = VersionHistory>,
{
    let versions = SupportedVersions {
        versions: [MatrixVersion::V1_1].into(),
        features: [].into(),
    };
    // The caller replaces the host, and adds its token.
    let request: http::Request<Vec<u8>> = request
        .try_into_http_request(
            "https://homeserver",
            SendAccessToken::IfRequired("-"),
            Cow::Owned(versions),
        )
        .map_err(failed("a request to the homeserver cannot be written"))?;
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str());
    let body = match request.body().as_slice() {
        [] => Value::Null,
        body => serde_json::from_slice(body)
            .map_err(failed("a request to the homeserver cannot be written"))?,
    };
    Ok(HomeserverRequest {
        id: id.to_string(),
        method: request.method().to_string(),
        path: path.to_owned(),
        body,
    })
}

impl Engine {
    /// Passes the response of a request to the machine.
    pub(crate) async fn answered(
        &mut self,
        id: &str,
        status: u16,
        body: &Value,
    ) -> Result<(), Failure> {
        let Some((_, endpoint)) = self.requests.awaited.get(id).copied() else {
            return Err(refused("no such request to the homeserver is awaited"));
        };
        if !(200..300).contains(&status) {
            // The homeserver will not accept these later either.
            if matches!(status, 400 | 403 | 404 | 413) {
                self.requests.forget(id);
            }
            return Ok(());
        }
        self.take_response(id, endpoint, body).await?;
        self.requests.forget(id);
        if endpoint == Endpoint::KeysQuery {
            self.publication.note_answer(self.machine.user_id(), body);
            self.retry_held_requests().await?;
        }
        self.advance_verifications().await
    }

    async fn take_response(
        &mut self,
        id: &str,
        endpoint: Endpoint,
        body: &Value,
    ) -> Result<(), Failure> {
        match endpoint {
            Endpoint::KeysUpload => {
                let response: upload_keys::v3::Response = parse(body)?;
                self.mark(id, &response).await
            }
            Endpoint::KeysQuery => {
                let response: get_keys::v3::Response = parse(body)?;
                self.mark(id, &response).await
            }
            Endpoint::KeysClaim => {
                let response: claim_keys::v3::Response = parse(body)?;
                self.mark(id, &response).await
            }
            Endpoint::ToDevice => {
                let response: send_event_to_device::v3::Response = parse(body)?;
                self.mark(id, &response).await
            }
            Endpoint::SignatureUpload => {
                let response: upload_signatures::v3::Response = parse(body)?;
                self.mark(id, &response).await
            }
            Endpoint::SigningKeysUpload => {
                let response: upload_signing_keys::v3::Response = parse(body)?;
                self.mark(id, AnyIncomingResponse::SigningKeysUpload(&response))
                    .await
            }
        }
    }

    async fn mark<'a>(
        &mut self,
        id: &str,
        response: impl Into<AnyIncomingResponse<'a>>,
    ) -> Result<(), Failure> {
        let taken = self.machine.mark_request_as_sent(id.into(), response);
        let taken = Box::pin(taken).await;
        self.is_ahead |= matches!(taken, Err(OlmError::Store(_)));
        taken.map_err(failed("a response of the homeserver cannot be taken"))
    }
}

fn parse<R: IncomingResponse>(body: &Value) -> Result<R, Failure> {
    let unreadable = || refused("a response of the homeserver cannot be read");
    let body = serde_json::to_vec(body).map_err(|_error| unreadable())?;
    R::try_from_http_response(http::Response::new(body)).map_err(|_error| unreadable())
}
