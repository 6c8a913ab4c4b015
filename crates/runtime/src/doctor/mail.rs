//! E-mail: whose mails are believed, and whether the connection is looked at often enough.

use nanobot_channel_email::EmailConfig;
use nanobot_channels::DeliverySettings;

use super::Chart;

/// Servers for incoming mail whose reports about senders name nobody, so that nobody can be named.
const NAMELESS: [&str; 2] = ["outlook.office365.com", "imap-mail.outlook.com"];

/// Looks at a section that can be used; `key` is its own.
pub(super) fn examine(chart: &mut Chart, key: &str, config: &EmailConfig, delivery: &DeliverySettings) {
    senders(chart, key, config);
    silence(chart, key, config, delivery);
}

fn senders(chart: &mut Chart, key: &str, config: &EmailConfig) {
    if !config.verify_dkim && !config.verify_spf {
        return chart.warn(
            "channels.senders",
            format!("{key}.verifyDkim and verifySpf are false: whoever knows an address that may write can use it"),
            format!("Set {key}.verifyDkim and {key}.verifySpf to true, unless the server lets nothing forged in."),
        );
    }
    let is_nameless = NAMELESS.contains(&config.imap_host.trim().to_lowercase().as_str());
    if config.authserv_id.is_none() && !is_nameless {
        let what = "is not set: what the uppermost report in a mail says of its sender is believed, also where a \
                    stranger wrote it";
        let remedy = "Open the source of a mail that arrived in the mailbox and find the uppermost header \
                      Authentication-Results. Its first word, such as mx.google.com, belongs into";
        chart.warn("channels.senders", format!("{key}.authservId {what}"), format!("{remedy} {key}.authservId."));
    }
}

/// A channel that says nothing for too long is made anew, also when all is well.
fn silence(chart: &mut Chart, key: &str, config: &EmailConfig, delivery: &DeliverySettings) {
    let (idle, answer, allowed) = (config.idle_seconds, config.request_timeout, delivery.alive_within_s);
    let longest = idle.saturating_add(answer);
    if longest < allowed {
        return;
    }
    chart.warn(
        "channels.silence",
        format!(
            "{key}: where no mail comes, the server is asked every {idle} s (idleSeconds) and may take {answer} s \
             (requestTimeout), but after {allowed} s without a sign of life (aliveWithinS) the channel is made anew"
        ),
        format!("Lower {key}.idleSeconds, or set {key}.aliveWithinS to more than {longest}."),
    );
}
