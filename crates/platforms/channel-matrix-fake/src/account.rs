//! Accounts: the bot, people and their devices.

/// Name of the homeserver, the part after the colon of every id.
pub const SERVER_NAME: &str = "fake.test";
/// The bot's user id.
pub const BOT_ID: &str = "@nanobot:fake.test";
/// The bot's display name.
pub const BOT_NAME: &str = "nanobot";
/// The bot's password.
pub const BOT_PASSWORD: &str = "TESTpasswordOfTheMatrixFake";
/// An access token of the bot, for the device [`BOT_DEVICE`].
pub const BOT_TOKEN: &str = "syt_TESTtokenOfTheMatrixFake_0123456789";
/// The device of [`BOT_TOKEN`].
pub const BOT_DEVICE: &str = "NANOBOTDEV";

/// A person with an account at the homeserver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// The user id (`@ann:fake.test`).
    pub user_id: String,
    /// The display name.
    pub name: String,
}

impl Person {
    /// Returns a person whose user id has this local part, which is also the name.
    #[must_use]
    pub fn new(local: &str) -> Self {
        Self {
            user_id: format!("@{local}:{SERVER_NAME}"),
            name: local.to_owned(),
        }
    }

    /// Returns the local part of the user id.
    #[must_use]
    pub fn local(&self) -> &str {
        let rest = self.user_id.trim_start_matches('@');
        rest.split(':').next().unwrap_or_default()
    }

    /// Returns the id of the room of this person and the bot.
    #[must_use]
    pub fn direct(&self) -> String {
        format!("!direct-{}:{SERVER_NAME}", self.local())
    }

    /// Returns the password of the account.
    #[must_use]
    pub fn password(&self) -> String {
        format!("TESTpassword-{}", self.local())
    }
}

/// A device that is logged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The user id.
    pub user_id: String,
    /// The password of the account.
    pub password: String,
    /// The id of the device.
    pub device_id: String,
    /// The access token of the device.
    pub access_token: String,
}
