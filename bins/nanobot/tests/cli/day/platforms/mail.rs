//! E-mail: letters from two people.

use async_trait::async_trait;
use nanobot_channel_email_fake::{self as mail, MailFake};
use serde_json::{Value, json};

use crate::day::judge::{DONE, Judge};
use crate::day::platform::{DayPlatform, Fault, Place, question};

const ANN: Place = Place::of("email", "ann@people.test");
const BOB: Place = Place::of("email", "bob@people.test");

pub(super) struct MailDay {
    fake: MailFake,
}

impl MailDay {
    pub(super) async fn start() -> Self {
        let fake = MailFake::start().await.unwrap();
        Self { fake }
    }
}

#[async_trait]
impl DayPlatform for MailDay {
    fn name(&self) -> &'static str {
        "email"
    }

    fn section(&self) -> Value {
        json!({
            "enabled": true, "consentGranted": true, "allowFrom": [ANN.chat, BOB.chat],
            "imapHost": "127.0.0.1", "imapPort": self.fake.imap_port(), "imapUsername": mail::USER,
            "imapPassword": mail::PASSWORD, "imapUseSsl": false, "imapUseTls": false,
            "smtpHost": "127.0.0.1", "smtpPort": self.fake.smtp_port(), "smtpUsername": mail::USER,
            "smtpPassword": mail::PASSWORD, "smtpUseTls": false, "fromAddress": "Nano <bot@bot.test>",
            "pollIntervalSeconds": 5, "requestTimeout": 10, "authservId": "mx.bot.test",
        })
    }

    fn places(&self) -> Vec<Place> {
        vec![ANN, BOB]
    }

    fn faults(&self) -> Vec<Fault> {
        vec![Fault::Down, Fault::Silent, Fault::CutsSends]
    }

    async fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::Down => self.fake.go_down().await.unwrap(),
            Fault::Silent => self.fake.stall(true),
            Fault::CutsSends => self
                .fake
                .fail_next("CONTENT", mail::MailFault::CutAfterEffect),
            _ => unreachable!("not among its faults"),
        }
    }

    async fn end(&mut self, fault: Fault) {
        match fault {
            Fault::Down => self.fake.come_back().await.unwrap(),
            Fault::Silent => self.fake.stall(false),
            _ => {}
        }
    }

    fn say(&mut self, place: Place, token: String, judge: &mut Judge) {
        self.fake
            .push(letter(place.chat, &token, &question(&token)));
        judge.said(place, token);
    }

    fn shown(&self, place: Place) -> Vec<String> {
        let sent = self.fake.sent().into_iter();
        let is_for = |to: &String| to.contains(place.chat);
        sent.filter(|mail| mail.to.iter().any(is_for))
            .map(|mail| words(&mail.raw))
            .collect()
    }

    fn violations(&self) -> Vec<String> {
        self.fake.violations()
    }
}

/// Returns a mail as the own mail server delivers it, with its report about the sender.
fn letter(from: &str, token: &str, text: &str) -> String {
    format!(
        "Return-Path: <{from}>\r\nAuthentication-Results: mx.bot.test; dkim=pass header.d=people.test;\r\n spf=pass \
         smtp.mailfrom=people.test\r\nFrom: {from}\r\nTo: bot@bot.test\r\nDate: Mon, 2 Nov 2026 10:00:00 +0100\r\n\
         Message-ID: <{token}@people.test>\r\nSubject: A question\r\n\r\n{text}\r\n"
    )
}

/// Returns the answer in a mail, or all of it if there is no answer.
fn words(raw: &str) -> String {
    raw.lines()
        .find(|line| line.starts_with(DONE))
        .unwrap_or(raw)
        .to_owned()
}
