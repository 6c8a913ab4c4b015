//! x
#![allow(dead_code)]
mod yaml;
