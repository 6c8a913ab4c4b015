//! The table of calls.

use crate::route::Kind::{Any, Flag, List, Number, Object, OneOf, Text};
use crate::route::{Body, Field, Route, may, need};
use crate::state::MatrixState as State;

/// Names of the calls, as they are in [`Call::method`](crate::Call::method) and in
/// [`MatrixFake::fail_next`](crate::MatrixFake::fail_next).
pub const METHODS: &[&str] = &[
    "versions",
    "well_known",
    "login.flows",
    "login",
    "logout",
    "whoami",
    "capabilities",
    "sync",
    "filter.put",
    "filter.get",
    "create_room",
    "joined_rooms",
    "join",
    "leave",
    "invite",
    "send",
    "redact",
    "state",
    "state.get",
    "state.put",
    "messages",
    "event",
    "members",
    "joined_members",
    "typing",
    "receipt",
    "read_markers",
    "profile.get",
    "profile.put",
    "presence.put",
    "account_data.get",
    "account_data.put",
    "pushrules",
    "devices",
    "upload",
    "download",
    "download.unauthenticated",
    "media.config",
    "keys.upload",
    "keys.query",
    "keys.claim",
    "keys.changes",
    "keys.signing",
    "keys.signatures",
    "key_backup",
    "to_device",
];

const REASON: Body = Body::Optional(&[may("reason", Text)]);
const TIMEOUT: Field = may("timeout", Number);
const DIRECTION: Field = need("dir", OneOf(&["b", "f"]));
const DOWNLOAD: &[Field] = &[
    may("allow_remote", Flag),
    may("allow_redirect", Flag),
    may("timeout_ms", Number),
];
const MEMBERSHIP: Field = may(
    "membership",
    OneOf(&["join", "invite", "leave", "ban", "knock"]),
);
const NOT_MEMBERSHIP: Field = Field {
    name: "not_membership",
    ..MEMBERSHIP
};

pub(crate) const ROUTES: &[Route] = &[
    Route::get(
        "versions",
        "/_matrix/client/versions",
        State::announced_versions,
    )
    .open(),
    Route::get(
        "well_known",
        "/.well-known/matrix/client",
        State::well_known,
    )
    .open(),
    Route::get(
        "login.flows",
        "/_matrix/client/v3/login",
        State::login_flows,
    )
    .open(),
    Route::post(
        "login",
        "/_matrix/client/v3/login",
        Body::Fields(&[
            need("type", Text),
            may("identifier", Object),
            may("password", Text),
            may("device_id", Text),
            may("initial_device_display_name", Text),
            may("refresh_token", Flag),
        ]),
        State::log_in,
    )
    .open(),
    Route::post(
        "logout",
        "/_matrix/client/v3/logout",
        Body::Optional(&[]),
        State::log_out,
    ),
    Route::get("whoami", "/_matrix/client/v3/account/whoami", State::whoami),
    Route::get(
        "capabilities",
        "/_matrix/client/v3/capabilities",
        State::capabilities,
    ),
    Route::get("sync", "/_matrix/client/v3/sync", State::begin_sync).with_query(&[
        may("filter", Text),
        may("since", Text),
        may("full_state", Flag),
        may("set_presence", OneOf(&["offline", "online", "unavailable"])),
        TIMEOUT,
    ]),
    Route::post(
        "filter.put",
        "/_matrix/client/v3/user/{}/filter",
        Body::Object,
        State::put_filter,
    ),
    Route::get(
        "filter.get",
        "/_matrix/client/v3/user/{}/filter/{}",
        State::get_filter,
    ),
    Route::post(
        "create_room",
        "/_matrix/client/v3/createRoom",
        Body::Fields(&[
            may("creation_content", Object),
            may("initial_state", List),
            may("invite", List),
            may("is_direct", Flag),
            may("name", Text),
            may("power_level_content_override", Object),
            may(
                "preset",
                OneOf(&["private_chat", "public_chat", "trusted_private_chat"]),
            ),
            may("room_alias_name", Text),
            may("room_version", Text),
            may("topic", Text),
            may("visibility", OneOf(&["public", "private"])),
        ]),
        State::create_room_call,
    ),
    Route::get(
        "joined_rooms",
        "/_matrix/client/v3/joined_rooms",
        State::joined_rooms,
    ),
    Route::post("join", "/_matrix/client/v3/join/{}", REASON, State::join)
        .with_query(&[may("server_name", Text), may("via", Text)]),
    Route::post(
        "join",
        "/_matrix/client/v3/rooms/{}/join",
        REASON,
        State::join,
    ),
    Route::post(
        "leave",
        "/_matrix/client/v3/rooms/{}/leave",
        REASON,
        State::leave,
    ),
    Route::post(
        "invite",
        "/_matrix/client/v3/rooms/{}/invite",
        Body::Fields(&[need("user_id", Text), may("reason", Text)]),
        State::invite_call,
    ),
    Route::put(
        "send",
        "/_matrix/client/v3/rooms/{}/send/{}/{}",
        Body::Object,
        State::send,
    ),
    Route::put(
        "redact",
        "/_matrix/client/v3/rooms/{}/redact/{}/{}",
        Body::Fields(&[may("reason", Text)]),
        State::redact,
    ),
    Route::get(
        "state",
        "/_matrix/client/v3/rooms/{}/state",
        State::read_state,
    ),
    Route::get(
        "state.get",
        "/_matrix/client/v3/rooms/{}/state/{}",
        State::get_state,
    ),
    Route::get(
        "state.get",
        "/_matrix/client/v3/rooms/{}/state/{}/",
        State::get_state,
    ),
    Route::get(
        "state.get",
        "/_matrix/client/v3/rooms/{}/state/{}/{}",
        State::get_state,
    ),
    Route::put(
        "state.put",
        "/_matrix/client/v3/rooms/{}/state/{}",
        Body::Object,
        State::put_state,
    ),
    Route::put(
        "state.put",
        "/_matrix/client/v3/rooms/{}/state/{}/",
        Body::Object,
        State::put_state,
    ),
    Route::put(
        "state.put",
        "/_matrix/client/v3/rooms/{}/state/{}/{}",
        Body::Object,
        State::put_state,
    ),
    Route::get(
        "messages",
        "/_matrix/client/v3/rooms/{}/messages",
        State::messages,
    )
    .with_query(&[
        DIRECTION,
        may("from", Text),
        may("to", Text),
        may("limit", Number),
        may("filter", Text),
    ]),
    Route::get(
        "event",
        "/_matrix/client/v3/rooms/{}/event/{}",
        State::event,
    ),
    Route::get(
        "members",
        "/_matrix/client/v3/rooms/{}/members",
        State::room_members,
    )
    .with_query(&[may("at", Text), MEMBERSHIP, NOT_MEMBERSHIP]),
    Route::get(
        "joined_members",
        "/_matrix/client/v3/rooms/{}/joined_members",
        State::joined_members,
    ),
    Route::put(
        "typing",
        "/_matrix/client/v3/rooms/{}/typing/{}",
        Body::Fields(&[need("typing", Flag), TIMEOUT]),
        State::type_in,
    ),
    Route::post(
        "receipt",
        "/_matrix/client/v3/rooms/{}/receipt/{}/{}",
        Body::Fields(&[may("thread_id", Text)]),
        State::receipt,
    ),
    Route::post(
        "read_markers",
        "/_matrix/client/v3/rooms/{}/read_markers",
        Body::Fields(&[
            may("m.fully_read", Text),
            may("m.read", Text),
            may("m.read.private", Text),
        ]),
        State::read_markers,
    ),
    Route::get(
        "profile.get",
        "/_matrix/client/v3/profile/{}",
        State::get_profile,
    )
    .open(),
    Route::get(
        "profile.get",
        "/_matrix/client/v3/profile/{}/{}",
        State::get_profile,
    )
    .open(),
    Route::put(
        "profile.put",
        "/_matrix/client/v3/profile/{}/{}",
        Body::Object,
        State::put_profile,
    ),
    Route::put(
        "presence.put",
        "/_matrix/client/v3/presence/{}/status",
        Body::Fields(&[
            need("presence", OneOf(&["offline", "online", "unavailable"])),
            may("status_msg", Text),
        ]),
        State::put_presence,
    ),
    Route::get(
        "account_data.get",
        "/_matrix/client/v3/user/{}/account_data/{}",
        State::get_account_data,
    ),
    Route::put(
        "account_data.put",
        "/_matrix/client/v3/user/{}/account_data/{}",
        Body::Object,
        State::put_account_data,
    ),
    Route::get(
        "account_data.get",
        "/_matrix/client/v3/user/{}/rooms/{}/account_data/{}",
        State::get_account_data,
    ),
    Route::put(
        "account_data.put",
        "/_matrix/client/v3/user/{}/rooms/{}/account_data/{}",
        Body::Object,
        State::put_account_data,
    ),
    Route::get(
        "pushrules",
        "/_matrix/client/v3/pushrules/",
        State::push_rules,
    ),
    Route::get("devices", "/_matrix/client/v3/devices", State::list_devices),
    Route::post(
        "upload",
        "/_matrix/media/v3/upload",
        Body::Bytes,
        State::upload,
    )
    .with_query(&[may("filename", Text)]),
    Route::get(
        "download",
        "/_matrix/client/v1/media/download/{}/{}",
        State::download,
    )
    .with_query(DOWNLOAD),
    Route::get(
        "download",
        "/_matrix/client/v1/media/download/{}/{}/{}",
        State::download,
    )
    .with_query(DOWNLOAD),
    Route::get(
        "download.unauthenticated",
        "/_matrix/media/v3/download/{}/{}",
        State::download_unauthenticated,
    )
    .with_query(DOWNLOAD)
    .open(),
    Route::get(
        "download.unauthenticated",
        "/_matrix/media/v3/download/{}/{}/{}",
        State::download_unauthenticated,
    )
    .with_query(DOWNLOAD)
    .open(),
    Route::get(
        "media.config",
        "/_matrix/client/v1/media/config",
        State::media_config,
    ),
    Route::get(
        "media.config",
        "/_matrix/media/v3/config",
        State::media_config,
    ),
    Route::post(
        "keys.upload",
        "/_matrix/client/v3/keys/upload",
        Body::Fields(&[
            may("device_keys", Object),
            may("one_time_keys", Object),
            may("fallback_keys", Object),
        ]),
        State::upload_keys,
    ),
    Route::post(
        "keys.query",
        "/_matrix/client/v3/keys/query",
        Body::Fields(&[need("device_keys", Object), TIMEOUT, may("token", Text)]),
        State::query_keys,
    ),
    Route::post(
        "keys.claim",
        "/_matrix/client/v3/keys/claim",
        Body::Fields(&[need("one_time_keys", Object), TIMEOUT]),
        State::claim_keys,
    ),
    Route::get(
        "keys.changes",
        "/_matrix/client/v3/keys/changes",
        State::changed_keys,
    )
    .with_query(&[need("from", Text), need("to", Text)]),
    Route::post(
        "keys.signing",
        "/_matrix/client/v3/keys/device_signing/upload",
        Body::Fields(&[
            may("auth", Any),
            may("master_key", Object),
            may("self_signing_key", Object),
            may("user_signing_key", Object),
        ]),
        State::upload_signing_keys,
    ),
    Route::post(
        "keys.signatures",
        "/_matrix/client/v3/keys/signatures/upload",
        Body::Object,
        State::upload_signatures,
    ),
    Route::get(
        "key_backup",
        "/_matrix/client/v3/room_keys/version",
        State::key_backup,
    ),
    Route::put(
        "to_device",
        "/_matrix/client/v3/sendToDevice/{}/{}",
        Body::Fields(&[need("messages", Object)]),
        State::send_to_device,
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_of_calls_are_listed() {
        let names: BTreeSet<_> = ROUTES.iter().map(|route| route.name).collect();
        let listed: BTreeSet<_> = METHODS.iter().copied().collect();
        assert_eq!((names, listed.len()), (listed.clone(), METHODS.len()));
    }
}
