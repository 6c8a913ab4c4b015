//! Record of the calls that clients made to a fake, with faults scripted for later calls.
//!
//! Faults are matched to calls by method name. Each applies to one call, in the order in which they
//! were scripted. This module only stores faults; each fake defines their effect.

use std::fmt;

/// A recorded call.
pub trait Called {
    /// Returns the method of an API or the command of a protocol.
    fn method(&self) -> &str;
}

impl Called for String {
    fn method(&self) -> &str {
        self
    }
}

/// Calls so far, and faults scripted for later calls. Method names are case-insensitive.
pub struct Calls<C, F> {
    calls: Vec<C>,
    faults: Vec<(String, F)>,
}

impl<C, F> Default for Calls<C, F> {
    fn default() -> Self {
        Self {
            calls: Vec::new(),
            faults: Vec::new(),
        }
    }
}

impl<C: fmt::Debug, F: fmt::Debug> fmt::Debug for Calls<C, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls")
            .field("calls", &self.calls)
            .field("faults", &self.faults)
            .finish()
    }
}

impl<C: Called + Clone, F> Calls<C, F> {
    /// Scripts a fault for the next call of `method` that has none yet.
    pub fn fail_next(&mut self, method: &str, fault: F) {
        self.faults.push((method.to_owned(), fault));
    }

    /// Records a call and takes the fault scripted for it.
    pub fn note(&mut self, call: C) -> Option<F> {
        let fault = self.fault(call.method());
        self.calls.push(call);
        fault
    }

    /// Takes the fault scripted for `method` without recording a call, for events that are not
    /// calls, such as a handshake.
    pub fn fault(&mut self, method: &str) -> Option<F> {
        let place = self
            .faults
            .iter()
            .position(|(name, _)| name.eq_ignore_ascii_case(method))?;
        Some(self.faults.remove(place).1)
    }

    /// Returns every call so far, in order.
    #[must_use]
    pub fn all(&self) -> &[C] {
        &self.calls
    }

    /// Returns the calls of one method, in order.
    #[must_use]
    pub fn of(&self, method: &str) -> Vec<C> {
        self.calls
            .iter()
            .filter(|call| call.method().eq_ignore_ascii_case(method))
            .cloned()
            .collect()
    }

    /// Returns the calls of one method once there are at least `count`.
    #[must_use]
    pub fn reached(&self, method: &str, count: usize) -> Option<Vec<C>> {
        Some(self.of(method)).filter(|calls| calls.len() >= count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_applies_to_one_call_of_its_method() {
        let mut calls = Calls::default();
        calls.fail_next("send", 1);
        calls.fail_next("Send", 2);
        calls.fail_next("read", 3);
        let mut faults = ["look", "SEND", "send", "send"]
            .map(|name| calls.note(name.to_owned()))
            .to_vec();
        faults.push(calls.fault("read"));
        assert_eq!(faults, [None, Some(1), Some(2), None, Some(3)]);
        assert_eq!(calls.of("send"), ["SEND", "send", "send"]);
        assert_eq!((calls.reached("send", 4), calls.all().len()), (None, 4));
    }
}
