//! Fetches headers and contents of mails.
//!
//! Decision: answers are matched by UID, because a server sends them in any order, and sends others
//! that no one asked for. A mail without an answer is missing in the result: it may be gone, or the
//! server has refused the command, which async-imap does not report for FETCH.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::Ordering;

use async_imap::types::Fetch;
use futures_util::TryStreamExt as _;
use tokio::time::timeout;

use super::{ImapMailbox, MailUid, uid_set};
use crate::error::{MailError, imap};
use crate::imap_stream::SMALL_TALK;

/// The longest header that is read, in bytes.
const HEADER_LIMIT: u32 = 262_144;
/// Multiple of the time limit of a command that a fetch may take while bytes arrive.
const FETCH_TIMEOUT_FACTOR: u32 = 20;

/// The header of a mail.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FetchedHeader {
    pub(crate) bytes: Vec<u8>,
    /// Size of the whole mail in bytes, as the server says.
    pub(crate) size: u32,
}

impl ImapMailbox {
    /// Fetches the headers of mails. Mails that are gone are missing in the result. `on_progress`
    /// is called while bytes arrive.
    pub(crate) async fn fetch_headers(
        &mut self,
        mails: &[MailUid],
        on_progress: impl Fn(),
    ) -> Result<BTreeMap<MailUid, FetchedHeader>, MailError> {
        let what = format!("(UID RFC822.SIZE BODY.PEEK[HEADER]<0.{HEADER_LIMIT}>)");
        let count = u64::try_from(mails.len()).unwrap_or(u64::MAX);
        let total = count.saturating_mul(u64::from(HEADER_LIMIT));
        let read = |fetch: &Fetch| {
            Some(FetchedHeader {
                bytes: fetch.header()?.to_vec(),
                size: fetch.size.unwrap_or(u32::MAX),
            })
        };
        self.fetch(mails, &what, total, read, on_progress).await
    }

    /// Fetches the first `limit` bytes of each mail, about `total` bytes together. Mails that are
    /// gone are missing in the result. `on_progress` is called while bytes arrive.
    pub(crate) async fn fetch_beginnings(
        &mut self,
        mails: &[MailUid],
        limit: u32,
        total: u64,
        on_progress: impl Fn(),
    ) -> Result<BTreeMap<MailUid, Vec<u8>>, MailError> {
        let what = format!("(UID BODY.PEEK[]<0.{limit}>)");
        let read = |fetch: &Fetch| Some(fetch.body()?.to_vec());
        self.fetch(mails, &what, total, read, on_progress).await
    }

    async fn fetch<T>(
        &mut self,
        mails: &[MailUid],
        what: &str,
        total: u64,
        read: impl Fn(&Fetch) -> Option<T>,
        on_progress: impl Fn(),
    ) -> Result<BTreeMap<MailUid, T>, MailError> {
        let wire = self.session.as_mut();
        wire.grant(total.saturating_add(SMALL_TALK));
        let received = wire.received();
        let validity = self.validity;
        let fetching = async {
            let mut found = BTreeMap::new();
            let mut answers = self.session.uid_fetch(uid_set(mails), what).await?;
            while let Some(fetch) = answers.try_next().await? {
                let mail = fetch.uid.map(|uid| MailUid { validity, uid });
                if let Some(mail) = mail.filter(|mail| mails.contains(mail))
                    && let Some(value) = read(&fetch)
                {
                    found.insert(mail, value);
                }
            }
            Ok(found)
        };
        let mut fetching = pin!(fetching);
        let (doing, step) = ("fetching mail", self.config.request_timeout());
        let mut before = received.load(Ordering::Relaxed);
        for _ in 0..FETCH_TIMEOUT_FACTOR {
            if let Ok(fetched) = timeout(step, fetching.as_mut()).await {
                return fetched.map_err(imap(doing));
            }
            let now = received.load(Ordering::Relaxed);
            if now == before {
                return Err(MailError::Slow {
                    doing,
                    seconds: step.as_secs(),
                });
            }
            before = now;
            on_progress();
        }
        Err(MailError::Slow {
            doing,
            seconds: step.saturating_mul(FETCH_TIMEOUT_FACTOR).as_secs(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};

    use super::*;
    use crate::imap_stream::LimitedStream;

    /// A mailbox whose server is the other end of a pipe.
    async fn mailbox() -> (ImapMailbox, BufReader<DuplexStream>) {
        let (near, far) = tokio::io::duplex(1 << 16);
        let mut far = BufReader::new(far);
        let client = async_imap::Client::new(LimitedStream::new(near));
        let (session, ()) = tokio::join!(client.login("a", "b"), async {
            let tag = tag(&mut far).await;
            far.write_all(format!("{tag} OK in\r\n").as_bytes())
                .await
                .unwrap();
        });
        let session = session.map_err(|(error, _)| error).unwrap();
        let config = Arc::default();
        let (validity, has_idle, has_move, has_uidplus, keeps_keywords) =
            (1, true, true, true, true);
        (
            ImapMailbox {
                session,
                config,
                validity,
                has_idle,
                has_move,
                has_uidplus,
                keeps_keywords,
            },
            far,
        )
    }

    /// The tag of the next command.
    async fn tag(far: &mut BufReader<DuplexStream>) -> String {
        let mut command = String::new();
        far.read_line(&mut command).await.unwrap();
        command.split(' ').next().unwrap().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn fetch_timeout_extends_while_bytes_arrive() {
        for (pauses, comes_whole) in [
            (vec![20; 25], true),
            (vec![20, 61, 20], false),
            (vec![29; 60], false),
        ] {
            let (mut mailbox, mut far) = mailbox().await;
            let steps = AtomicUsize::new(0);
            let mail = MailUid {
                validity: 1,
                uid: 7,
            };
            let wanted = [mail];
            let fetching = mailbox.fetch_beginnings(&wanted, 1000, 1000, || {
                steps.fetch_add(1, Ordering::Relaxed);
            });
            let server = async {
                let tag = tag(&mut far).await;
                let head = format!("* 1 FETCH (UID 7 BODY[]<0> {{{}}}\r\n", pauses.len());
                far.write_all(head.as_bytes()).await.unwrap();
                for pause in &pauses {
                    tokio::time::sleep(Duration::from_secs(*pause)).await;
                    far.write_all(b"x").await.unwrap();
                }
                far.write_all(format!(")\r\n{tag} OK done\r\n").as_bytes())
                    .await
                    .unwrap();
                std::future::pending::<()>().await;
            };
            let fetched = tokio::select! {
                fetched = fetching => fetched,
                () = server => unreachable!("it waits for the client"),
            };
            match fetched {
                Ok(fetched) => assert_eq!(
                    (fetched, comes_whole),
                    ([(mail, vec![b'x'; pauses.len()])].into(), true)
                ),
                Err(error) => assert!(
                    !comes_whole && matches!(error, MailError::Slow { .. }),
                    "{error}"
                ),
            }
            assert!(
                steps.load(Ordering::Relaxed) > 0,
                "the mail was a sign of life on its way"
            );
        }
    }

    #[tokio::test]
    async fn answers_are_matched_by_uid() {
        let (mut mailbox, mut far) = mailbox().await;
        let mails = [3, 5, 7, 9].map(|uid| MailUid { validity: 1, uid });
        let server = async {
            let mut command = String::new();
            far.read_line(&mut command).await.unwrap();
            let (tag, rest) = command.split_once(' ').unwrap();
            assert!(rest.starts_with("UID FETCH 3,5,7,9 "), "{rest}");
            let header = |number: u32, uid: u32, text: &str| {
                format!(
                    "* {number} FETCH (UID {uid} RFC822.SIZE 70 BODY[HEADER]<0> {{{}}}\r\n{text})\r\n",
                    text.len()
                )
            };
            // In another order, with news about flags, and about a mail that was not asked for.
            let answer = [
                header(4, 9, "nine"),
                "* 2 FETCH (UID 5 FLAGS (\\Seen))\r\n".to_owned(),
                header(2, 5, "five"),
                header(1, 1, "one"),
                "* 2 FETCH (FLAGS ())\r\n* 9 EXISTS\r\n".to_owned(),
                header(1, 3, "three"),
                "* 4 FETCH (UID 9 FLAGS (\\Flagged))\r\n".to_owned(),
                format!("{tag} NO [EXPUNGEISSUED] some are gone\r\n"),
            ];
            far.write_all(answer.concat().as_bytes()).await.unwrap();
        };
        let (fetched, ()) = tokio::join!(mailbox.fetch_headers(&mails, || {}), server);
        let texts: Vec<_> = fetched
            .unwrap()
            .into_iter()
            .map(|(mail, header)| (mail.uid, header.size, header.bytes))
            .collect();
        let expected = [(3, "three"), (5, "five"), (9, "nine")];
        assert_eq!(
            texts,
            expected.map(|(uid, text)| (uid, 70, text.as_bytes().to_vec()))
        );
        assert!(mailbox.has_new_mail());
    }
}
