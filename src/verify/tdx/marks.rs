//! High-water marks: how new the collateral was that was already seen, so that an older set is recognised although it
//! is genuine and inside its window.

use std::collections::BTreeMap;

use crate::endorse::Collateral;
use crate::wire::UnixSeconds;

/// How new a text of Intel's is: the recovery first, which an attacker would go back behind, then the day.
///
/// Intel serves two recoveries at a time, and a text of the later one may be issued before one of the earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Height {
    /// tcbEvaluationDataNumber.
    pub evaluation: u32,
    /// issueDate.
    pub issued: UnixSeconds,
}

/// How new the items of a set are. CRL numbers do not count: Intel's lists all have number 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heights {
    pub tcb_info: Height,
    pub qe_identity: Height,
    /// thisUpdate.
    pub pck_crl: UnixSeconds,
    /// thisUpdate.
    pub root_crl: UnixSeconds,
}

impl Heights {
    /// Reads what a set states.
    pub fn of(set: &Collateral) -> Self {
        let (info, identity) = (&set.tcb_info, &set.qe_identity);
        Self {
            tcb_info: Height { evaluation: info.evaluation, issued: info.window.not_before },
            qe_identity: Height { evaluation: identity.evaluation, issued: identity.window.not_before },
            pck_crl: set.pck_crl.window().not_before,
            root_crl: set.root_crl.window().not_before,
        }
    }

    /// Names the first item that is older than its mark.
    pub fn below(&self, mark: &Self) -> Option<&'static str> {
        let items = [
            (self.tcb_info < mark.tcb_info, "TCB info"),
            (self.qe_identity < mark.qe_identity, "QE identity"),
            (self.pck_crl < mark.pck_crl, "PCK revocation list"),
            (self.root_crl < mark.root_crl, "root revocation list"),
        ];
        items.into_iter().find(|(below, _)| *below).map(|(_, item)| item)
    }

    /// Returns the order in which sets of one FMSPC are preferred: the later recovery, by the lower of both numbers as
    /// it is judged, then the newer items.
    pub(super) fn rank(&self) -> (u32, Height, Height, UnixSeconds, UnixSeconds) {
        let evaluation = self.tcb_info.evaluation.min(self.qe_identity.evaluation);
        (evaluation, self.tcb_info, self.qe_identity, self.pck_crl, self.root_crl)
    }
}

/// What a verified set that is in use has reached; made by `collateral::reached` alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    fmspc: [u8; 6],
    heights: Heights,
}

impl Reached {
    /// Takes a set that was verified, is inside its window and is not below its marks.
    pub(super) fn of(set: &Collateral) -> Self {
        Self { fmspc: set.tcb_info.fmspc, heights: Heights::of(set) }
    }

    /// Returns the FMSPC.
    pub fn fmspc(&self) -> &[u8; 6] {
        &self.fmspc
    }

    /// Returns how new its items are.
    pub fn heights(&self) -> &Heights {
        &self.heights
    }
}

/// The marks of every FMSPC that was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks(BTreeMap<[u8; 6], Heights>);

impl Marks {
    /// Takes marks that were kept.
    pub fn recalled(kept: impl IntoIterator<Item = ([u8; 6], Heights)>) -> Self {
        Self(kept.into_iter().collect())
    }

    /// Returns the marks of an FMSPC.
    pub fn of(&self, fmspc: &[u8; 6]) -> Option<&Heights> {
        self.0.get(fmspc)
    }

    /// Raises the marks of an FMSPC to what was reached; `None` where nothing changes. A set below its marks was not
    /// used, so it raises none.
    pub fn raised(&self, reached: &Reached) -> Option<Heights> {
        match self.of(&reached.fmspc) {
            Some(mark) if reached.heights.below(mark).is_some() || reached.heights == *mark => None,
            Some(_) | None => Some(reached.heights),
        }
    }

    /// Sets the marks of an FMSPC to what `raised` gave.
    pub fn raise(&mut self, reached: &Reached) {
        if let Some(heights) = self.raised(reached) {
            self.0.insert(reached.fmspc, heights);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(day: i64) -> UnixSeconds {
        UnixSeconds::new(day * 86_400).unwrap()
    }

    fn heights(evaluations: [u32; 2], days: [i64; 4]) -> Heights {
        let [info, identity, pck, root] = days.map(day);
        Heights {
            tcb_info: Height { evaluation: evaluations[0], issued: info },
            qe_identity: Height { evaluation: evaluations[1], issued: identity },
            pck_crl: pck,
            root_crl: root,
        }
    }

    fn reached(heights: Heights) -> Reached {
        Reached { fmspc: [1; 6], heights }
    }

    #[test]
    fn each_item_has_its_mark_and_the_same_again_is_not_older() {
        let mark = heights([20, 20], [10, 10, 10, 10]);
        assert_eq!(mark.below(&mark), None);
        for (older, item) in [
            (heights([20, 20], [9, 10, 10, 10]), "TCB info"),
            (heights([19, 20], [11, 10, 10, 10]), "TCB info"),
            (heights([20, 20], [10, 9, 10, 10]), "QE identity"),
            (heights([20, 19], [10, 11, 10, 10]), "QE identity"),
            (heights([21, 21], [11, 11, 9, 11]), "PCK revocation list"),
            (heights([21, 21], [11, 11, 11, 9]), "root revocation list"),
        ] {
            assert_eq!(older.below(&mark), Some(item));
        }
        // A text of a later recovery may be issued earlier.
        assert_eq!(heights([21, 21], [9, 9, 10, 10]).below(&mark), None);
    }

    #[test]
    fn marks_only_rise_and_each_fmspc_has_its_own() {
        let mut marks = Marks::default();
        marks.raise(&reached(heights([20, 19], [10, 10, 10, 10])));
        let first = *marks.of(&[1; 6]).unwrap();
        marks.raise(&reached(heights([19, 20], [12, 12, 12, 12])));
        assert_eq!(marks.of(&[1; 6]), Some(&first), "a set that goes back in one item raises none");
        marks.raise(&reached(heights([20, 20], [10, 11, 10, 12])));
        assert_eq!(marks.of(&[1; 6]), Some(&heights([20, 20], [10, 11, 10, 12])));
        assert_eq!(marks.raised(&reached(heights([20, 20], [10, 11, 10, 12]))), None);
        assert_eq!(marks.of(&[2; 6]), None);
        let kept = [([1; 6], first)];
        assert_eq!(Marks::recalled(kept).of(&[1; 6]), Some(&first));
    }
}
