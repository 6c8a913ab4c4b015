//! The loop of the prompt: keys and events come in, lines and frames go out.

use std::collections::VecDeque;
use std::io::Stdout;
use std::process::ExitCode;
use std::time::Instant;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use nanobot_runtime::{Terminal, TerminalEvent, TerminalMessage, is_command, starts_turn};

use super::END_TIMEOUT;
use super::attachments::NamedFiles;
use super::commands::{help, prompt_command};
use super::completions::WordSource;
use super::conversations::Conversations;
use super::details::TurnDetails;
use crate::failure::CommandFailure;
use crate::signals::{InterruptFilter, Signals};
use crate::terminal::edit::{EditOutcome, LineEditor, rows_of};
use crate::terminal::render::wrapped;
use crate::terminal::screen::{Frame, FramePace, LiveRegion, RawMode, TerminalInput};
use crate::terminal::status::{TICK, TurnStatus, cut};
use crate::terminal::view::{View, ViewPiece};
use crate::terminal::{ended, is_farewell};

pub(super) const PROMPT: &str = "You: ";
/// Maximum number of rows of a sent message that stay on the screen.
const ECHO_ROWS: usize = 100;
/// Maximum number of queued messages that are shown.
const QUEUE_ROWS: usize = 3;
/// The command that stops the running turn.
const STOP: &str = "/stop";
/// Maximum number of queued messages.
const MAX_QUEUED: usize = 16;

/// A conversation at the prompt.
pub(super) struct PromptSession {
    pub(super) terminal: Terminal,
    pub(super) conversations: Conversations,
    pub(super) view: View,
    pub(super) editor: LineEditor,
    words: WordSource,
    pub(super) region: LiveRegion<Stdout>,
    /// The running turn.
    pub(super) status: Option<TurnStatus>,
    pub(super) details: TurnDetails,
    /// Messages for the turns after the running one, and for the time when the gateway is back.
    queue: VecDeque<QueuedMessage>,
    /// Number of commands without an answer so far; they end no turn.
    pub(super) commands: usize,
    /// Lines that were not printed yet.
    pub(super) lines: String,
    /// A sentence below the edited text, until the next key.
    hint: Option<&'static str>,
    /// Set after a Ctrl-C that had nothing to stop; the next one leaves.
    is_leaving: bool,
    /// Interrupts are for the editor while it is open.
    pub(super) interrupts: InterruptFilter,
    pace: FramePace,
}

/// A message that waits.
#[derive(Debug)]
struct QueuedMessage {
    text: String,
    /// `true` if it was sent by Enter while the gateway was gone, so that it is on the screen.
    is_echoed: bool,
}

/// The continuation of the loop.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Continue,
    OpenEditor,
    Suspend,
    Leave,
}

impl PromptSession {
    pub(super) fn new(
        terminal: Terminal,
        conversations: Conversations,
        view: View,
        editor: LineEditor,
        words: WordSource,
        region: LiveRegion<Stdout>,
    ) -> Self {
        Self {
            terminal,
            conversations,
            view,
            editor,
            words,
            region,
            status: None,
            details: TurnDetails::default(),
            queue: VecDeque::new(),
            commands: 0,
            lines: String::new(),
            hint: None,
            is_leaving: false,
            interrupts: InterruptFilter::default(),
            pace: FramePace::default(),
        }
    }

    /// Runs until the user leaves.
    ///
    /// # Errors
    /// Returns an error if the assistant ended, or the terminal cannot be used.
    pub(super) async fn run(&mut self, mode: &RawMode) -> Result<(), CommandFailure> {
        let mut keys = TerminalInput::default();
        let mut ticks = tokio::time::interval(TICK);
        self.view.resize(self.region.width());
        self.show_last_exchange().await;
        let mut due = Some(Instant::now());
        let mut next = self.take_typed_ahead(&mut keys).await?;
        loop {
            match next {
                Next::Continue => {}
                Next::Leave => return Ok(()),
                Next::Suspend => {
                    self.draw()?;
                    mode.suspend()?;
                    self.region.restart();
                }
                Next::OpenEditor => {
                    keys.pause();
                    self.open_editor(mode).await?;
                }
            }
            if matches!(next, Next::Suspend | Next::OpenEditor) {
                next = self.take_typed_ahead(&mut keys).await?;
                if next == Next::Continue {
                    next = self.send_queued().await?;
                }
                due = Some(Instant::now());
                continue;
            }
            next = Next::Continue;
            let frame = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                key = keys.next() => {
                    let Some(event) = key? else { return Ok(()) };
                    self.interrupts.heed();
                    next = self.take(event).await?;
                }
                event = self.terminal.next() => {
                    let Some(event) = event else { return Err(ended()) };
                    self.show(&event);
                    next = self.send_queued().await?;
                }
                _ = ticks.tick(), if self.status.is_some() => {
                    if let Some(status) = &mut self.status {
                        status.tick();
                    }
                }
                () = frame => {
                    due = None;
                    self.draw()?;
                    continue;
                }
            }
            due = due.or_else(|| Some(self.pace.next_frame()));
        }
    }

    /// Takes the keys that were typed before the terminal was in raw mode. It has turned Enter into
    /// a line feed, which is Ctrl-J otherwise.
    async fn take_typed_ahead(&mut self, keys: &mut TerminalInput) -> Result<Next, CommandFailure> {
        while let Some(event) = keys.try_next()? {
            let event = match event {
                Event::Key(key)
                    if key == KeyEvent::new(KeyCode::Char('j'), KeyModifiers::CONTROL) =>
                {
                    Event::Key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE))
                }
                other => other,
            };
            let next = self.take(event).await?;
            if next != Next::Continue {
                return Ok(next);
            }
        }
        Ok(Next::Continue)
    }

    /// Takes a key, a paste or a new size of the screen.
    async fn take(&mut self, event: Event) -> Result<Next, CommandFailure> {
        let mut outcome = match event {
            Event::Key(key) => self.editor.key(key),
            Event::Paste(text) => self.editor.paste(&text),
            Event::Resize(width, height) => {
                self.region.resize((width, height));
                self.view.resize(self.region.width());
                EditOutcome::Edited
            }
            Event::FocusGained | Event::FocusLost | Event::Mouse(_) => EditOutcome::Ignored,
        };
        if let EditOutcome::Complete(before) = &outcome {
            let found = self.words.complete(before, &self.terminal).await;
            outcome = self.editor.complete(found, self.status.is_some());
        }
        match self.apply(outcome) {
            (Next::Continue, EditOutcome::Submit(text)) => self.submit_line(&text).await,
            (Next::Continue, EditOutcome::Interrupt) => {
                self.stop().await;
                Ok(Next::Continue)
            }
            (next, _) => Ok(next),
        }
    }

    /// Removes the region; the cursor is at the beginning of a row.
    pub(super) fn leave(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        if let Err(error) = self.region.leave(&lines) {
            tracing::debug!(%error, "the terminal takes no text");
        }
    }

    /// Waits for running subagents and shows their results. A signal stops them.
    pub(super) async fn end_subagents(&mut self, signals: &mut Signals) -> ExitCode {
        let subagents = match self.terminal.unfinished() {
            0 => return ExitCode::SUCCESS,
            1 => "1 subagent still works".to_owned(),
            several => format!("{several} subagents still work"),
        };
        self.say(&format!(
            "{subagents}. Waiting for the result; Ctrl-C stops it and leaves.\n\n"
        ));
        self.leave();
        let code = tokio::select! {
            () = self.show_unfinished() => return ExitCode::SUCCESS,
            code = signals.next() => code,
        };
        // Through a command, so that the conversation has a record of it when it continues.
        if tokio::time::timeout(END_TIMEOUT, self.stop_all())
            .await
            .is_err()
        {
            tracing::warn!("subagents did not stop in time");
        }
        ExitCode::from(code)
    }

    /// Ends the conversation.
    pub(super) async fn shut_down(self) {
        self.terminal.shut_down().await;
    }

    async fn show_unfinished(&mut self) {
        while let Some(event) = self.terminal.next_unfinished().await {
            self.show(&event);
            self.leave();
        }
    }

    /// Stops everything in this conversation, and shows the answer.
    async fn stop_all(&mut self) {
        self.send(STOP).await;
        while self.commands > 0
            && let Some(event) = self.terminal.next().await
        {
            self.show(&event);
            self.leave();
        }
    }

    /// Applies what the keys mean for the prompt itself.
    fn apply(&mut self, outcome: EditOutcome) -> (Next, EditOutcome) {
        if outcome != EditOutcome::Ignored {
            self.hint = None;
        }
        let was_leaving = std::mem::take(&mut self.is_leaving);
        match &outcome {
            EditOutcome::Leave => return (Next::Leave, outcome),
            EditOutcome::Suspend => return (Next::Suspend, outcome),
            EditOutcome::OpenEditor => return (Next::OpenEditor, outcome),
            EditOutcome::Cleared => {
                self.is_leaving = true;
                self.hint = Some(match &self.status {
                    Some(status) if !status.is_stopping() => {
                        "Ctrl-C again stops the turn; Up brings the text back."
                    }
                    _ => "Ctrl-C again leaves; Up brings the text back.",
                });
            }
            EditOutcome::Interrupt if self.status.as_mut().is_some_and(TurnStatus::stop) => {}
            EditOutcome::Interrupt if was_leaving || self.status.is_some() => {
                return (Next::Leave, outcome);
            }
            EditOutcome::Interrupt => {
                self.is_leaving = true;
                self.hint = Some("Ctrl-C again leaves.");
                return (Next::Continue, EditOutcome::Edited);
            }
            EditOutcome::Queue(text) if self.queue.len() < MAX_QUEUED => {
                self.queue.push_back(QueuedMessage {
                    text: text.clone(),
                    is_echoed: false,
                });
            }
            EditOutcome::Queue(text) => {
                self.editor.set_text(text);
                self.hint = Some("Too many messages are queued; Enter sends this one now.");
            }
            EditOutcome::TooLong => {
                self.hint = Some("Too long: put the text into a file and name it with @.");
            }
            EditOutcome::ClearScreen => {
                if let Err(error) = self.region.clear() {
                    tracing::debug!(%error, "the screen could not be cleared");
                }
            }
            EditOutcome::Details => {
                self.show_results();
            }
            _ => {}
        }
        (Next::Continue, outcome)
    }

    /// Stops the running turn. Queued messages are not sent; they are in the history.
    async fn stop(&mut self) {
        self.queue.clear();
        self.send_or_queue(STOP).await;
    }

    /// Takes queued messages as if they were typed now, each into a turn of its own. A stop does not
    /// wait for the turn.
    async fn send_queued(&mut self) -> Result<Next, CommandFailure> {
        while self.terminal.is_connected()
            && let Some(message) = self
                .queue
                .pop_front_if(|message| self.status.is_none() || message.text == STOP)
        {
            if message.is_echoed {
                self.send(&message.text).await;
                continue;
            }
            let next = self.submit_line(&message.text).await?;
            if next != Next::Continue {
                return Ok(next);
            }
        }
        Ok(Next::Continue)
    }

    /// Sends a message, or queues it while the gateway is gone. If too many are queued, it is edited
    /// again.
    async fn send_or_queue(&mut self, text: &str) {
        if self.terminal.is_connected() {
            self.send(text).await;
        } else if self.queue.len() < MAX_QUEUED {
            self.queue.push_back(QueuedMessage {
                text: text.to_owned(),
                is_echoed: true,
            });
        } else {
            self.editor.set_text(text);
            self.hint = Some("Too many messages are queued; wait for the gateway.");
        }
    }

    /// Handles a line that was sent by Enter.
    async fn submit_line(&mut self, text: &str) -> Result<Next, CommandFailure> {
        if is_farewell(text) {
            return Ok(Next::Leave);
        }
        self.echo(text);
        match prompt_command(text) {
            Some((action, argument)) => {
                let next = match self.act(action, argument).await {
                    Ok(next) => next,
                    Err(failure) => {
                        self.say(&failure.to_string());
                        Next::Continue
                    }
                };
                self.lines.push('\n');
                return Ok(next);
            }
            None => {
                if text.trim().eq_ignore_ascii_case("/help") {
                    let help = self.view.render(&help());
                    self.lines.push_str(&help);
                }
                // What was typed is on the screen before anything can block.
                self.draw()?;
                self.send_or_queue(text).await;
            }
        }
        Ok(Next::Continue)
    }

    async fn send(&mut self, text: &str) {
        let is_command = is_command(text);
        let named = match is_command {
            true => NamedFiles::default(),
            false => NamedFiles::of(text, &self.words.folder),
        };
        for note in named.notes {
            let note = self.view.note(&note);
            self.lines.push_str(&note);
        }
        let message = TerminalMessage {
            text: text.to_owned(),
            files: named.files,
        };
        match self.terminal.send(message).await {
            Ok(()) => {
                self.commands += usize::from(!starts_turn(text));
                self.follow_turn();
                if let Some(status) = self.status.as_mut().filter(|_| !is_command) {
                    status.answered();
                }
            }
            Err(error) => {
                self.say(&CommandFailure::from(error).to_string());
                if !is_command && self.editor.text().is_empty() {
                    self.editor.set_text(text);
                }
            }
        }
    }

    /// Begins or ends the status with the turn, also with one of another terminal.
    fn follow_turn(&mut self) {
        match (self.terminal.is_working(), &self.status) {
            (true, None) => {
                self.status = Some(TurnStatus::begin(self.view.names_tools()));
                self.details.begin();
            }
            (false, Some(_)) => self.status = None,
            _ => {}
        }
    }

    fn show(&mut self, event: &TerminalEvent) {
        self.follow_turn();
        // The reply of a command, of an earlier turn, or from the middle of this one.
        if let TerminalEvent::Reply { job: None, .. } = event {
            self.commands = self.commands.saturating_sub(1);
        }
        if let Some(status) = &mut self.status {
            status.record(event);
        }
        self.details.record(event);
        for piece in self.view.show(event) {
            let (ViewPiece::Reply(text) | ViewPiece::Note(text)) = piece;
            self.lines.push_str(&text);
        }
        if matches!(event, TerminalEvent::Reply { .. }) {
            self.lines.push('\n');
        }
    }

    /// Prints the sent text where the edited one was.
    fn echo(&mut self, text: &str) {
        let rows = rows_of(PROMPT, text, 0, self.region.width(), ECHO_ROWS + 1).rows;
        let is_cut = rows.len() > ECHO_ROWS;
        for row in rows.iter().take(ECHO_ROWS) {
            self.lines.push_str(&format!("{row}\n"));
        }
        if is_cut {
            self.lines.push_str("     … (the whole message is sent)\n");
        }
    }

    /// Prints whole lines of prose, broken between words.
    pub(super) fn say(&mut self, text: &str) {
        let text = nanobot_escape::visible(text);
        let rows = wrapped(&text, self.region.width());
        self.lines.push_str(&format!("{rows}\n"));
    }

    /// Prints the tools of the last turn with their results.
    pub(super) fn show_results(&mut self) {
        let results = self.details.results(self.view.layout());
        self.lines.push_str(&results);
    }

    fn draw(&mut self) -> std::io::Result<()> {
        let begun = Instant::now();
        let lines = std::mem::take(&mut self.lines);
        let frame = self.frame();
        let drawn = self.region.draw(&lines, frame);
        self.pace.drawn(begun);
        drawn
    }

    fn frame(&self) -> Frame {
        let (width, height) = (self.region.width(), self.region.height());
        let mut below: Vec<String> = Vec::new();
        if let Some(status) = &self.status {
            below.push(self.view.dim(&status.line(width)));
        }
        let queued = self.queue.iter().take(QUEUE_ROWS);
        below.extend(queued.map(|message| {
            let text = format!("queued: {}", message.text);
            self.view.dim(&cut(&text, width))
        }));
        let hint = wrapped(self.hint.unwrap_or_default(), width);
        let hint: Vec<String> = hint.lines().map(|row| self.view.dim(row)).collect();
        let room = height.saturating_sub(below.len() + hint.len() + 1);
        let input = self.editor.rows(PROMPT, width, room.max(1));
        let room = room.saturating_sub(input.rows.len());
        let mut rows = self.view.open_rows(room);
        rows.extend(below);
        let cursor = (rows.len() + input.cursor.0, input.cursor.1);
        rows.extend(input.rows);
        rows.extend(hint);
        Frame { rows, cursor }
    }
}
