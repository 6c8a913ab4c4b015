//! Checks e-mail: which senders are trusted, and whether the connection is checked often enough.

use nanobot_channel_email::EmailConfig;
use nanobot_channels::DeliverySettings;

use super::FindingList;

/// Checks a valid section; `key` is its name.
pub(super) fn examine(
    list: &mut FindingList,
    key: &str,
    config: &EmailConfig,
    delivery: &DeliverySettings,
) {
    check_senders(list, key, config);
    check_idle_interval(list, key, config, delivery);
}

fn check_senders(list: &mut FindingList, key: &str, config: &EmailConfig) {
    if !config.verifies() {
        return list.warn(
            "channels.senders",
            format!("{key}.verifyDkim and verifySpf are false: anyone who knows an allowed address can use it"),
            format!("Set {key}.verifyDkim and {key}.verifySpf to true, unless the server lets nothing forged in."),
        );
    }
    if config.lacks_reporter() {
        let what = "is not set, so no mail is believed and all of it stays unread";
        let remedy = format!(
            "`nanobot channels login` learns it from a mail that you send to the assistant. Or open the source of a \
             mail that arrived there: the first word of the uppermost header Authentication-Results, such as \
             mx.google.com, belongs into {key}.authservId."
        );
        list.fault(
            "channels.senders",
            format!("{key}.authservId {what}"),
            remedy,
        );
    }
}

/// Reports an interval that is too long: the channel manager restarts a channel without a sign of
/// life even if all is well.
fn check_idle_interval(
    list: &mut FindingList,
    key: &str,
    config: &EmailConfig,
    delivery: &DeliverySettings,
) {
    let (idle, answer, allowed) = (
        config.idle_seconds,
        config.request_timeout,
        delivery.alive_within_s,
    );
    let longest = idle.saturating_add(answer);
    if longest < allowed {
        return;
    }
    list.warn(
        "channels.silence",
        format!(
            "{key}: where no mail comes, the server is asked every {idle} s (idleSeconds) and may take {answer} s \
             (requestTimeout), but after {allowed} s without a sign of life (aliveWithinS) the channel is made anew"
        ),
        format!("Lower {key}.idleSeconds, or set {key}.aliveWithinS to more than {longest}."),
    );
}
