//! The terminal itself: its mode, and the part of its screen that is redrawn.

mod input;
mod mode;
mod pace;
mod region;

pub(super) use input::TerminalInput;
pub(super) use mode::RawMode;
pub(super) use pace::FramePace;
pub(super) use region::{Frame, LiveRegion};
