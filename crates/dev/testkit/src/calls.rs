//! What clients asked a fake for, and what goes wrong with the next of it.
//!
//! Decision: faults wait for a method by its name, each for one call, in the order in which they were
//! told. What a fault does is the fake's own affair; here it is only kept.

use std::fmt;

/// Something that a client asked for.
pub trait Called {
    /// What it is called: the method of an API, the command of a protocol.
    fn method(&self) -> &str;
}

impl Called for String {
    fn method(&self) -> &str {
        self
    }
}

/// The calls so far, and the faults of those to come. Names are the same in any case.
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
    /// Lets the next call of a method that has no fault yet go wrong.
    pub fn fail_next(&mut self, method: &str, fault: F) {
        self.faults.push((method.to_owned(), fault));
    }

    /// Notes a call, and takes the fault that waits for it.
    pub fn note(&mut self, call: C) -> Option<F> {
        let fault = self.fault(call.method());
        self.calls.push(call);
        fault
    }

    /// Takes the fault that waits for a method without a call, for what is none: a handshake, say.
    pub fn fault(&mut self, method: &str) -> Option<F> {
        let place = self
            .faults
            .iter()
            .position(|(name, _)| name.eq_ignore_ascii_case(method))?;
        Some(self.faults.remove(place).1)
    }

    /// Every call so far, in order.
    #[must_use]
    pub fn all(&self) -> &[C] {
        &self.calls
    }

    /// The calls of one method, in order.
    #[must_use]
    pub fn of(&self, method: &str) -> Vec<C> {
        self.calls
            .iter()
            .filter(|call| call.method().eq_ignore_ascii_case(method))
            .cloned()
            .collect()
    }

    /// The calls of one method, once there are so many.
    #[must_use]
    pub fn reached(&self, method: &str, count: usize) -> Option<Vec<C>> {
        Some(self.of(method)).filter(|calls| calls.len() >= count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_waits_for_its_method_and_holds_for_one_call() {
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
