//! Interactive verifications by emoji, over messages between devices or in a room.
//!
//! Decision: accepting a verification accepts its comparison too, so that a person decides twice:
//! to begin, and on the emoji. The machine keeps verifications in memory only: a restart ends them.

use matrix_sdk_common::{
    deserialized_responses::ProcessedToDeviceEvent,
    ruma::{
        OwnedUserId, UserId,
        events::{AnyTimelineEvent, AnyToDeviceEvent, key::verification::VerificationMethod},
        serde::Raw,
    },
};
use matrix_sdk_crypto::{
    OlmMachine, Sas, SasState, Verification as Kind, VerificationRequest, VerificationRequestState,
};
use nanobot_matrix_crypto::{Verification, VerificationState, protocol::Failure};
use serde::Deserialize;

use crate::{
    engine::Engine,
    fault::{failed, refused},
};

/// Maximum number of verifications at a time. Others are ignored.
const MAX_FLOWS: usize = 32;

/// Maximum number of events that wait for the keys of their sender.
const MAX_HELD: usize = 16;

/// Maximum length of an id of a flow, which the other side chooses.
const MAX_ID: usize = 255;

/// The verifications since the start that were not reported as ended.
#[derive(Default)]
pub(crate) struct Verifications {
    flows: Vec<Flow>,
    /// Requests from devices that were unknown when they came.
    held: Vec<Raw<AnyToDeviceEvent>>,
    /// Such requests in rooms, with sender and device.
    held_in_rooms: Vec<(OwnedUserId, String, Raw<AnyTimelineEvent>)>,
}

/// A verification with one person.
struct Flow {
    id: String,
    user: OwnedUserId,
    /// `None` for a comparison that was started without a request.
    request: Option<VerificationRequest>,
    sas: Option<Box<Sas>>,
    is_accepted: bool,
}

/// The start of a flow, in an event of its initiator.
#[derive(Deserialize)]
struct Start {
    sender: OwnedUserId,
    #[serde(rename = "type")]
    kind: String,
    content: StartContent,
}

#[derive(Deserialize)]
struct StartContent {
    transaction_id: String,
    from_device: String,
}

impl Verifications {
    /// Returns all verifications, and forgets those that have ended.
    pub(crate) fn report(&mut self) -> Vec<Verification> {
        let report: Vec<Verification> = self.flows.iter().map(Flow::describe).collect();
        self.flows.retain(|flow| !flow.state().has_ended());
        report
    }

    fn find(&mut self, id: &str) -> Result<&mut Flow, Failure> {
        let flow = self.flows.iter_mut().find(|flow| flow.id == id);
        flow.ok_or_else(|| refused("there is no such verification"))
    }
}

impl Flow {
    fn describe(&self) -> Verification {
        let of_request = self
            .request
            .as_ref()
            .and_then(VerificationRequest::other_device_id);
        let of_sas = self
            .sas
            .as_ref()
            .map(|sas| sas.other_device_id().to_owned());
        Verification {
            id: self.id.clone(),
            user_id: self.user.to_string(),
            device_id: of_request.or(of_sas).map(|device| device.to_string()),
            room_id: self.room_id(),
            state: self.state(),
        }
    }

    fn room_id(&self) -> Option<String> {
        let of_request = self.request.as_ref().and_then(VerificationRequest::room_id);
        of_request.map(ToString::to_string)
    }

    fn state(&self) -> VerificationState {
        if let Some(sas) = &self.sas {
            return self.state_of(&sas.state());
        }
        match self.request.as_ref().map(VerificationRequest::state) {
            Some(VerificationRequestState::Requested { .. }) if !self.is_accepted => {
                VerificationState::Requested
            }
            Some(VerificationRequestState::Done) => VerificationState::Done,
            Some(VerificationRequestState::Cancelled(info)) => VerificationState::Cancelled {
                why: info.reason().to_owned(),
            },
            Some(
                VerificationRequestState::Created { .. }
                | VerificationRequestState::Requested { .. }
                | VerificationRequestState::Ready { .. }
                | VerificationRequestState::Transitioned { .. },
            )
            | None => VerificationState::Waiting,
        }
    }

    fn state_of(&self, state: &SasState) -> VerificationState {
        match state {
            SasState::Started { .. } if !self.is_accepted => VerificationState::Requested,
            SasState::Created { .. } | SasState::Started { .. } | SasState::Accepted { .. } => {
                VerificationState::Waiting
            }
            SasState::KeysExchanged { emojis, .. } => {
                let emoji = emojis.iter().flat_map(|emojis| &emojis.emojis);
                let pair = |emoji: &matrix_sdk_crypto::Emoji| {
                    (emoji.symbol.to_owned(), emoji.description.to_owned())
                };
                VerificationState::Comparing {
                    emoji: emoji.map(pair).collect(),
                }
            }
            SasState::Confirmed => VerificationState::Confirmed,
            SasState::Done { .. } => VerificationState::Done,
            SasState::Cancelled(info) => VerificationState::Cancelled {
                why: info.reason().to_owned(),
            },
        }
    }

    /// Fetches what the machine has made of the flow.
    fn refresh(&mut self, machine: &OlmMachine) {
        if self.sas.is_none() {
            let found = machine.get_verification(&self.user, &self.id);
            self.sas = found.and_then(Kind::sas_v1);
        }
    }
}

impl Engine {
    /// Notes the verifications that begin with these events.
    pub(crate) async fn note_verifications(
        &mut self,
        events: &[ProcessedToDeviceEvent],
    ) -> Result<(), Failure> {
        for event in events {
            let event = event.as_raw();
            let Ok(start) = serde_json::from_str::<Start>(event.json().get()) else {
                continue;
            };
            if start.content.transaction_id.len() > MAX_ID {
                continue;
            }
            match start.kind.as_str() {
                "m.key.verification.request" => self.note_request(event, start).await?,
                "m.key.verification.start" => {
                    self.note_flow(start.sender, start.content.transaction_id);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Notes a request; holds it until the keys of its sender are known.
    async fn note_request(
        &mut self,
        event: &Raw<AnyToDeviceEvent>,
        start: Start,
    ) -> Result<(), Failure> {
        let device = &start.content.from_device;
        if self.knows_device(&start.sender, device).await? {
            self.note_flow(start.sender, start.content.transaction_id);
        } else if self.verifications.held.len() < MAX_HELD {
            self.verifications.held.push(event.clone());
            self.query_keys_of(&start.sender)?;
        }
        Ok(())
    }

    /// Holds a request in a room until the keys of its sender are known. `false` if they are.
    pub(crate) async fn hold_room_request(
        &mut self,
        sender: &UserId,
        device: &str,
        event: &Raw<AnyTimelineEvent>,
    ) -> Result<bool, Failure> {
        if self.knows_device(sender, device).await? {
            return Ok(false);
        }
        let held = &mut self.verifications.held_in_rooms;
        if held.len() < MAX_HELD {
            held.push((sender.to_owned(), device.to_owned(), event.clone()));
            self.query_keys_of(sender)?;
        }
        Ok(true)
    }

    async fn knows_device(&self, user: &UserId, device: &str) -> Result<bool, Failure> {
        let found = self.machine.get_device(user, device.into(), None).await;
        let found = found.map_err(failed("the store cannot be read"))?;
        Ok(found.is_some())
    }

    fn query_keys_of(&mut self, user: &UserId) -> Result<(), Failure> {
        let (id, query) = self.machine.query_keys_for_users([user]);
        let query = self.requests.issue_query(&id, &query)?;
        self.requests.keep(query);
        Ok(())
    }

    /// Adds a verification that `user` has begun.
    pub(crate) fn note_flow(&mut self, user: OwnedUserId, id: String) {
        let flows = &mut self.verifications.flows;
        // An id is used once: another person must not get the answers to this one.
        if flows.len() >= MAX_FLOWS || flows.iter().any(|flow| flow.id == id) {
            return;
        }
        let request = self.machine.get_verification_request(&user, &id);
        let sas = self.machine.get_verification(&user, &id);
        let sas = sas.and_then(Kind::sas_v1);
        // The machine ignores requests that are too old.
        if request.is_some() || sas.is_some() {
            flows.push(Flow {
                id,
                user,
                request,
                sas,
                is_accepted: false,
            });
        }
    }

    /// Takes held requests again, after keys have come. They are held no second time.
    pub(crate) async fn retry_held_requests(&mut self) -> Result<(), Failure> {
        let mut held = Vec::new();
        for event in std::mem::take(&mut self.verifications.held) {
            let Ok(start) = serde_json::from_str::<Start>(event.json().get()) else {
                continue;
            };
            if self
                .knows_device(&start.sender, &start.content.from_device)
                .await?
            {
                held.push(event);
            }
        }
        for (sender, device, event) in std::mem::take(&mut self.verifications.held_in_rooms) {
            if self.knows_device(&sender, &device).await? {
                self.note_room_event(&event).await?;
            }
        }
        if held.is_empty() {
            return Ok(());
        }
        Box::pin(self.receive_again(held)).await
    }

    /// Does what needs no decision: starts and accepts comparisons.
    pub(crate) async fn advance_verifications(&mut self) -> Result<(), Failure> {
        let mut messages = Vec::new();
        for flow in &mut self.verifications.flows {
            flow.refresh(&self.machine);
            if !flow.is_accepted {
                continue;
            }
            let request = flow.request.as_ref();
            if let Some(request) =
                request.filter(|r| flow.sas.is_none() && r.is_ready() && r.we_started())
            {
                let started = request.start_sas().await;
                if let Some((sas, message)) = started.map_err(failed("no comparison"))? {
                    flow.sas = Some(Box::new(sas));
                    messages.push(message);
                }
            }
            let Some(sas) = &flow.sas else { continue };
            match sas.state() {
                SasState::Started { .. } if !sas.we_started() => messages.extend(sas.accept()),
                SasState::KeysExchanged { emojis: None, .. } => messages.extend(sas.cancel()),
                SasState::Created { .. }
                | SasState::Started { .. }
                | SasState::Accepted { .. }
                | SasState::KeysExchanged { .. }
                | SasState::Confirmed
                | SasState::Done { .. }
                | SasState::Cancelled(_) => {}
            }
        }
        for message in messages {
            self.requests.keep_verification(message)?;
        }
        Ok(())
    }

    /// Asks the user of a device for a verification.
    pub(crate) async fn verify(
        &mut self,
        user_id: &str,
        device_id: &str,
    ) -> Result<Verification, Failure> {
        let user = UserId::parse(user_id).map_err(failed("the user id is invalid"))?;
        if self.verifications.flows.len() >= MAX_FLOWS {
            return Err(refused("too many verifications are in progress"));
        }
        let device = self.machine.get_device(&user, device_id.into(), None).await;
        let device = device
            .map_err(failed("the store cannot be read"))?
            .ok_or_else(|| refused("the device is not known"))?;
        let methods = vec![VerificationMethod::SasV1];
        let (request, message) = device.request_verification_with_methods(methods);
        self.requests.keep_verification(message)?;
        let flow = Flow {
            id: request.flow_id().as_str().to_owned(),
            user,
            request: Some(request),
            sas: None,
            is_accepted: true,
        };
        let verification = flow.describe();
        self.verifications.flows.push(flow);
        Ok(verification)
    }

    /// Accepts a verification, by emoji.
    pub(crate) async fn accept(&mut self, id: &str) -> Result<(), Failure> {
        // Issues what the machine wants to send before.
        self.outgoing().await?;
        let flow = self.verifications.find(id)?;
        if flow.is_accepted || flow.state() != VerificationState::Requested {
            return Err(refused("the verification cannot be accepted (any more)"));
        }
        flow.is_accepted = true;
        if let Some(request) = &flow.request {
            let message = request.accept_with_methods(vec![VerificationMethod::SasV1]);
            if let Some(message) = message {
                self.requests.keep_verification(message)?;
            }
        }
        self.advance_verifications().await
    }

    /// Confirms a comparison, or cancels a verification.
    pub(crate) async fn compare(&mut self, id: &str, is_same: bool) -> Result<(), Failure> {
        // Issues what the machine wants to send before.
        self.outgoing().await?;
        let flow = self.verifications.find(id)?;
        if !is_same {
            let of_sas = flow.sas.as_ref().and_then(|sas| sas.cancel());
            let of_request = || flow.request.as_ref().and_then(VerificationRequest::cancel);
            if let Some(message) = of_sas.or_else(of_request) {
                self.requests.keep_verification(message)?;
            }
            return Ok(());
        }
        let can_confirm = matches!(flow.state(), VerificationState::Comparing { .. });
        let Some(sas) = flow.sas.clone().filter(|_| can_confirm) else {
            return Err(refused("there is nothing to compare"));
        };
        let confirmed = Box::pin(sas.confirm()).await;
        let (messages, signatures) =
            confirmed.map_err(failed("the verification cannot be stored"))?;
        for message in messages {
            self.requests.keep_verification(message)?;
        }
        if let Some(signatures) = signatures
            && let Some(upload) = self.requests.issue(&signatures.into())?
        {
            self.requests.keep(upload);
        }
        Ok(())
    }
}
