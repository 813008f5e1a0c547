//! Transactions: what is true only after a commit cannot leave before it.

use std::marker::PhantomData;

use super::code::Code;

/// What a store's port can fail with. Every one of them is "could not decide" to the outside: never a denial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// What is stored does not have the form that this version writes.
    Corrupt { what: String },
    /// A row's MAC does not hold: it was changed, moved or replaced from outside.
    RowTampered { table: &'static str },
    /// The store cannot be reached, is full, or refused the statement.
    Unavailable { what: String },
    /// The clock jumped, or lies below the highest time in the log.
    Clock { what: String },
}

impl StoreError {
    /// Returns the stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::Corrupt { .. } => Code::StoreCorrupt,
            Self::RowTampered { .. } => Code::StoreRowTampered,
            Self::Unavailable { .. } => Code::StoreUnavailable,
            Self::Clock { .. } => Code::ClockJumped,
        }
    }
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Corrupt { what } => write!(f, "the store holds what this version did not write: {what}"),
            Self::RowTampered { table } => write!(f, "a row of table {table} was changed from outside"),
            Self::Unavailable { what } => write!(f, "the store cannot be used: {what}"),
            Self::Clock { what } => write!(f, "the clock is not to be relied on: {what}"),
        }
    }
}

impl std::error::Error for StoreError {}

/// An open transaction of a store. Implemented in `store` and in tests alone.
pub trait Transaction {
    /// Why a commit or rollback failed.
    type Error;

    /// Makes everything written durable, or nothing.
    ///
    /// Errors: the store's; then nothing was written, or it is unknown whether it was.
    fn commit(self) -> Result<(), Self::Error>;

    /// Undoes everything written.
    fn rollback(self);
}

/// A transaction in progress. `'t` is invariant and new for each one, so that nothing staged in one leaves by another.
pub struct Txn<'t, T> {
    tx: T,
    brand: PhantomData<fn(&'t ()) -> &'t ()>,
}

impl<'t, T> Txn<'t, T> {
    /// Gives the ports of the transaction.
    pub fn ports(&mut self) -> &mut T {
        &mut self.tx
    }

    /// Marks a value as true once this transaction has committed.
    ///
    /// Called by the rooms that mint such values; the tidy test counts the calls.
    pub fn stage<V>(&self, value: V) -> Staged<'t, V> {
        Staged { value, brand: PhantomData }
    }
}

/// A value that is true once `'t` has committed; it cannot be taken out before.
#[must_use = "a staged value is lost unless the transaction's work returns it"]
pub struct Staged<'t, V> {
    value: V,
    brand: PhantomData<fn(&'t ()) -> &'t ()>,
}

impl<'t, V> Staged<'t, V> {
    /// Shows the value while it is not true yet.
    pub fn uncommitted(&self) -> &V {
        &self.value
    }

    /// Joins two staged values.
    pub fn and<W>(self, other: Staged<'t, W>) -> Staged<'t, (V, W)> {
        Staged { value: (self.value, other.value), brand: PhantomData }
    }

    /// Changes the value, which stays staged. A function pointer: nothing leaves through a captured place.
    pub fn map<W>(self, change: fn(V) -> W) -> Staged<'t, W> {
        Staged { value: change(self.value), brand: PhantomData }
    }

    /// Joins a list of staged values.
    pub fn all(list: Vec<Self>) -> Staged<'t, Vec<V>> {
        Staged { value: list.into_iter().map(|staged| staged.value).collect(), brand: PhantomData }
    }
}

/// A store that runs work in a transaction. Adapters run `work` off the executor's threads, so that nothing slow can be
/// awaited while a transaction is open.
pub trait Transact: Send + Sync + 'static {
    /// The open transaction, with the ports of the rooms on it.
    type Tx: Transaction;

    /// Runs `work`, commits, and only then hands out what it staged. An `Err` of the work rolls back.
    ///
    /// Contract: at most one commit; a conflict or a store that cannot be reached
    /// is an `Err`, and the caller decides whether to try again.
    fn transact<V, E, W>(&self, work: W) -> impl Future<Output = Result<V, E>> + Send
    where
        V: Send + 'static,
        E: From<<Self::Tx as Transaction>::Error> + Send + 'static,
        W: for<'t> FnOnce(&mut Txn<'t, Self::Tx>) -> Result<Staged<'t, V>, E> + Send + 'static;

    /// Runs `work` that only reads, on one snapshot, beside the transactions that write.
    ///
    /// Contract: nothing is written, and what is read may be older than the newest commit of another. Nothing is staged
    /// here: what must be true of a commit is read inside it.
    fn read<V, E, W>(&self, work: W) -> impl Future<Output = Result<V, E>> + Send
    where
        V: Send + 'static,
        E: From<<Self::Tx as Transaction>::Error> + Send + 'static,
        W: FnOnce(&mut Self::Tx) -> Result<V, E> + Send + 'static;
}

/// Runs `work` over `tx`, commits, and only then gives what it staged. Called by adapters alone.
///
/// Errors: those of `work`, after a rollback; those of the commit.
pub fn run<T, V, E, W>(tx: T, work: W) -> Result<V, E>
where
    T: Transaction,
    E: From<T::Error>,
    W: for<'t> FnOnce(&mut Txn<'t, T>) -> Result<Staged<'t, V>, E>,
{
    let mut txn = Txn { tx, brand: PhantomData };
    match work(&mut txn) {
        Ok(staged) => {
            txn.tx.commit()?;
            Ok(staged.value)
        }
        Err(error) => {
            txn.tx.rollback();
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    struct Fake(Rc<Cell<&'static str>>, bool);

    impl Transaction for Fake {
        type Error = String;

        fn commit(self) -> Result<(), String> {
            if !self.1 {
                return Err("disk full".to_string());
            }
            self.0.set("committed");
            Ok(())
        }

        fn rollback(self) {
            self.0.set("rolled back");
        }
    }

    #[test]
    fn a_failed_commit_gives_nothing_out() {
        let state = Rc::new(Cell::new(""));
        let given: Result<u8, String> = run(Fake(state.clone(), false), |txn| Ok(txn.stage(7)));
        assert_eq!(given, Err("disk full".to_string()));
        assert_eq!(run(Fake(state.clone(), true), |txn| Ok::<_, String>(txn.stage(7))), Ok(7));
        assert_eq!(state.get(), "committed");
    }

    #[test]
    fn an_error_of_the_work_rolls_back() {
        let state = Rc::new(Cell::new(""));
        let given: Result<u8, String> = run(Fake(state.clone(), true), |_| Err("no".to_string()));
        assert_eq!((given, state.get()), (Err("no".to_string()), "rolled back"));
    }
}
