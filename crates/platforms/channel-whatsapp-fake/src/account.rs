//! The account that the bridge is linked to, and the token of its clients.

/// Token that clients have to send.
pub const TOKEN: &str = "TESTtokenOfTheWhatsAppFake0001";
/// JID of the account's phone number.
pub const ACCOUNT_ID: &str = "4915000000001@s.whatsapp.net";
/// The account's LID.
pub const ACCOUNT_LID: &str = "120000000000001@lid";
/// The account's name.
pub const ACCOUNT_NAME: &str = "nanobot";
