//! The bot of the fake and its group.

/// The bot's Claw token.
pub const CLAW_TOKEN: &str = "claw_TESTtokenOfTheMochatFake0123456789";
/// The bot's user id.
pub const BOT_USER_ID: &str = "7e5700000000000000000b07";
/// The bot's name.
pub const BOT_NAME: &str = "nanobot";
/// The bot's group, to which every panel belongs.
pub const GROUP_ID: &str = "7e5700000000000000006009";
/// The bot's workspace.
pub const WORKSPACE_ID: &str = "claw_square";
/// The call that subscribes to sessions.
pub const SUBSCRIBE_SESSIONS: &str = "com.claw.im.subscribeSessions";
/// The call that subscribes to panels.
pub const SUBSCRIBE_PANELS: &str = "com.claw.im.subscribePanels";
/// The event with news of a session.
pub const SESSION_EVENTS: &str = "claw.session.events";
/// The event with news of a panel.
pub const PANEL_EVENTS: &str = "claw.panel.events";
/// The notification of a message for the bot itself.
pub const INBOX_APPEND: &str = "notify:chat.inbox.append";
