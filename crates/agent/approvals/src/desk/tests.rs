use std::sync::Mutex;

use nanobot_types::{InboundMessage, OWN_LINE_KEY, Origin};
use tokio_util::task::TaskTracker;

use super::*;
use crate::answer::{Answer, Reply};
use crate::policy::ToolRule;

/// Notes the questions that are shown.
#[derive(Debug, Default)]
struct Shown(Mutex<Vec<OpenQuestion>>);

#[async_trait]
impl Asker for Shown {
    async fn show(&self, question: &OpenQuestion) -> Result<(), String> {
        self.0.lock().unwrap().push(question.clone());
        Ok(())
    }
}

#[derive(Debug)]
struct Nobody;

#[async_trait]
impl Asker for Nobody {
    async fn show(&self, _: &OpenQuestion) -> Result<(), String> {
        Err("there is no chat".to_owned())
    }
}

struct Desk {
    _home: tempfile::TempDir,
    approvals: Arc<Approvals>,
    shown: Arc<Shown>,
}

impl Desk {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let store = ApprovalStore::at(&home.path().join("approvals.json"));
        let shown = Arc::new(Shown::default());
        let settings = ApprovalSettings::default();
        Self {
            approvals: Arc::new(Approvals::new(settings, store, shown.clone())),
            shown,
            _home: home,
        }
    }

    /// The same home after a restart.
    fn restarted(&self) -> Arc<Approvals> {
        let settings = ApprovalSettings::default();
        let store = self.approvals.store.clone();
        Arc::new(Approvals::new(settings, store, self.shown.clone()))
    }

    /// Waits for permission for a command in the background, and returns once it was asked.
    async fn asking(
        &self,
        approvals: &Arc<Approvals>,
        command: &str,
        rule: Option<&str>,
    ) -> tokio::task::JoinHandle<Outcome> {
        let (approvals, shown) = (approvals.clone(), self.shown.clone());
        let before = shown.0.lock().unwrap().len();
        let (command, rule) = (command.to_owned(), rule.map(str::to_owned));
        let asking = TaskTracker::new().spawn(async move {
            permission(&approvals, &command, rule, &CancellationToken::new()).await
        });
        while shown.0.lock().unwrap().len() == before && !asking.is_finished() {
            tokio::task::yield_now().await;
        }
        asking
    }

    fn last_code(&self) -> String {
        self.shown.0.lock().unwrap().last().unwrap().code.clone()
    }
}

async fn permission(
    approvals: &Approvals,
    command: &str,
    rule: Option<String>,
    cancel: &CancellationToken,
) -> Outcome {
    let call = ToolCall::new("1", "exec", format!("{{\"command\":\"{command}\"}}"));
    let review = CallReview {
        rule,
        ..CallReview::default()
    };
    let binding = CallBinding::of(&TraceId::from("turn"), 1, &call, &review);
    let request = PermissionRequest {
        call: &call,
        review: &review,
        binding: &binding,
        reason: "Because.",
        session: &SessionKey::from("telegram:7"),
        address: &ChatAddress::new("telegram", "7"),
        sender: Some(&SenderId::from("ann")),
        cancel,
    };
    approvals.permission(request).await
}

fn message(sender: &str, chat: &str, text: &str) -> InboundMessage {
    InboundMessage::text("telegram", sender, chat, text)
}

fn is_refused(outcome: &Outcome, why: &str) -> bool {
    matches!(outcome, Outcome::Refused(text) if text.contains(why))
}

#[tokio::test]
async fn yes_permits_one_call() {
    let desk = Desk::new();
    let asking = desk.asking(&desk.approvals, "ls", None).await;
    let reply = desk.approvals.answer(&message("ann", "7", "yes")).await;
    assert_eq!(reply.unwrap(), Some(Reply::Answers(Answer::Once)));
    assert_eq!(asking.await.unwrap(), Outcome::Granted);
    // Once the turn ended, the same call is asked about again.
    desk.approvals.turn_ended(&TraceId::from("turn")).await;
    let again = desk.asking(&desk.approvals, "ls", None).await;
    desk.approvals
        .answer(&message("ann", "7", "no"))
        .await
        .unwrap();
    assert!(is_refused(&again.await.unwrap(), "the user refused"));
}

#[tokio::test]
async fn own_line_of_a_longer_text_answers() {
    let desk = Desk::new();
    let asking = desk.asking(&desk.approvals, "ls", None).await;
    let mut mail = message("ann", "7", "[EMAIL-CONTEXT]\nFrom: Ann\n\nYes\n\n-- \nAnn");
    mail.metadata = [(OWN_LINE_KEY.to_owned(), "Yes".into())]
        .into_iter()
        .collect();
    let reply = desk.approvals.answer(&mail).await;
    assert_eq!(reply.unwrap(), Some(Reply::Answers(Answer::Once)));
    assert_eq!(asking.await.unwrap(), Outcome::Granted);
}

#[tokio::test]
async fn only_the_asked_person_answers_in_the_same_chat() {
    let desk = Desk::new();
    let asking = desk.asking(&desk.approvals, "ls", None).await;
    let job = InboundMessage {
        origin: Origin::Heartbeat,
        ..message("ann", "7", "yes")
    };
    for other in [message("bob", "7", "yes"), message("ann", "8", "yes"), job] {
        assert_eq!(desk.approvals.answer(&other).await.unwrap(), None);
    }
    let button = format!("Yes {}", desk.last_code());
    let strange = desk.approvals.answer(&message("bob", "7", &button)).await;
    assert_eq!(strange.unwrap(), Some(Reply::Stale));
    assert!(!asking.is_finished());
    let button = desk.approvals.answer(&message("ann", "7", &button)).await;
    assert_eq!(button.unwrap(), Some(Reply::Answers(Answer::Once)));
    assert_eq!(asking.await.unwrap(), Outcome::Granted);
}

#[tokio::test]
async fn words_from_before_the_question_answer_nothing() {
    let desk = Desk::new();
    let early = [message("ann", "7", "yes"), message("ann", "7", "go on")];
    let asking = desk.asking(&desk.approvals, "ls", None).await;
    for early in early {
        assert_eq!(desk.approvals.answer(&early).await.unwrap(), None);
    }
    assert!(!asking.is_finished());
}

#[tokio::test]
async fn other_words_refuse_and_are_handled_as_usual() {
    let desk = Desk::new();
    let asking = desk.asking(&desk.approvals, "ls", None).await;
    let text = "list only the folder a";
    let reply = desk.approvals.answer(&message("ann", "7", text)).await;
    assert_eq!(reply.unwrap(), Some(Reply::Instead));
    assert!(is_refused(&asking.await.unwrap(), "the user refused"));
    let later = desk.approvals.answer(&message("ann", "7", text)).await;
    assert_eq!(later.unwrap(), None);
}

#[tokio::test]
async fn always_covers_the_rule_until_it_is_revoked() {
    let desk = Desk::new();
    let asking = desk
        .asking(&desk.approvals, "git status", Some("git status"))
        .await;
    desk.approvals
        .answer(&message("ann", "7", "always"))
        .await
        .unwrap();
    assert_eq!(asking.await.unwrap(), Outcome::Granted);
    desk.approvals.turn_ended(&TraceId::from("turn")).await;
    let covered = desk
        .asking(&desk.approvals, "git status -s", Some("git status"))
        .await;
    assert_eq!(covered.await.unwrap(), Outcome::Granted);
    assert_eq!(desk.shown.0.lock().unwrap().len(), 1);
    let other = desk
        .asking(&desk.approvals, "git push", Some("git push"))
        .await;
    assert!(!other.is_finished());
    other.abort();
    let revoked = desk.approvals.store.revoke(None).unwrap();
    assert_eq!(revoked.len(), 1);
    let again = desk
        .asking(&desk.approvals, "git status", Some("git status"))
        .await;
    assert!(!again.is_finished());
}

#[tokio::test]
async fn answer_survives_a_restart() {
    let desk = Desk::new();
    let asking = desk.asking(&desk.approvals, "ls", None).await;
    let code = desk.last_code();
    asking.abort();
    let restarted = desk.restarted();
    let trace = TraceId::from("turn");
    assert_eq!(
        restarted.interrupted(&trace, 1).await,
        Some(QuestionState::Asked)
    );
    // The answer may arrive before the turn is resumed.
    let button = format!("Yes {code}");
    restarted
        .answer(&message("ann", "7", &button))
        .await
        .unwrap();
    let resumed = desk.asking(&restarted, "ls", None).await;
    assert_eq!(resumed.await.unwrap(), Outcome::Granted);
    assert_eq!(desk.shown.0.lock().unwrap().len(), 1, "it was asked once");
    assert_eq!(
        restarted.interrupted(&trace, 1).await,
        Some(QuestionState::Granted)
    );
}

#[tokio::test]
async fn call_that_began_before_a_crash_is_not_asked_about_again() {
    let desk = Desk::new();
    let asking = desk.asking(&desk.approvals, "ls", None).await;
    desk.approvals
        .answer(&message("ann", "7", "yes"))
        .await
        .unwrap();
    assert_eq!(asking.await.unwrap(), Outcome::Granted);
    let binding = desk.approvals.store.questions().unwrap()[0].binding();
    desk.approvals.begin(&binding).await.unwrap();
    let restarted = desk.restarted();
    let state = restarted.interrupted(&TraceId::from("turn"), 1).await;
    assert_eq!(state, Some(QuestionState::Begun));
    let resumed = desk.asking(&restarted, "ls", None).await;
    assert_eq!(resumed.await.unwrap(), Outcome::Granted);
    assert_eq!(desk.shown.0.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn answer_to_a_call_covers_no_other_bytes() {
    let desk = Desk::new();
    let asking = desk.asking(&desk.approvals, "ls a", None).await;
    desk.approvals
        .answer(&message("ann", "7", "yes"))
        .await
        .unwrap();
    assert_eq!(asking.await.unwrap(), Outcome::Granted);
    let other = desk.asking(&desk.approvals, "ls b", None).await;
    assert!(!other.is_finished(), "it is asked about");
    assert_eq!(desk.shown.0.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn button_of_an_old_question_answers_nothing() {
    let desk = Desk::new();
    let asking = desk.asking(&desk.approvals, "ls a", None).await;
    let old = format!("Yes {}", desk.last_code());
    desk.approvals
        .answer(&message("ann", "7", "no"))
        .await
        .unwrap();
    asking.await.unwrap();
    let stale = desk.approvals.answer(&message("ann", "7", &old)).await;
    assert_eq!(stale.unwrap(), Some(Reply::Stale));
    let next = desk.asking(&desk.approvals, "ls b", None).await;
    let stale = desk.approvals.answer(&message("ann", "7", &old)).await;
    assert_eq!(stale.unwrap(), Some(Reply::Stale));
    assert!(!next.is_finished());
}

#[tokio::test]
async fn silence_is_a_refusal() {
    let desk = Desk::new();
    let asking = desk.asking(&desk.approvals, "ls", None).await;
    desk.approvals
        .store
        .edit(|book| {
            book.questions
                .iter_mut()
                .for_each(|open| open.expires_at = Utc::now());
        })
        .unwrap();
    desk.approvals.answers.send_modify(|count| *count += 1);
    assert!(is_refused(&asking.await.unwrap(), "did not answer"));
}

#[tokio::test]
async fn nobody_to_ask_is_a_refusal() {
    let desk = Desk::new();
    let store = desk.approvals.store.clone();
    let approvals = Approvals::new(ApprovalSettings::default(), store, Arc::new(Nobody));
    let outcome = permission(&approvals, "ls", None, &CancellationToken::new()).await;
    assert!(is_refused(
        &outcome,
        "nobody can be asked: there is no chat"
    ));
    assert!(desk.approvals.store.questions().unwrap().is_empty());
}

#[tokio::test]
async fn cancelled_turn_leaves_the_question_open() {
    let desk = Desk::new();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let outcome = permission(&desk.approvals, "ls", None, &cancel).await;
    assert_eq!(outcome, Outcome::Interrupted);
    assert_eq!(desk.approvals.store.questions().unwrap().len(), 1);
}

#[tokio::test]
async fn damaged_file_permits_nothing() {
    let desk = Desk::new();
    std::fs::write(desk.approvals.store.path(), "{\"grants\": 7}").unwrap();
    let asking = desk
        .asking(&desk.approvals, "git status", Some("git status"))
        .await;
    assert!(is_refused(&asking.await.unwrap(), "damaged"));
}

#[tokio::test]
async fn configuration_decides_first() {
    let desk = Desk::new();
    let settings = ApprovalSettings {
        tools: [("exec".to_owned(), ToolRule::Deny)].into(),
        ..ApprovalSettings::default()
    };
    let store = desk.approvals.store.clone();
    let approvals = Approvals::new(settings, store, Arc::new(Nobody));
    let call = ToolCall::new("1", "exec", "{}");
    let review = CallReview::default();
    let decision = approvals.decide(&call, &review, None).await;
    assert!(matches!(decision, Decision::Deny(_)), "{decision:?}");
}
