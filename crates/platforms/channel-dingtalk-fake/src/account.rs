//! The app, its robot and the organisation of the fake.

/// The app's Client ID, which is the code of its robot, too.
pub const CLIENT_ID: &str = "dingTESTclient0000001";
/// The app's Client Secret.
pub const CLIENT_SECRET: &str = "TESTsecretOfTheDingTalkFake01234";
/// The robot as a sender and as the target of mentions.
pub const ROBOT_USER_ID: &str = "$:LWCP_v1:$robot";
/// The robot's name.
pub const ROBOT_NAME: &str = "nanobot";
/// The organisation.
pub const CORP_ID: &str = "ding7e57000000000000";
/// A published template of AI cards, known from the start.
pub const CARD_TEMPLATE: &str = "7e570000-0000-0000-0000-000000000001.schema";
/// The variable of [`CARD_TEMPLATE`] that can be streamed.
pub const CARD_KEY: &str = "content";
/// Prefix of every access token.
pub const TOKEN_PREFIX: &str = "TESTtoken";
/// Prefix of every ticket for a connection.
pub const TICKET_PREFIX: &str = "TESTticket+=";
/// The topic of messages to the robot.
pub const MESSAGE_TOPIC: &str = "/v1.0/im/bot/messages/get";
/// The topic of pressed buttons on cards.
pub const CARD_TOPIC: &str = "/v1.0/card/instances/callback";
