//! Requests of the REST API.

use std::fmt::Write as _;

use reqwest::Method;
use serenity::model::id::{ApplicationId, ChannelId, InteractionId, MessageId};

/// A request: its method, its path below the API's base, and its rate limit bucket.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) bucket: String,
}

impl Route {
    fn new(method: Method, path: String) -> Self {
        let bucket = format!("{method} {path}");
        Self {
            method,
            path,
            bucket,
        }
    }

    /// A route whose rate limit does not depend on the end of its path.
    fn shared(method: Method, path: String, bucket: &str) -> Self {
        let bucket = format!("{method} {bucket}");
        Self {
            method,
            path,
            bucket,
        }
    }

    pub(crate) fn me() -> Self {
        Self::new(Method::GET, "users/@me".to_owned())
    }

    pub(crate) fn gateway() -> Self {
        Self::new(Method::GET, "gateway/bot".to_owned())
    }

    pub(crate) fn channel(channel: ChannelId) -> Self {
        Self::new(Method::GET, format!("channels/{channel}"))
    }

    pub(crate) fn create_message(channel: ChannelId) -> Self {
        Self::new(Method::POST, format!("channels/{channel}/messages"))
    }

    /// Queries messages of a channel.
    pub(crate) fn messages(channel: ChannelId, query: &str) -> Self {
        let bucket = format!("channels/{channel}/messages");
        Self::shared(Method::GET, format!("{bucket}?{query}"), &bucket)
    }

    pub(crate) fn edit_message(channel: ChannelId, message: MessageId) -> Self {
        let bucket = format!("channels/{channel}/messages");
        Self::shared(Method::PATCH, format!("{bucket}/{message}"), &bucket)
    }

    pub(crate) fn delete_message(channel: ChannelId, message: MessageId) -> Self {
        let bucket = format!("channels/{channel}/messages");
        Self::shared(Method::DELETE, format!("{bucket}/{message}"), &bucket)
    }

    pub(crate) fn typing(channel: ChannelId) -> Self {
        Self::new(Method::POST, format!("channels/{channel}/typing"))
    }

    /// Sets (`PUT`) or removes (`DELETE`) the bot's own reaction.
    pub(crate) fn reaction(
        method: Method,
        channel: ChannelId,
        message: MessageId,
        emoji: &str,
    ) -> Self {
        let path = format!(
            "channels/{channel}/messages/{message}/reactions/{}/@me",
            encoded(emoji)
        );
        let bucket = format!("channels/{channel}/reactions");
        // Setting and removing share a rate limit.
        Self {
            bucket: format!("reactions {bucket}"),
            ..Self::new(method, path)
        }
    }

    pub(crate) fn set_commands(application: ApplicationId) -> Self {
        Self::new(Method::PUT, format!("applications/{application}/commands"))
    }

    pub(crate) fn interaction_callback(interaction: InteractionId, token: &str) -> Self {
        let path = format!("interactions/{interaction}/{}/callback", encoded(token));
        Self::shared(Method::POST, path, "interactions")
    }
}

fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else if write!(encoded, "%{byte:02X}").is_err() {
            // Writing to a string does not fail.
            break;
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emoji_are_encoded() {
        let route = Route::reaction(Method::PUT, ChannelId::new(1), MessageId::new(2), "👀");
        assert_eq!(
            route.path,
            "channels/1/messages/2/reactions/%F0%9F%91%80/@me"
        );
        assert_eq!(encoded("party:77"), "party%3A77");
    }
}
