//! The header of a mail: sender, thread, and signs of an automatic mail. It is enough to decide if
//! a mail is for the assistant.

use nanobot_extract::MailHeader;

use crate::EmailConfig;
use crate::authentication::{Authenticity, reporter};
use crate::config::NAMELESS;
use crate::text::in_one_line;
use crate::thread::{MessageIds, is_message_id};

/// Maximum length of a subject that is kept, in characters.
const SUBJECT_LIMIT: usize = 500;
/// Maximum length of a name and of a date, in characters.
const FIELD_LIMIT: usize = 100;

/// The header of a mail that a person may have written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    /// The address, ASCII letters in lower case: other alphabets have letters that fold onto ASCII
    /// ones.
    pub(crate) sender: String,
    /// The address with the name in front of it.
    pub(crate) shown_sender: String,
    /// Decoded, in one line.
    pub(crate) subject: String,
    /// As it was written.
    pub(crate) date: String,
    pub(crate) ids: MessageIds,
    pub(crate) authenticity: Authenticity,
}

/// Reason to skip a mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Skip {
    /// There is no one to answer.
    #[error("it names no sender, or more than one")]
    NoSender,
    /// It cannot be parsed.
    #[error("it cannot be read")]
    Unreadable,
    /// The assistant wrote it.
    #[error("it comes from the assistant's own address")]
    Own,
    /// Answering it may begin an endless conversation of two machines.
    #[error("it was sent by a machine ({0})")]
    Automatic(&'static str),
    /// The sender may be forged.
    #[error("its sender is not proven ({0})")]
    Unproven(&'static str),
}

impl Skip {
    /// `true` if a person should look at the mail.
    pub(crate) fn is_odd(self) -> bool {
        matches!(self, Self::NoSender | Self::Unreadable)
    }
}

impl Envelope {
    /// Reads a header.
    pub(crate) fn read(header: &MailHeader, config: &EmailConfig) -> Result<Self, Skip> {
        let (sender, shown_sender) = sender(header).ok_or(Skip::NoSender)?;
        if config.own_addresses().contains(&sender) {
            return Err(Skip::Own);
        }
        if let Some(sign) = sign_of_a_machine(header, &sender) {
            return Err(Skip::Automatic(sign));
        }
        let domain = sender.rsplit('@').next().unwrap_or_default();
        let reports = header.values("Authentication-Results");
        let authenticity = Authenticity::read(reports, config.reporter(), domain);
        if config.lacks_reporter() {
            return Err(Skip::Unproven("authservId is not set"));
        }
        if config.verify_dkim && !authenticity.dkim {
            return Err(Skip::Unproven("no valid DKIM signature of its domain"));
        }
        if config.verify_spf && !authenticity.spf {
            return Err(Skip::Unproven("SPF did not pass"));
        }
        let subject = header.subject.as_deref().unwrap_or_default();
        let date = header.values("Date").next().unwrap_or_default();
        Ok(Self {
            sender,
            shown_sender,
            subject: in_one_line(subject, SUBJECT_LIMIT),
            date: in_one_line(date, FIELD_LIMIT),
            ids: ids(header),
            authenticity,
        })
    }
}

impl Envelope {
    /// `false` if the address says that answers to it are not read.
    pub(crate) fn takes_answers(&self) -> bool {
        let user = self.sender.split('@').next().unwrap_or_default();
        let letters: String = user.chars().filter(char::is_ascii_alphanumeric).collect();
        !["noreply", "donotreply"]
            .iter()
            .any(|name| letters.contains(name))
    }
}

/// Returns the name of the server that verifies the sender of a mail with `code` in its subject,
/// `-` for one without a name. `Some(None)` if no server does; `None` for every other mail.
pub(crate) fn reporter_named(header: &MailHeader, code: &str) -> Option<Option<String>> {
    header.subject.as_deref().filter(|subject| {
        subject
            .to_ascii_lowercase()
            .contains(&code.to_ascii_lowercase())
    })?;
    let (sender, _) = sender(header)?;
    let domain = sender.rsplit('@').next().unwrap_or_default();
    let reports: Vec<_> = header.values("Authentication-Results").collect();
    let named = |name: String| {
        if name.is_empty() {
            NAMELESS.to_owned()
        } else {
            name
        }
    };
    Some(reporter(reports.into_iter(), domain).map(named))
}

/// Returns the one address in `From`, alone and with its name.
fn sender(header: &MailHeader) -> Option<(String, String)> {
    let ([address], 1) = (header.from.as_slice(), header.values("From").count()) else {
        return None;
    };
    let written = address.address.as_deref()?.trim();
    // lettre parses it again for an answer, so both have to agree.
    let parsed: lettre::Address = written.parse().ok()?;
    if parsed.user().contains('|')
        || written
            .chars()
            .any(|letter| letter.is_whitespace() || letter.is_control())
    {
        return None;
    }
    let sender = parsed.to_string().to_ascii_lowercase();
    let name = in_one_line(address.name.as_deref().unwrap_or_default(), FIELD_LIMIT);
    let shown = if name.is_empty() {
        sender.clone()
    } else {
        format!("{name} <{sender}>")
    };
    Some((sender, shown))
}

/// Returns the sign of an automatic mail, if there is one (RFC 3834 and common practice).
fn sign_of_a_machine(header: &MailHeader, sender: &str) -> Option<&'static str> {
    let has = |name: &'static str, test: &dyn Fn(&str) -> bool| {
        header.values(name).any(|value| {
            test(
                value
                    .split([';', ' '])
                    .next()
                    .unwrap_or_default()
                    .to_lowercase()
                    .as_str(),
            )
        })
    };
    let is_there = |name| has(name, &|_| true);
    let user = sender.split('@').next().unwrap_or_default();
    if has("Auto-Submitted", &|value| value != "no") {
        return Some("Auto-Submitted");
    }
    if has("Precedence", &|value| {
        ["bulk", "list", "junk", "auto_reply"].contains(&value)
    }) {
        return Some("Precedence");
    }
    if ["List-Id", "List-Post", "List-Unsubscribe", "List-Help"]
        .into_iter()
        .any(is_there)
    {
        return Some("a mailing list");
    }
    let suppressed = |value: &str| {
        ["all", "autoreply", "oof"]
            .iter()
            .any(|word| value.to_lowercase().contains(word))
    };
    if header.values("X-Auto-Response-Suppress").any(suppressed) {
        return Some("X-Auto-Response-Suppress");
    }
    if ["X-Autoreply", "X-Autorespond", "X-Autoresponder", "X-Loop"]
        .into_iter()
        .any(is_there)
    {
        return Some("an automatic answer");
    }
    if has("Return-Path", &|value| value == "<>")
        || has("Content-Type", &|value| value == "multipart/report")
    {
        return Some("a report about another mail");
    }
    let machines = ["mailer-daemon", "postmaster"];
    machines
        .contains(&user)
        .then_some("an address of a mail server")
}

fn ids(header: &MailHeader) -> MessageIds {
    let bracketed = |id: &String| Some(format!("<{id}>")).filter(|id| is_message_id(id));
    MessageIds {
        own: header.message_id.as_ref().and_then(bracketed),
        parent: header.in_reply_to.iter().find_map(bracketed),
        references: header.references.iter().filter_map(bracketed).collect(),
    }
}

#[cfg(test)]
mod tests {
    use nanobot_extract::{ExtractRequest, ExtractResponse};

    use super::*;

    fn parsed(header: String) -> MailHeader {
        match nanobot_formats::read(ExtractRequest::MailHeader(header.into_bytes())) {
            Ok(ExtractResponse::MailHeader(header)) => header,
            other => unreachable!("{other:?}"),
        }
    }

    fn config() -> EmailConfig {
        let (smtp_username, authserv_id) = ("Bot@X.test".to_owned(), Some("mx".to_owned()));
        EmailConfig {
            smtp_username,
            authserv_id,
            ..EmailConfig::default()
        }
    }

    fn read(extra: &str) -> Result<Envelope, Skip> {
        let proof =
            "Authentication-Results: mx; dkim=pass header.d=x.test; spf=pass smtp.mailfrom=x.test";
        Envelope::read(&parsed(format!("{proof}\r\n{extra}\r\n\r\n")), &config())
    }

    #[test]
    fn header_is_parsed() {
        let header = "From: =?utf-8?q?Ann_=C3=84?= <Ann@X.test>\r\nSubject: =?iso-8859-1?Q?Gr=FC=DFe?=\r\n  again\r\n\
                      Date: Mon, 2 Nov 2026 10:00:00 +0100\r\nMessage-ID: <1@x.test>\r\nIn-Reply-To: <0@x.test>\r\n\
                      References: <a@x.test> <0@x.test>";
        let expected = Envelope {
            sender: "ann@x.test".to_owned(),
            shown_sender: "Ann Ä <ann@x.test>".to_owned(),
            subject: "Grüße again".to_owned(),
            date: "Mon, 2 Nov 2026 10:00:00 +0100".to_owned(),
            ids: MessageIds {
                own: Some("<1@x.test>".to_owned()),
                parent: Some("<0@x.test>".to_owned()),
                references: vec!["<a@x.test>".to_owned(), "<0@x.test>".to_owned()],
            },
            authenticity: Authenticity {
                dkim: true,
                spf: true,
            },
        };
        assert_eq!(read(header), Ok(expected));
    }

    #[test]
    fn unusable_headers_are_skipped() {
        let table = [
            ("Subject: x", Skip::NoSender),
            ("From: ann@x.test\r\nFrom: bob@x.test", Skip::NoSender),
            ("From: ann@x.test, bob@x.test", Skip::NoSender),
            ("From: us: ann@x.test;", Skip::NoSender),
            ("From: 1|ann@x.test", Skip::NoSender),
            ("From: nobody", Skip::NoSender),
            ("From: BOT@x.test", Skip::Own),
            (
                "From: ann@x.test\r\nAuto-Submitted: auto-replied; owner-email=\"a\"",
                Skip::Automatic("Auto-Submitted"),
            ),
            (
                "From: ann@x.test\r\nPrecedence: Bulk",
                Skip::Automatic("Precedence"),
            ),
            (
                "From: ann@x.test\r\nlist-id: <a.b>",
                Skip::Automatic("a mailing list"),
            ),
            (
                "From: ann@x.test\r\nX-Auto-Response-Suppress: All",
                Skip::Automatic("X-Auto-Response-Suppress"),
            ),
            (
                "From: ann@x.test\r\nX-Loop: ann@x.test",
                Skip::Automatic("an automatic answer"),
            ),
            (
                "From: ann@x.test\r\nReturn-Path: <>",
                Skip::Automatic("a report about another mail"),
            ),
            (
                "From: ann@x.test\r\nContent-Type: multipart/report; boundary=a",
                Skip::Automatic("a report about another mail"),
            ),
            (
                "From: Mailer-Daemon@x.test",
                Skip::Automatic("an address of a mail server"),
            ),
            (
                "From: ann@y.test",
                Skip::Unproven("no valid DKIM signature of its domain"),
            ),
        ];
        for (header, skip) in table {
            assert_eq!(read(header), Err(skip), "{header}");
        }
        assert!(read("From: ann@x.test\r\nX-Auto-Response-Suppress: DR, RN").is_ok());
        assert!(read("From: ann@x.test\r\nAuto-Submitted: no").is_ok());
        assert!(read("From: ann@x.test\r\nReturn-Path: <ann@x.test>").is_ok());
    }

    #[test]
    fn unicode_lookalikes_do_not_match_an_ascii_address() {
        let proof = "Authentication-Results: mx; dkim=pass header.d=kim.test; spf=pass smtp.mailfrom=kim.test";
        for (from, sender) in [
            ("Kim@KIM.test", Some("kim@kim.test")),
            ("\u{212a}im@kim.test", Some("\u{212a}im@kim.test")),
            ("k\u{130}m@kim.test", Some("k\u{130}m@kim.test")),
            ("kim@\u{212a}im.test", None),
        ] {
            let read = Envelope::read(
                &parsed(format!("{proof}\r\nFrom: {from}\r\n\r\n")),
                &config(),
            );
            assert_eq!(
                read.ok().map(|envelope| envelope.sender).as_deref(),
                sender,
                "{from}"
            );
        }
    }

    #[test]
    fn without_authserv_id_no_mail_is_trusted() {
        let proof =
            "Authentication-Results: mx; dkim=pass header.d=x.test; spf=pass smtp.mailfrom=x.test";
        let header = format!("{proof}\r\nFrom: ann@x.test\r\n\r\n");
        for (verify_dkim, verify_spf) in [(true, true), (true, false), (false, true)] {
            let config = EmailConfig {
                authserv_id: None,
                verify_dkim,
                verify_spf,
                ..config()
            };
            let skip = Skip::Unproven("authservId is not set");
            assert_eq!(Envelope::read(&parsed(header.clone()), &config), Err(skip));
        }
    }

    #[test]
    fn no_reply_senders_get_no_reply() {
        for (user, takes_answers) in [
            ("ann", true),
            ("norey.plymouth", true),
            ("noreply", false),
            ("No-Reply", false),
            ("do_not.reply", false),
            ("accounts-noreply", false),
            ("noreply+abc", false),
        ] {
            let envelope = read(&format!("From: {user}@x.test")).unwrap();
            assert_eq!(envelope.takes_answers(), takes_answers, "{user}");
        }
    }

    #[test]
    fn dkim_and_spf_can_each_be_disabled() {
        let header =
            |config| Envelope::read(&parsed("From: ann@x.test\r\n\r\n".to_owned()), &config);
        assert_eq!(
            header(EmailConfig {
                verify_dkim: false,
                ..config()
            }),
            Err(Skip::Unproven("SPF did not pass"))
        );
        assert!(
            header(EmailConfig {
                verify_dkim: false,
                verify_spf: false,
                ..config()
            })
            .is_ok()
        );
    }
}
