//! The bot and the workspace of the fake.

/// The bot's token.
pub const BOT_TOKEN: &str = "xoxb-1111-2222-TESTbotTokenOfTheFake";
/// The app's token.
pub const APP_TOKEN: &str = "xapp-1-A0APP-3333-TESTappTokenOfTheFake";
/// The bot's user id.
pub const BOT_USER: &str = "U0BOT";
/// The workspace's id.
pub const TEAM: &str = "T0TEAM";
