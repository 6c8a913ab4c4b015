//! Invitations: accepted from people with access, and left alone otherwise.

use nanobot_channel::{Arrival, ChannelContext, ChatId, SenderId};
use reqwest::Method;
use serde_json::json;

use crate::api::Path;
use crate::channel::{Matrix, lock};
use crate::wire::{Event, text};

impl Matrix {
    /// Joins a room if the person who invites has access in a direct chat. Whether the messages of
    /// the room count is decided with each of them.
    pub(crate) async fn handle_invite(
        &self,
        room: &str,
        state: &[Event],
        context: &ChannelContext,
    ) {
        let Some(inviter) = inviter(state, &self.names().user_id) else {
            return;
        };
        let (sender, chat) = (SenderId::from(inviter), ChatId::from(room));
        let arrival = Arrival::direct();
        let is_allowed = context.access.allows(&sender, &chat, &arrival).await;
        let channel = &self.base.name;
        if !is_allowed {
            if lock(&self.ignored_invites).insert(format!("{room} {inviter}")) {
                tracing::warn!(%channel, room, inviter, "an invitation by a person without access is left alone");
            }
            return;
        }
        if is_encrypted(state)
            && self.encryption.is_enabled()
            && let Err(error) = self.encryption.upload_keys().await
        {
            tracing::warn!(
                %channel, room, %error,
                "the keys of the device are not uploaded before a join"
            );
        }
        let path = ["_matrix", "client", "v3", "rooms", room, "join"];
        let body = json!({});
        match self
            .api
            .call(Method::POST, Path::new(&path), Some(&body))
            .await
        {
            Ok(_) => tracing::info!(%channel, room, inviter, "joined a room"),
            Err(error) => {
                tracing::warn!(%channel, room, inviter, %error, "a room cannot be joined; the next start tries again");
            }
        }
    }
}

/// `true` if the stripped state of a room shows encryption. Then others may send encrypted messages
/// right after the join, and to devices with keys only.
fn is_encrypted(state: &[Event]) -> bool {
    state
        .iter()
        .any(|event| event.kind() == "m.room.encryption" && event.state_key() == Some(""))
}

/// Returns the person who invites `user`.
fn inviter<'a>(state: &'a [Event], user: &str) -> Option<&'a str> {
    let own = state.iter().find(|event| {
        event.kind() == "m.room.member"
            && event.state_key() == Some(user)
            && text(event.content(), "membership") == "invite"
    });
    own?.sender()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inviter_is_the_sender_of_the_own_invitation() {
        let member = |sender: &str, user: &str, membership: &str| {
            Event(json!({
                "type": "m.room.member", "sender": sender, "state_key": user,
                "content": {"membership": membership},
            }))
        };
        let state = [
            member("@eve:x", "@ann:x", "invite"),
            member("@bot:x", "@bot:x", "join"),
            member("@ann:x", "@bot:x", "invite"),
        ];
        assert_eq!(inviter(&state, "@bot:x"), Some("@ann:x"));
        assert_eq!(inviter(&state, "@eve:x"), None);
        assert_eq!(
            inviter(&[member("ann", "@bot:x", "invite")], "@bot:x"),
            None
        );
    }
}
