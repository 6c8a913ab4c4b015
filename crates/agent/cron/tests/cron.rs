//! Behaviour of jobs and schedules.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "cron/golden.rs"]
mod golden;
#[path = "cron/model.rs"]
mod model;
#[path = "cron/service.rs"]
mod service;
#[path = "cron/store.rs"]
mod store;
#[path = "cron/timing.rs"]
mod timing;
#[path = "cron/tool.rs"]
mod tool;
#[path = "cron/zone.rs"]
mod zone;
