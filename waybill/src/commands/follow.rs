//! What commands have in common that go on showing what comes, until Ctrl-C.

use platform::terminal;

/// All was shown that was asked for, or nobody reads it any more.
#[derive(PartialEq)]
pub enum Flow {
    On,
    End,
}

/// Says once that the connection is lost, and once that it is back.
#[derive(Default)]
pub struct Outage(bool);

impl Outage {
    pub fn begun(&mut self, what: &str) {
        if !std::mem::replace(&mut self.0, true) {
            let what = domain::redact::redact(what);
            terminal::err(&format!("{what}; trying again\n"));
        }
    }

    pub fn over(&mut self) {
        if std::mem::replace(&mut self.0, false) {
            terminal::err("back again\n");
        }
    }
}
