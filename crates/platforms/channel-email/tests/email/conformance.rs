//! The conformance suite of the channel contract.

use std::sync::Arc;

use nanobot_channel::{Channel, SenderId, Value, async_trait};
use nanobot_channel_email_fake::{MailFake, MailFault, PASSWORD, SentMail};
use nanobot_testkit::conformance::{
    self, Ability, ChannelHarness, MessageCondition, ObservedChat, Participant, PlatformEvent,
    SampleFile, SendFault, UserMessage, VisibleMessage,
};
use serde_json::json;

use crate::support::{ANN, MALLORY, channel, mail, note, shown};

struct Harness {
    fake: MailFake,
    mails: u32,
    /// The number of the last mail that arrived, and what it is.
    last: (u32, String),
}

impl Harness {
    fn push(&mut self, mail: String) {
        self.last = (self.fake.push(mail.clone()), mail);
    }
}

fn address(chat: ObservedChat) -> &'static str {
    if chat == ObservedChat::Stranger {
        MALLORY
    } else {
        ANN
    }
}

fn keys() -> Value {
    json!({
        "idleSeconds": 1, "allowedAttachmentTypes": ["*"], "maxBodyChars": 1_000_000, "maxAttachmentsPerEmail": 50,
    })
}

/// A mail with a file, its name and type as bad as the sender likes.
fn with_file(from: &str, id: &str, file: &SampleFile, text: &str) -> String {
    let name: String = file
        .name
        .chars()
        .filter(|letter| !"\r\n\"".contains(*letter))
        .collect();
    let body: String = file
        .bytes
        .iter()
        .map(|byte| format!("={byte:02X}=\r\n"))
        .collect();
    mail(
        from,
        id,
        &format!(
            "Subject: a file\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=limit\r\n\r\n--limit\r\n\
             Content-Type: text/plain; charset=utf-8\r\n\r\n{text}\r\n--limit\r\nContent-Type: {}\r\n\
             Content-Transfer-Encoding: quoted-printable\r\nContent-Disposition: attachment; filename=\"{name}\"\r\n\
             \r\n{body}\r\n--limit--\r\n",
            file.mime,
        ),
    )
}

/// Returns a fault, and the command that it applies to.
fn fault(fault: SendFault) -> (&'static str, MailFault) {
    let answer = |text: &str| MailFault::Answer(text.to_owned());
    match fault {
        SendFault::RateLimited | SendFault::Broken => {
            ("MAIL", answer("451 4.3.0 local error in processing"))
        }
        SendFault::CutAfterEffect => ("CONTENT", MailFault::CutAfterEffect),
        SendFault::Refused => ("CONTENT", answer("554 5.7.1 this looks like spam")),
        SendFault::ChatGone => ("RCPT", answer("550 5.1.1 no such mailbox")),
        SendFault::TooLarge => ("CONTENT", answer("552 5.3.4 the message is too big")),
        SendFault::Unauthorized => ("AUTH", answer("535 5.7.8 authentication failed")),
    }
}

#[async_trait]
impl ChannelHarness for Harness {
    fn friend(&self) -> SenderId {
        ANN.into()
    }

    fn secrets(&self) -> Vec<String> {
        vec![PASSWORD.to_owned()]
    }

    fn connect(&mut self) -> anyhow::Result<Arc<dyn Channel>> {
        Ok(channel(&self.fake, &keys()))
    }

    async fn post(&mut self, posted: UserMessage<'_>) -> anyhow::Result<()> {
        self.mails += 1;
        let (from, id) = (
            if posted.by == Participant::Friend {
                ANN
            } else {
                MALLORY
            },
            format!("{}@friend.test", self.mails),
        );
        self.push(match posted.file {
            None => note(from, &id, posted.text),
            Some(file) => with_file(from, &id, file, posted.text),
        });
        Ok(())
    }

    async fn forward(&mut self, text: &str) -> anyhow::Result<()> {
        let text =
            format!("---------- Forwarded message ---------\r\nFrom: {MALLORY}\r\n\r\n{text}");
        self.push(note(ANN, "passed-on@friend.test", &text));
        Ok(())
    }

    fn is_acknowledged(&self) -> bool {
        self.fake.has_flag(self.last.0, r"\Seen")
    }

    async fn acknowledged(&mut self) -> anyhow::Result<()> {
        Ok(self.fake.wait_for_flag(self.last.0, r"\Seen").await?)
    }

    async fn wait_for_messages(
        &mut self,
        chat: ObservedChat,
        condition: &MessageCondition<'_>,
    ) -> anyhow::Result<Vec<VisibleMessage>> {
        let seen = |mail: &SentMail| {
            let mail = shown(&mail.raw);
            VisibleMessage::new(mail.text)
                .with_files(mail.files.into_iter().map(|(name, _, bytes)| (name, bytes)))
        };
        let is_theirs = |mail: &&SentMail| mail.to == [address(chat)];
        let probe = |sent: &[SentMail]| condition.matching(sent.iter().filter(is_theirs).map(seen));
        Ok(self.fake.wait_for("what people see", probe).await?)
    }

    fn visible_actions(&self, chat: ObservedChat) -> Vec<String> {
        let mails = self
            .fake
            .sent()
            .into_iter()
            .filter(|mail| mail.to == [address(chat)]);
        mails.map(|mail| mail.raw).collect()
    }

    fn largest_file(&self) -> Option<u64> {
        Some(18_000_000)
    }

    async fn trigger(&mut self, event: PlatformEvent) -> anyhow::Result<()> {
        match event {
            PlatformEvent::OfferedAgain | PlatformEvent::BrokenDownload => {}
            PlatformEvent::Repeated => self.push(self.last.1.clone()),
            PlatformEvent::FailedSend(how) => {
                let (command, fault) = fault(how);
                self.fake.fail_next(command, fault);
            }
            PlatformEvent::Cut => self.fake.cut(),
            PlatformEvent::Down => self.fake.go_down().await?,
            PlatformEvent::Up => self.fake.come_back().await?,
            PlatformEvent::Beat => self.fake.nudge(),
            PlatformEvent::Stalled => self.fake.stall(true),
            PlatformEvent::Recovered => self.fake.stall(false),
            PlatformEvent::Revoked => {
                self.fake.change_password("another one");
                // A connection that is open stays open.
                self.fake.cut();
            }
            PlatformEvent::Restored => self.fake.change_password(PASSWORD),
        }
        Ok(())
    }

    async fn send_oddities(&mut self) -> anyhow::Result<usize> {
        let odd = [
            String::new(),
            "\r\n".to_owned(),
            "no header at all".to_owned(),
            "From: \r\n\r\n".to_owned(),
            mail("nobody", "odd1@x.test", "\r\nx"),
            mail(
                ANN,
                "odd2@x.test",
                &format!("From: {MALLORY}\r\n\r\ntwo senders"),
            ),
            format!("From: {ANN}\r\n\r\nnobody vouches for me"),
            mail(
                ANN,
                "odd3@x.test",
                "Auto-Submitted: auto-replied\r\n\r\nI am away",
            ),
            mail(
                "mailer-daemon@friend.test",
                "odd4@x.test",
                "\r\nundeliverable",
            ),
            "\0\u{1}\u{2}".repeat(100),
        ];
        let count = odd.len();
        for mail in odd {
            self.fake.push(mail);
        }
        Ok(count)
    }
}

#[tokio::test]
async fn channel_passes_the_conformance_suite() {
    let open = async || {
        Ok(Harness {
            fake: MailFake::start().await?,
            mails: 0,
            last: (0, String::new()),
        })
    };
    let missing = [
        (
            Ability::Rooms,
            "a mail is answered to its sender alone, whoever else got it",
        ),
        (Ability::BrokenDownloads, "files come within their mail"),
        (Ability::DraftView, "a mail that was sent does not change"),
        (
            Ability::NewsOfRivals,
            "any number of programs may look into a mailbox, and none hears of the others",
        ),
        (
            Ability::SendFault(SendFault::RateLimited),
            "no answer of SMTP names a pause",
        ),
    ];
    conformance::channel(open, &missing).await.unwrap();
}
