//! To-device events.

use serde_json::{Value, json};

use crate::api::{ApiError, ApiResult, nothing};
use crate::model::Transaction;
use crate::params::Params;
use crate::state::MatrixState;

impl MatrixState {
    pub(crate) fn send_to_device(&mut self, params: &Params) -> ApiResult {
        let messages = params.object("messages");
        if messages.values().any(|devices| !devices.is_object()) {
            return Err(ApiError::malformed("messages is invalid"));
        }
        let transaction = Transaction {
            body: Value::Object(params.body.clone()),
            event_id: String::new(),
        };
        let place = params.place.clone();
        if let Some(device) = self.device_mut(&params.user, &params.device)
            && device.transactions.insert(place, transaction).is_some()
        {
            return nothing();
        }
        for (user, devices) in messages {
            for (device, content) in devices.as_object().into_iter().flatten() {
                let event = json!({
                    "type": params.segment(0), "sender": params.user, "content": content,
                });
                for device in self.devices_named(&user, device) {
                    self.add_to_device(&user, &device, event.clone());
                }
            }
        }
        nothing()
    }

    /// Returns the devices of a user with this name; `*` names all.
    fn devices_named(&self, user: &str, name: &str) -> Vec<String> {
        let user = self.users.get(user).into_iter();
        let devices = user.flat_map(|user| user.devices.keys());
        let named = devices.filter(|device| name == "*" || *device == name);
        named.cloned().collect()
    }

    pub(crate) fn add_to_device(&mut self, user: &str, device: &str, event: Value) {
        let position = self.next_position();
        if let Some(device) = self.device_mut(user, device) {
            device.inbox.insert(position, event);
        }
    }
}
