//! Replay bundles: a recording in one file, to be replayed on another machine.
//!
//! Decision: a bundle contains everything that a replay depends on besides the program: the records
//! that the chosen turns need, the tools and the options. It is redacted when it is made; there is
//! no way to make an unredacted one.

use nanobot_session::{Entry, MessageEntry, Record, Seq, SessionView, TurnEnd};
use nanobot_types::{
    ChatMessage, Effect, Map, MessageId, SessionKey, Timestamp, ToolName, ToolSource, ToolSpec,
    TraceId,
};
use serde::{Deserialize, Serialize};

use crate::turns::turns;
use crate::{Redactor, ReplayOptions, TurnChoice, TurnReplay, replay_session};
use nanobot_agent_core::TurnOptions;

/// Version of the file format. Other versions are rejected.
const FORMAT: u32 = 1;

/// The reason why a file could not be read as a bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The file is not a bundle, or it is damaged.
    #[error("this is not a replay bundle")]
    Unreadable(#[from] serde_json::Error),
    /// The bundle has the format of another version of the program.
    #[error("the bundle has format {found}, this program reads format {FORMAT}")]
    Format {
        /// The format of the bundle.
        found: u32,
    },
}

/// Recorded turns, with everything needed to replay them.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    /// Version of the program that made it.
    pub program: String,
    /// Default options of a replay.
    pub options: ReplayOptions,
    /// The tools available at the time.
    pub specs: Vec<ToolSpec>,
    /// The records.
    pub view: SessionView,
}

impl Bundle {
    /// Creates a redacted bundle of the turns that `options` choose. Returns `None` if the log has
    /// no such turn.
    #[must_use]
    pub fn new(
        view: &SessionView,
        options: &ReplayOptions,
        specs: &[ToolSpec],
        redactor: &Redactor,
    ) -> Option<Self> {
        let turns = turns(&view.records);
        let wanted = turns
            .iter()
            .enumerate()
            .filter(|(index, turn)| options.includes(options.number(*index), turn));
        let mut wanted = wanted.map(|(_, turn)| turn);
        let first = wanted.next()?;
        let last = wanted.next_back().unwrap_or(first);
        let needed = first.first_known();
        // Turns are included whole, so that later turns keep their numbers.
        let skipped = turns
            .iter()
            .take_while(|turn| turn.range.end <= needed)
            .count();
        let begin = turns
            .get(skipped)
            .map_or(needed, |turn| turn.range.start.min(needed));
        let records = view.records.get(begin..last.range.end).unwrap_or_default();
        let records = records
            .iter()
            .filter_map(|record| redacted(record, redactor));
        let spec = |spec: &ToolSpec| ToolSpec {
            description: redactor.text(&spec.description),
            parameters: redactor.schema(&spec.parameters),
            ..spec.clone()
        };
        Some(Self {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            options: ReplayOptions {
                first_turn: options.number(skipped),
                ..options.clone()
            },
            specs: specs.iter().map(spec).collect(),
            view: SessionView {
                records: records.collect(),
                ..SessionView::default()
            },
        })
    }

    /// Replays the turns that were chosen when the bundle was made.
    pub async fn replay(&self) -> Vec<TurnReplay> {
        replay_session(&self.view, &self.options, &self.specs).await
    }

    /// Serialises the bundle as the text of a file.
    ///
    /// # Errors
    /// Returns an error if serialisation fails, which does not happen for bundles of a session.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let (turn_number, turn_id) = match &self.options.turns {
            TurnChoice::All => (None, None),
            TurnChoice::Number(number) => (Some(*number), None),
            TurnChoice::Id(id) => (None, Some(id.clone())),
        };
        let file = BundleFile {
            format: FORMAT,
            program: self.program.clone(),
            session: self.options.session.clone(),
            turn_number,
            turn_id,
            first_turn: self.options.first_turn,
            options: self.options.turn_options.clone(),
            tools: self.specs.iter().map(Tool::from).collect(),
            records: self.view.records.iter().filter_map(line).collect(),
        };
        serde_json::to_string_pretty(&file)
    }

    /// Reads a bundle.
    ///
    /// # Errors
    /// Returns a [`BundleError`] if `text` is not a bundle of a supported format.
    pub fn from_json(text: &str) -> Result<Self, BundleError> {
        let BundleFormat { format } = serde_json::from_str(text)?;
        if format != FORMAT {
            return Err(BundleError::Format { found: format });
        }
        let file: BundleFile = serde_json::from_str(text)?;
        let turns = match (file.turn_number, file.turn_id) {
            (Some(number), _) => TurnChoice::Number(number),
            (None, Some(id)) => TurnChoice::Id(id),
            (None, None) => TurnChoice::All,
        };
        Ok(Self {
            program: file.program,
            options: ReplayOptions {
                session: file.session,
                turns,
                first_turn: file.first_turn,
                turn_options: file.options,
            },
            specs: file.tools.into_iter().map(ToolSpec::from).collect(),
            view: SessionView {
                records: file.records.into_iter().map(Record::from).collect(),
                ..SessionView::default()
            },
        })
    }
}

fn redacted(record: &Record, redactor: &Redactor) -> Option<Record> {
    let entry = match &record.entry {
        Entry::Message(entry) => Entry::Message(redactor.entry(entry)),
        Entry::TurnEnded(end) => {
            let visible = end.visible.as_deref().map(|text| redactor.text(text));
            Entry::TurnEnded(TurnEnd {
                visible,
                ..end.clone()
            })
        }
        Entry::Consolidated { .. } | Entry::Reset | Entry::Rewound { .. } | Entry::Restored => {
            record.entry.clone()
        }
        // Metadata does not belong to a turn.
        Entry::Metadata(_) => return None,
    };
    Some(Record {
        seq: record.seq,
        entry,
    })
}

#[derive(Deserialize)]
struct BundleFormat {
    format: u32,
}

#[derive(Serialize, Deserialize)]
struct BundleFile {
    format: u32,
    program: String,
    session: SessionKey,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turn_number: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turn_id: Option<TraceId>,
    first_turn: u64,
    options: TurnOptions,
    tools: Vec<Tool>,
    records: Vec<BundleLine>,
}

#[derive(Serialize, Deserialize)]
struct Tool {
    name: ToolName,
    description: String,
    parameters: serde_json::Value,
    effect: Effect,
    built_in: bool,
}

impl From<&ToolSpec> for Tool {
    fn from(spec: &ToolSpec) -> Self {
        Self {
            name: spec.name.clone(),
            description: spec.description.clone(),
            parameters: spec.parameters.clone(),
            effect: spec.effect,
            built_in: spec.source == ToolSource::BuiltIn,
        }
    }
}

impl From<Tool> for ToolSpec {
    fn from(tool: Tool) -> Self {
        Self {
            name: tool.name,
            description: tool.description,
            parameters: tool.parameters,
            effect: tool.effect,
            source: if tool.built_in {
                ToolSource::BuiltIn
            } else {
                ToolSource::External
            },
        }
    }
}

#[derive(Serialize, Deserialize)]
struct BundleLine {
    seq: Seq,
    #[serde(flatten)]
    step: StepLine,
}

/// The kinds of records that replays use.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StepLine {
    Said {
        message: ChatMessage,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inbound: Option<MessageId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        runtime: Option<String>,
        at: Timestamp,
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        extra: Map,
    },
    TurnEnded(TurnEnd),
    Consolidated {
        upto: Seq,
    },
    Reset {},
    Rewound {
        to: Seq,
    },
    Restored {},
}

fn line(record: &Record) -> Option<BundleLine> {
    let step = match &record.entry {
        Entry::Message(entry) => StepLine::Said {
            message: (*entry.message).clone(),
            inbound: entry.inbound.clone(),
            runtime: entry.runtime.clone(),
            at: entry.at,
            extra: entry.extra.clone(),
        },
        Entry::TurnEnded(end) => StepLine::TurnEnded(end.clone()),
        Entry::Consolidated { upto } => StepLine::Consolidated { upto: *upto },
        Entry::Reset => StepLine::Reset {},
        Entry::Rewound { to } => StepLine::Rewound { to: *to },
        Entry::Restored => StepLine::Restored {},
        Entry::Metadata(_) => return None,
    };
    Some(BundleLine {
        seq: record.seq,
        step,
    })
}

impl From<BundleLine> for Record {
    fn from(line: BundleLine) -> Self {
        let entry = match line.step {
            StepLine::Said {
                message,
                inbound,
                runtime,
                at,
                extra,
            } => Entry::Message(MessageEntry {
                message: message.into(),
                inbound,
                runtime,
                at,
                extra,
            }),
            StepLine::TurnEnded(end) => Entry::TurnEnded(end),
            StepLine::Consolidated { upto } => Entry::Consolidated { upto },
            StepLine::Reset {} => Entry::Reset,
            StepLine::Rewound { to } => Entry::Rewound { to },
            StepLine::Restored {} => Entry::Restored,
        };
        Self {
            seq: line.seq,
            entry,
        }
    }
}
