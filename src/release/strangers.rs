//! Callers who are not known to be genuine guests: recorded one by one within a budget, then counted.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use super::error::Error;
use super::service::{Ports, Service};
use crate::audit::append::append;
use crate::audit::entry::{Entry, Stranger, StrangersCounted, Text};
use crate::protocol::head::Plane;
use crate::wire::time::Clock as _;
use crate::wire::txn::{StoreError, Transact as _};
use crate::wire::{Code, Digest, UnixSeconds};

/// Entries of one address in one minute.
const PER_ADDRESS_MAX: u32 = 10;
/// Entries of all addresses in one minute.
const PER_MINUTE_MAX: u32 = 120;
/// Codes that one counted entry lists.
const CODES_MAX: usize = 32;

/// The budget of the minute, and what went beyond it.
#[derive(Debug, Default)]
pub struct Strangers {
    minute: Mutex<Minute>,
}

#[derive(Debug, Default)]
struct Minute {
    began: Option<UnixSeconds>,
    recorded: u32,
    by_address: HashMap<IpAddr, u32>,
    counted: u64,
    codes: Vec<Code>,
}

impl Strangers {
    /// Says which entries a stranger makes now: its own within the budget, and the count of an earlier minute.
    fn charge(&self, now: UnixSeconds, address: IpAddr, code: Code) -> (bool, Option<StrangersCounted>) {
        let mut minute = self.minute.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = match minute.is_over(now) {
            true => std::mem::take(&mut *minute).counted_until(now),
            false => None,
        };
        minute.began.get_or_insert(now);
        let of_address = minute.by_address.get(&address).copied().unwrap_or(0);
        let within = minute.recorded < PER_MINUTE_MAX && of_address < PER_ADDRESS_MAX;
        if within {
            minute.recorded += 1;
            minute.by_address.insert(address, of_address + 1);
        } else {
            minute.counted = minute.counted.saturating_add(1);
            if minute.codes.len() < CODES_MAX && !minute.codes.contains(&code) {
                minute.codes.push(code);
            }
        }
        (within, counted)
    }

    /// Takes the count of a minute that is over, or of any where nobody comes any more.
    fn counted(&self, now: UnixSeconds, which: Counted) -> Option<StrangersCounted> {
        let mut minute = self.minute.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = match which {
            Counted::All => true,
            Counted::Over => minute.is_over(now),
        };
        if taken { std::mem::take(&mut *minute).counted_until(now) } else { None }
    }
}

/// Which counts are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Of the running minute too: the service stops.
    All,
    /// Of a minute that is over.
    Over,
}

impl Minute {
    fn is_over(&self, now: UnixSeconds) -> bool {
        self.began.is_none_or(|began| now.since(began) >= 60 || now < began)
    }

    fn counted_until(self, until: UnixSeconds) -> Option<StrangersCounted> {
        let from = self.began.filter(|_| self.counted > 0)?;
        Some(StrangersCounted { plane: Plane::Guest, from, until, count: self.counted, codes: self.codes })
    }
}

/// How a stranger was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// By an entry of its own: there is room for a line in the service's log as well.
    Alone,
    /// Within the count of its minute.
    Counted,
}

/// Records a stranger, within the budget.
///
/// Errors: `Closed`, since nothing is added to a log that is not verified; those of the store.
pub async fn note<P: Ports>(
    service: &Service<P>,
    address: IpAddr,
    code: Code,
    sent: Digest<32>,
) -> Result<Noted, Error> {
    if !service.is_open() {
        return Err(Error::Closed);
    }
    let (within, counted) = service.strangers.charge(service.clock.now(), address, code);
    let mut entries: Vec<Entry> = counted.map(Entry::from).into_iter().collect();
    if within {
        let address = Text::cut(&address.to_string());
        entries.push(Stranger { plane: Plane::Guest, address, code, sent }.into());
    }
    append_all(service, entries).await?;
    Ok(if within { Noted::Alone } else { Noted::Counted })
}

/// Records the count of strangers beyond the budget, which otherwise waits for the next stranger. Nothing while the
/// service is closed: the count waits.
///
/// Errors: those of the store.
pub async fn flush<P: Ports>(service: &Service<P>, which: Counted) -> Result<(), StoreError> {
    if !service.is_open() {
        return Ok(());
    }
    let counted = service.strangers.counted(service.clock.now(), which);
    append_all(service, counted.map(Entry::from).into_iter().collect()).await
}

async fn append_all<P: Ports>(service: &Service<P>, entries: Vec<Entry>) -> Result<(), StoreError> {
    if entries.is_empty() {
        return Ok(());
    }
    let desk = service.desk();
    let noted = service.store.transact::<_, StoreError, _>(move |txn| {
        let now = desk.now(txn)?;
        let mut staged = txn.stage(());
        for entry in &entries {
            let appended = append(txn, desk.log()?, now, entry, None)?.untold(txn);
            staged = staged.and(appended).map(|((), ())| ());
        }
        Ok(staged)
    });
    noted.await.inspect_err(|error| service.failed(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_bounds_entries_and_counts_the_rest() {
        let strangers = Strangers::default();
        let at = |seconds| UnixSeconds::new(seconds).unwrap();
        let address = |n: u8| IpAddr::from([127, 0, 0, n]);
        let charge = |now, n| strangers.charge(at(now), address(n), Code::ProofInvalid);
        for _ in 0..PER_ADDRESS_MAX {
            assert!(charge(100, 1).0);
        }
        assert!(!charge(100, 1).0, "one address has its own bound");
        for n in 2..=12 {
            for _ in 0..PER_ADDRESS_MAX {
                charge(110, n);
            }
        }
        assert!(!charge(120, 200).0, "all together have one too");
        let (within, counted) = charge(160, 1);
        assert!(within);
        let counted = counted.unwrap();
        assert_eq!(counted.count, 2, "what went beyond is counted once the minute is over");
        assert_eq!(counted.codes, [Code::ProofInvalid]);
        assert_eq!(charge(221, 1).1, None);
    }
}
