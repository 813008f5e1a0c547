//! High-water marks of endorsements: port `HighWater`.

use super::sql::Value;
use super::standing::PLATFORM;
use super::tx::Tx;
use crate::lease::ports::{HighWater, Marked};
use crate::verify::tdx::marks::{Height, Heights, Marks, Reached};
use crate::wire::txn::StoreError;

const MARKS: &str = "marks";

impl Tx {
    /// Reads the mark of an FMSPC and how often it was written.
    fn mark(&mut self, fmspc: &[u8; 6]) -> Result<Option<(Heights, u64)>, StoreError> {
        let sql = "SELECT tenant, fmspc, tcb_info_evaluation, tcb_info_issued, qe_identity_evaluation, \
                   qe_identity_issued, pck_crl, root_crl, sequence, log_index, mac FROM marks \
                   WHERE tenant = $1 AND fmspc = $2";
        let key = vec![PLATFORM.into(), fmspc.into()];
        let Some(mut cells) = self.protected(MARKS, sql, key)? else { return Ok(None) };
        cells.text()?;
        let _: [u8; 6] = cells.array()?;
        let heights = Heights {
            tcb_info: Height { evaluation: cells.number_u32()?, issued: cells.time()? },
            qe_identity: Height { evaluation: cells.number_u32()?, issued: cells.time()? },
            pck_crl: cells.time()?,
            root_crl: cells.time()?,
        };
        Ok(Some((heights, cells.number()?)))
    }

    fn write_mark(&mut self, fmspc: &[u8; 6], heights: &Heights, sequence: u64) -> Result<(), StoreError> {
        let Heights { tcb_info, qe_identity, pck_crl, root_crl } = *heights;
        let values = vec![
            PLATFORM.into(),
            fmspc.into(),
            tcb_info.evaluation.into(),
            tcb_info.issued.into(),
            qe_identity.evaluation.into(),
            qe_identity.issued.into(),
            pck_crl.into(),
            root_crl.into(),
            Value::number(sequence)?,
            self.log_index()?,
        ];
        self.protect(
            MARKS,
            "INSERT INTO marks (tenant, fmspc, tcb_info_evaluation, tcb_info_issued, qe_identity_evaluation, \
             qe_identity_issued, pck_crl, root_crl, sequence, log_index, mac) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) \
             ON CONFLICT (tenant, fmspc) DO UPDATE SET tcb_info_evaluation = excluded.tcb_info_evaluation, \
             tcb_info_issued = excluded.tcb_info_issued, \
             qe_identity_evaluation = excluded.qe_identity_evaluation, \
             qe_identity_issued = excluded.qe_identity_issued, pck_crl = excluded.pck_crl, \
             root_crl = excluded.root_crl, sequence = excluded.sequence, log_index = excluded.log_index, \
             mac = excluded.mac",
            values,
        )?;
        self.write_standing(PLATFORM)
    }
}

impl HighWater for Tx {
    fn raise_mark(&mut self, reached: &Reached) -> Result<Marked, StoreError> {
        self.check_standing(PLATFORM)?;
        let fmspc = reached.fmspc();
        let stored = self.mark(fmspc)?;
        if let Some(item) = stored.and_then(|(mark, _)| reached.heights().below(&mark)) {
            return Ok(Marked::RolledBack { item });
        }
        let marks = Marks::recalled(stored.map(|(mark, _)| (*fmspc, mark)));
        if let Some(heights) = marks.raised(reached) {
            self.write_mark(fmspc, &heights, stored.map_or(0, |(_, sequence)| sequence) + 1)?;
        }
        Ok(Marked::AtLeast)
    }
}
