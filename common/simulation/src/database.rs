//! A database in memory with the rules of PostgreSQL at `read committed`, as far as the pipeline depends on them:
//! transactions that see what is committed and what they wrote themselves, locks of rows until their transaction ends,
//! `skip locked`, unique keys that wait for one another, savepoints, and deadlocks that end one of those in the circle.
//! With one writer it has the rules of SQLite with `begin immediate`.
//!
//! A statement is one call and takes no time. Between two statements anything may happen. A statement that has to wait
//! keeps the locks that it has got, and is made again when the other transaction has ended.

use crate::rows::{Effect, Endpoint, Event, Head, Job, Lease, Order, Outgoing, Refund, Remembered};

pub type TxId = u32;

/// Why a statement has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Another transaction has to end first.
    Waits(TxId),
    /// The database has ended this transaction to break a circle.
    Deadlock,
    /// The connection is lost, or the database takes none.
    Lost,
    /// The process has ended.
    Died,
}

pub type Result<T> = std::result::Result<T, Stop>;

/// A row: what is committed, and what the transaction that has it locked has made of it.
#[derive(Clone, Copy, Debug)]
struct Slot<R> {
    committed: Option<R>,
    pending: Option<(TxId, Option<R>)>,
}

/// What a slot held before a transaction wrote it, for savepoints.
#[derive(Clone, Copy, Debug)]
struct Undo<R> {
    tx: TxId,
    /// The number of the writing.
    nth: u32,
    key: usize,
    pending: Option<(TxId, Option<R>)>,
}

#[derive(Debug)]
pub struct Table<R> {
    slots: Vec<Slot<R>>,
    undo: Vec<Undo<R>>,
    written: u32,
}

impl<R> Default for Table<R> {
    fn default() -> Self {
        Table {
            slots: Vec::new(),
            undo: Vec::new(),
            written: 0,
        }
    }
}

impl<R: Copy> Table<R> {
    /// A key for a row that will be inserted. Keys grow, as the ids of jobs and events do.
    pub fn reserve(&mut self) -> usize {
        self.slots.push(Slot {
            committed: None,
            pending: None,
        });
        self.slots.len() - 1
    }

    /// Makes room for the keys below `end`.
    pub fn reserve_to(&mut self, end: usize) {
        while self.slots.len() < end {
            self.reserve();
        }
    }

    /// Puts a row that was there before everything.
    pub fn put(&mut self, key: usize, row: R) {
        self.reserve_to(key + 1);
        self.slots[key].committed = Some(row);
    }

    /// The committed row.
    pub fn committed(&self, key: usize) -> Option<R> {
        self.slots.get(key).and_then(|slot| slot.committed)
    }

    /// The row as this transaction sees it.
    pub fn seen(&self, tx: TxId, key: usize) -> Option<R> {
        let slot = self.slots.get(key)?;
        match slot.pending {
            Some((owner, row)) if owner == tx => row,
            _ => slot.committed,
        }
    }

    /// All committed rows.
    pub fn all(&self) -> impl Iterator<Item = (usize, R)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(key, slot)| slot.committed.map(|row| (key, row)))
    }

    /// All rows as this transaction sees them.
    pub fn all_seen(&self, tx: TxId) -> impl Iterator<Item = (usize, R)> {
        let keys = 0..self.slots.len();
        keys.filter_map(move |key| self.seen(tx, key).map(|row| (key, row)))
    }

    /// Who has locked this row, if it is somebody else.
    pub fn locked_by_other(&self, tx: TxId, key: usize) -> Option<TxId> {
        let (owner, _) = self.slots.get(key)?.pending?;
        (owner != tx).then_some(owner)
    }

    /// Writes a row, which this transaction then has locked.
    pub fn write(&mut self, tx: TxId, key: usize, row: Option<R>) {
        self.reserve_to(key + 1);
        let pending = self.slots[key].pending;
        self.written += 1;
        let nth = self.written;
        self.undo.push(Undo {
            tx,
            nth,
            key,
            pending,
        });
        self.slots[key].pending = Some((tx, row));
    }

    fn end(&mut self, tx: TxId, commit: bool) {
        if self.undo.iter().all(|undo| undo.tx != tx) {
            return;
        }
        for slot in &mut self.slots {
            if let Some((owner, row)) = slot.pending
                && owner == tx
            {
                slot.pending = None;
                if commit {
                    slot.committed = row;
                }
            }
        }
        self.undo.retain(|undo| undo.tx != tx);
    }

    /// Undoes what this transaction wrote after so many writings.
    fn undo_to(&mut self, tx: TxId, written: u32) {
        let of_savepoint = |undo: &&Undo<R>| undo.tx == tx && undo.nth > written;
        for undo in self.undo.iter().rev().filter(of_savepoint) {
            self.slots[undo.key].pending = undo.pending;
        }
        self.undo.retain(|undo| !of_savepoint(&undo));
    }
}

#[derive(Clone, Copy, Debug)]
struct Open {
    id: TxId,
    waits_for: Option<TxId>,
}

/// What the client sees of its `commit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is committed, and the client knows it.
    Known,
    /// It is committed, but the connection was lost before the answer.
    LostAfter,
    /// The connection was lost before the server got it.
    LostBefore,
}

#[derive(Debug, Default)]
pub struct Database {
    pub jobs: Table<Job>,
    pub webhook_ids: Table<Remembered>,
    pub orders: Table<Order>,
    pub effects: Table<Effect>,
    pub events: Table<Event>,
    pub event_head: Table<Head>,
    pub broker_cursor: Table<Head>,
    pub refunds: Table<Refund>,
    pub leases: Table<Lease>,
    pub endpoints: Table<Endpoint>,
    pub outgoing_webhooks: Table<Outgoing>,
    open: Vec<Open>,
    last: TxId,
    /// As on SQLite, one transaction at a time.
    pub has_one_writer: bool,
    /// It refuses connections until it has failed over.
    pub is_away: bool,
    /// How the next commit ends.
    pub next_fate: Option<Fate>,
    /// Transactions that were ended because they waited for each other in a circle.
    pub deadlocks: u32,
    /// The number of commits so far.
    pub commits: u32,
}

/// Does the same with each table.
macro_rules! tables {
    ($db:ident, $table:ident => $do:expr) => {{
        {
            let $table = &mut $db.jobs;
            $do;
        }
        {
            let $table = &mut $db.webhook_ids;
            $do;
        }
        {
            let $table = &mut $db.orders;
            $do;
        }
        {
            let $table = &mut $db.effects;
            $do;
        }
        {
            let $table = &mut $db.events;
            $do;
        }
        {
            let $table = &mut $db.event_head;
            $do;
        }
        {
            let $table = &mut $db.broker_cursor;
            $do;
        }
        {
            let $table = &mut $db.refunds;
            $do;
        }
        {
            let $table = &mut $db.leases;
            $do;
        }
        {
            let $table = &mut $db.endpoints;
            $do;
        }
        {
            let $table = &mut $db.outgoing_webhooks;
            $do;
        }
    }};
}

/// How much was written in each table when a savepoint began.
#[derive(Clone, Debug)]
pub struct Savepoint(Vec<u32>);

impl Database {
    /// `Db::begin`.
    pub fn begin(&mut self) -> Result<TxId> {
        if self.is_away {
            return Err(Stop::Lost);
        }
        if self.has_one_writer
            && let Some(open) = self.open.first()
        {
            return Err(Stop::Waits(open.id));
        }
        self.last += 1;
        self.open.push(Open {
            id: self.last,
            waits_for: None,
        });
        Ok(self.last)
    }

    pub fn is_open(&self, tx: TxId) -> bool {
        self.open.iter().any(|open| open.id == tx)
    }

    pub fn open(&self) -> impl Iterator<Item = TxId> {
        self.open.iter().map(|open| open.id)
    }

    /// Outside a transaction only reading is possible, and only while the database answers.
    pub fn reading(&self) -> Result<()> {
        if self.is_away {
            Err(Stop::Lost)
        } else {
            Ok(())
        }
    }

    /// The begin of each statement: the transaction must still be open.
    pub fn statement(&mut self, tx: TxId) -> Result<()> {
        let open = self.open.iter_mut().find(|open| open.id == tx);
        let open = open.ok_or(Stop::Lost)?;
        open.waits_for = None;
        Ok(())
    }

    /// `Tx::commit`.
    pub fn commit(&mut self, tx: TxId) -> Result<()> {
        self.statement(tx)?;
        let fate = self.next_fate.take().unwrap_or(Fate::Known);
        self.end(tx, fate != Fate::LostBefore);
        match fate {
            Fate::Known => Ok(()),
            Fate::LostAfter | Fate::LostBefore => Err(Stop::Lost),
        }
    }

    /// `Tx::rollback`, and what the server does when a connection ends. Nothing happens when the transaction has ended.
    pub fn rollback(&mut self, tx: TxId) {
        if self.is_open(tx) {
            self.end(tx, false);
        }
    }

    fn end(&mut self, tx: TxId, commit: bool) {
        tables!(self, table => table.end(tx, commit));
        self.open.retain(|open| open.id != tx);
        self.commits += u32::from(commit);
    }

    pub fn end_all(&mut self) {
        while let Some(open) = self.open.first() {
            self.end(open.id, false);
        }
    }

    /// `Tx::savepoint`.
    pub fn savepoint(&mut self, tx: TxId) -> Result<Savepoint> {
        self.statement(tx)?;
        let mut marks = Vec::with_capacity(10);
        tables!(self, table => marks.push(table.written));
        Ok(Savepoint(marks))
    }

    /// `Tx::undo_to_savepoint`.
    pub fn undo_to(&mut self, tx: TxId, savepoint: &Savepoint) -> Result<()> {
        self.statement(tx)?;
        let mut marks = savepoint.0.iter();
        tables!(self, table => if let Some(mark) = marks.next() { table.undo_to(tx, *mark) });
        Ok(())
    }

    /// A statement waits for another transaction. If that one waits for this one, this one is ended.
    pub fn waits(&mut self, tx: TxId, owner: TxId) -> Stop {
        let mut next = Some(owner);
        while let Some(at) = next {
            if at == tx {
                self.deadlocks += 1;
                self.rollback(tx);
                return Stop::Deadlock;
            }
            let open = self.open.iter().find(|open| open.id == at);
            next = open.and_then(|open| open.waits_for);
        }
        if let Some(open) = self.open.iter_mut().find(|open| open.id == tx) {
            open.waits_for = Some(owner);
        }
        Stop::Waits(owner)
    }
}

/// Locks a row until the transaction ends. If another one has it, the statement ends here, and is made again.
macro_rules! lock {
    ($db:expr, $table:ident, $tx:expr, $key:expr) => {
        if let Some(owner) = $db.$table.locked_by_other($tx, $key) {
            return Err($db.waits($tx, owner));
        }
    };
}
pub(crate) use lock;
