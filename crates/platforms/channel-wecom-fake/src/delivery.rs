//! Deliveries of pushes to the connection that is subscribed.

use serde_json::{Value, json};

use crate::connection::Out;
use crate::model::Pushed;
use crate::state::WeComState;

impl WeComState {
    /// Sends waiting pushes to the subscribed connection. Without one, they are lost or kept.
    pub(crate) fn dispatch(&mut self) {
        let taker = self
            .connections
            .iter_mut()
            .find(|(_, open)| open.takes_pushes());
        let mut outbox = taker.map(|(_, open)| &mut open.outbox);
        for (number, push) in self.pushes.iter_mut().enumerate() {
            if !push.is_waiting {
                continue;
            }
            if let Some(outbox) = &mut outbox {
                outbox.push_back(Out::Push(number));
                push.is_waiting = false;
            } else if !self.keeps_messages {
                push.is_waiting = false;
            }
        }
    }

    /// Returns the frame of a push, which is written now.
    pub(crate) fn deliver(&mut self, number: usize) -> Option<String> {
        let push = self.pushes.get_mut(number)?;
        push.deliveries += 1;
        Some(frame(&push.cmd, &push.req_id, &push.body))
    }

    pub(crate) fn repeat(&mut self, pushed: &Pushed) {
        if let Some(push) = pushed.push.and_then(|number| self.pushes.get_mut(number)) {
            push.is_waiting = true;
        }
        self.dispatch();
    }

    pub(crate) fn remove_connection(&mut self, connection: usize) {
        let Some(open) = self.connections.remove(&connection) else {
            return;
        };
        self.held.retain(|(number, _)| *number != connection);
        self.requeue(open.outbox);
        self.dispatch();
    }

    /// Makes pushes wait again that a connection did not write.
    pub(crate) fn requeue(&mut self, outbox: impl IntoIterator<Item = Out>) {
        for out in outbox {
            if let Out::Push(number) = out
                && let Some(push) = self.pushes.get_mut(number)
            {
                push.is_waiting = true;
            }
        }
    }

    pub(crate) fn send_out(&mut self, connection: usize, out: Out) {
        if let Some(open) = self.connections.get_mut(&connection) {
            open.outbox.push_back(out);
        }
    }

    pub(crate) fn deliveries(&self, pushed: &Pushed) -> usize {
        let push = pushed.push.and_then(|number| self.pushes.get(number));
        push.map_or(0, |push| push.deliveries)
    }

    /// Returns the body of a push; `Null` if there is none.
    pub(crate) fn body_of(&self, pushed: &Pushed) -> Value {
        let push = pushed.push.and_then(|number| self.pushes.get(number));
        push.map(|push| push.body.clone()).unwrap_or_default()
    }
}

/// Returns the frame of a callback.
pub(crate) fn frame(cmd: &str, req_id: &str, body: &Value) -> String {
    json!({"cmd": cmd, "headers": {"req_id": req_id}, "body": body}).to_string()
}

#[cfg(test)]
mod tests {
    use crate::account::SECRET;
    use crate::connection::Out;
    use crate::incoming::Incoming;
    use crate::probe::{FIRST, Probe, ann};

    fn hello() -> Incoming {
        Incoming::direct(&ann(), "hello")
    }

    #[test]
    fn pushes_without_a_connection_are_lost_or_kept() {
        for keeps in [false, true] {
            let mut probe = Probe::new();
            probe.state.keeps_messages = keeps;
            let unwritten = probe.state.push(hello(), true);
            probe.state.leave(&Out::Drop);
            let missed = probe.state.push(hello(), true);
            probe.state.remove_connection(FIRST);
            probe.connect(2);
            assert_eq!(probe.subscribe(2, SECRET), 0);
            assert_eq!(probe.outs(2).len(), if keeps { 2 } else { 0 });
            for pushed in [&unwritten, &missed] {
                assert_eq!(probe.state.deliveries(pushed), usize::from(keeps));
            }
        }
    }

    #[test]
    fn repeated_push_is_the_same_frame() {
        let mut probe = Probe::new();
        let (pushed, first) = probe.push(hello());
        probe.state.repeat(&pushed);
        assert_eq!(probe.frame(), first);
        assert_eq!(probe.state.deliveries(&pushed), 2);
        assert_eq!(probe.state.body_of(&pushed), first["body"]);
    }
}
