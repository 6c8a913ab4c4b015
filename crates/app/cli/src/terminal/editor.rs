//! The line editor. It runs on a thread of its own so that the user can type while the assistant
//! works.
//!
//! Decision: Ctrl-C is interpreted here: it stops what runs, and leaves if nothing runs or a stop
//! was already requested. The thread never waits for the conversation, so neither can block the
//! other.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
#[cfg(unix)]
use std::sync::{Mutex, PoisonError};
use std::thread;

use nanobot_runtime::command_infos;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
#[cfg(unix)]
use rustyline::{
    Cmd, ConditionalEventHandler, Event, EventContext, EventHandler, KeyEvent, RepeatCount,
};
use rustyline::{
    CompletionType, Config, Context, Editor, ExternalPrinter, Helper, Highlighter, Hinter,
    Validator,
};
use tokio::sync::{mpsc, oneshot};

use super::history::HistoryFile;
use super::mode::SavedMode;
use super::{is_command, is_farewell};

const PROMPT: &str = "You: ";
/// Maximum number of lines that wait for the conversation.
const WAITING_LINES: usize = 16;

/// Input from the prompt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// One typed line, or several pasted ones.
    Line(String),
    /// A request to stop the running turn.
    Stop,
    /// A request to leave.
    Leave,
}

/// State of the conversation, which decides the meaning of Ctrl-C.
#[derive(Clone, Debug, Default)]
pub(super) struct TurnState(Arc<AtomicU8>);

const IDLE: u8 = 0;
const WORKING: u8 = 1;
const STOPPING: u8 = 2;

impl TurnState {
    /// Records that a message was sent that will be answered.
    pub(super) fn begin(&self) {
        self.0.store(WORKING, Ordering::SeqCst);
    }

    /// Records that it was answered.
    pub(super) fn end(&self) {
        self.0.store(IDLE, Ordering::SeqCst);
    }

    /// Handles Ctrl-C: stops what runs, once.
    fn interrupt(&self) -> Input {
        match self
            .0
            .compare_exchange(WORKING, STOPPING, Ordering::SeqCst, Ordering::SeqCst)
        {
            Ok(_) => Input::Stop,
            Err(_) => Input::Leave,
        }
    }
}

/// Prints above the line that is being edited.
pub(super) type Printer = Box<dyn ExternalPrinter + Send>;

/// A prompt that is shown.
pub(super) struct LineEditor {
    /// Input from the user.
    pub(super) input: mpsc::Receiver<Input>,
    /// Prints above the edited line.
    pub(super) printer: Printer,
}

impl LineEditor {
    /// Shows a prompt; `None` if the terminal does not support one. Otherwise the terminal has to
    /// be restored to `mode` at the end.
    pub(super) async fn open(history: PathBuf, mode: SavedMode, work: TurnState) -> Option<Self> {
        let (sender, input) = mpsc::channel(WAITING_LINES);
        let (ready, printer) = oneshot::channel();
        thread::spawn(move || {
            let Some((mut editor, printer)) = editor() else {
                return;
            };
            #[cfg(unix)]
            editor.bind_sequence(KeyEvent::ctrl('Z'), Suspend::key(mode.clone()));
            mode.hold_keys();
            if ready.send(printer).is_ok() {
                edit(&mut editor, &HistoryFile::new(history), &work, &sender);
            }
        });
        Some(Self {
            input,
            printer: printer.await.ok()?,
        })
    }
}

type CommandEditor = Editor<CommandHelper, MemHistory>;

fn editor() -> Option<(CommandEditor, Printer)> {
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .build();
    let history = MemHistory::with_config(&config);
    let mut editor = Editor::with_history(config, history).ok()?;
    editor.set_helper(Some(CommandHelper));
    let printer = editor.create_external_printer().ok()?;
    Some((editor, Box::new(printer)))
}

fn edit(
    editor: &mut CommandEditor,
    history: &HistoryFile,
    work: &TurnState,
    sender: &mpsc::Sender<Input>,
) {
    for entry in history.entries() {
        remember(editor, entry);
    }
    loop {
        let input = match editor.readline(PROMPT) {
            Ok(line) if line.trim().is_empty() => continue,
            Ok(line) => {
                if let Err(error) = history.append(&line) {
                    tracing::debug!(%error, "the line could not be added to the history file");
                }
                remember(editor, line.clone());
                if is_farewell(&line) {
                    Input::Leave
                } else {
                    if !is_command(&line) {
                        work.begin();
                    }
                    Input::Line(line)
                }
            }
            Err(ReadlineError::Interrupted) => work.interrupt(),
            Err(ReadlineError::Signal(_)) => continue,
            Err(_) => Input::Leave,
        };
        let leaves = input == Input::Leave;
        if sender.blocking_send(input).is_err() || leaves {
            return;
        }
    }
}

fn remember(editor: &mut CommandEditor, line: String) {
    if let Err(error) = editor.add_history_entry(line) {
        tracing::debug!(%error, "a line could not be remembered");
    }
}

/// Suspends the program. The editor's own suspension would leave the terminal in the mode between
/// two lines.
#[cfg(unix)]
struct Suspend(Mutex<SavedMode>);

#[cfg(unix)]
impl Suspend {
    fn key(mode: SavedMode) -> EventHandler {
        EventHandler::Conditional(Box::new(Self(Mutex::new(mode))))
    }
}

#[cfg(unix)]
impl ConditionalEventHandler for Suspend {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, _: &EventContext<'_>) -> Option<Cmd> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .suspend();
        Some(Cmd::Repaint)
    }
}

/// Completes slash commands.
#[derive(Helper, Highlighter, Hinter, Validator)]
struct CommandHelper;

impl Completer for CommandHelper {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        Ok((0, completions(line.get(..position).unwrap_or_default())))
    }
}

/// Returns the commands that begin with `typed`.
fn completions(typed: &str) -> Vec<Pair> {
    if !typed.starts_with('/') {
        return Vec::new();
    }
    let known = command_infos()
        .into_iter()
        .map(|command| (format!("/{}", command.name), command.about));
    known
        .chain([("/exit".to_owned(), "Leave")])
        .filter(|(name, _)| name.starts_with(typed))
        .map(|(name, about)| Pair {
            display: format!("{name}  {about}"),
            replacement: name,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_complete_and_text_does_not() {
        let names = |typed: &str| -> Vec<String> {
            completions(typed)
                .into_iter()
                .map(|candidate| candidate.replacement)
                .collect()
        };
        assert_eq!(names("/st"), ["/stop", "/status", "/start"]);
        assert_eq!(names("/e"), ["/exit"]);
        assert_eq!(names("hello /st"), Vec::<String>::new());
        assert_eq!(names("/stop now"), Vec::<String>::new());
    }

    #[test]
    fn second_interrupt_exits() {
        let work = TurnState::default();
        assert_eq!(work.interrupt(), Input::Leave);
        work.begin();
        assert_eq!(work.interrupt(), Input::Stop);
        assert_eq!(work.interrupt(), Input::Leave);
        work.begin();
        work.end();
        assert_eq!(work.interrupt(), Input::Leave);
    }
}
