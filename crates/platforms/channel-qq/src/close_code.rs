//! The codes with which the gateway closes a connection (the bot documentation, "WebSocket error
//! codes"; 9001 and 9005 as the official client reads them).
//!
//! The documentation lets a session be resumed after 4008 and 4009 only. It is tried after every
//! unlisted code, too, because a refused attempt costs a connection, and a new session costs the
//! messages in between.

use nanobot_channel::ChannelError;
use nanobot_channel_kit::wrong;

/// The consequence of a code.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CloseMeaning {
    /// Another token may be accepted.
    TokenRefused,
    /// The session is unknown, or the number of an event is none of it.
    SessionOver,
    /// Another connection would not help. The function adds advice to the reason.
    Final(fn(&str) -> ChannelError),
    /// The session can be resumed.
    Interrupted,
}

impl CloseMeaning {
    /// Returns the meaning of a code.
    pub(crate) fn of(code: u16) -> Self {
        match code {
            4004 => Self::TokenRefused,
            4006 | 4007 | 9001 | 9005 => Self::SessionOver,
            4010 | 4011 => Self::Final(many_connections),
            4013 | 4014 => Self::Final(refused_events),
            4914 => Self::Final(unpublished),
            4915 => Self::Final(banned),
            _ => Self::Interrupted,
        }
    }
}

fn many_connections(why: &str) -> ChannelError {
    let advice = "is of a bot that needs several connections, which is not supported";
    wrong("appId", &format!("{advice}; {why}"))
}

fn refused_events(why: &str) -> ChannelError {
    let advice = "is of a bot that may not receive messages of people and groups: request these \
                  events on the bot's page at q.qq.com";
    wrong("appId", &format!("{advice}; {why}"))
}

fn unpublished(why: &str) -> ChannelError {
    let advice = "has to be true as long as the bot is not published: QQ lets it into its sandbox \
                  only";
    wrong("sandbox", &format!("{advice}; {why}"))
}

fn banned(why: &str) -> ChannelError {
    let advice = "QQ has banned the bot: appeal on its page at q.qq.com";
    ChannelError::Auth(format!("{advice}; {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn final_codes_give_advice_and_the_reason() {
        let table = [
            (4010, "appId: is of a bot that needs several connections"),
            (4014, "appId: is of a bot that may not receive messages"),
            (4914, "sandbox: has to be true"),
            (4915, "QQ has banned the bot"),
        ];
        for (code, advice) in table {
            let CloseMeaning::Final(error) = CloseMeaning::of(code) else {
                panic!("{code} is not final");
            };
            let error = error("no");
            assert!(error.is_permanent(), "{error}");
            let text = error.to_string();
            assert!(text.contains(advice) && text.ends_with("; no"), "{text}");
        }
    }

    #[test]
    fn other_codes_keep_the_session_or_end_it() {
        for code in [1000, 1006, 4008, 4009, 4900, 4913, 4999] {
            assert!(matches!(CloseMeaning::of(code), CloseMeaning::Interrupted));
        }
        for code in [4006, 4007, 9001, 9005] {
            assert!(matches!(CloseMeaning::of(code), CloseMeaning::SessionOver));
        }
    }
}
