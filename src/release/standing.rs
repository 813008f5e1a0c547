//! Short reads for health and the log's public face.

use super::service::{Ports, ReleaseTx, Service};
use crate::audit::ledger::Ledger as _;
use crate::audit::tree::NodeId;
use crate::lease::ports::{HighWater as _, Marked};
use crate::verify::endorsements::{Source as _, Wanted};
use crate::wire::Digest;
use crate::wire::time::Clock as _;
use crate::wire::txn::{StoreError, Transact as _};

/// Hashes of one full tile.
const TILE_WIDTH: u64 = 256;

/// Finds out whether the store can be written and its clock relied on.
///
/// Errors: those of the store.
pub async fn probe<P: Ports>(service: &Service<P>) -> Result<(), StoreError> {
    let desk = service.desk();
    let read = service.store.transact::<_, StoreError, _>(move |txn| {
        desk.now(txn)?;
        txn.ports().head()?;
        Ok(txn.stage(()))
    });
    read.await
}

/// Raises the marks of all endorsements at hand, whether or not anybody asks for a key meanwhile; returns which items
/// are older than what was seen before, a sentence each.
///
/// Errors: those of the store.
pub async fn mark<P: Ports>(service: &Service<P>) -> Result<Vec<String>, StoreError> {
    let given = service.source.gather(&Wanted::default()).await;
    let all = service.verifier.reached(&given, service.clock.now());
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let marked = service.store.transact::<_, StoreError, _>(move |txn| {
        let mut older = Vec::new();
        for reached in &all {
            if let Marked::RolledBack { item } = txn.ports().raise_mark(reached)? {
                older.push(format!("{item} for FMSPC {}", hex::encode(reached.fmspc())));
            }
        }
        Ok(txn.stage(older))
    });
    marked.await
}

/// Returns size and root of the log.
///
/// Errors: those of the store.
pub async fn head<P: Ports>(service: &Service<P>) -> Result<(u64, Digest<32>), StoreError> {
    let read = service.store.read::<_, StoreError, _>(|tx| {
        let tree = tx.head()?.tree;
        Ok((tree.size(), tree.root()))
    });
    read.await
}

/// Returns the newest checkpoint.
///
/// Errors: those of the store.
pub async fn checkpoint<P: Ports>(service: &Service<P>) -> Result<Option<String>, StoreError> {
    let newest = service.store.read::<_, StoreError, _>(|tx| tx.checkpoint());
    Ok(newest.await?.map(|checkpoint| checkpoint.note))
}

/// Returns `width` hashes of a tile; `None` if the log is not as large.
///
/// Shape: 32 bytes each.
///
/// Errors: those of the store.
///
/// Source: C2SP tlog-tiles.
pub async fn tile<P: Ports>(
    service: &Service<P>,
    level: u8,
    index: u64,
    width: u16,
) -> Result<Option<Vec<u8>>, StoreError> {
    service.store.read::<_, StoreError, _>(move |tx| tile_in(tx, level, index, width)).await
}

fn tile_in<T: ReleaseTx>(
    tx: &mut T,
    level: u8,
    index: u64,
    width: u16,
) -> Result<Option<Vec<u8>>, StoreError> {
    let size = tx.head()?.tree.size();
    let height = u32::from(level) * 8;
    let (Some(first), true) = (index.checked_mul(TILE_WIDTH), height < 64) else { return Ok(None) };
    let Some(end) = first.checked_add(u64::from(width)) else { return Ok(None) };
    if end > size >> height {
        return Ok(None);
    }
    let Ok(node_level) = u8::try_from(height) else { return Ok(None) };
    let ids: Vec<NodeId> = (first..end).map(|index| NodeId { level: node_level, index }).collect();
    let hashes = tx.nodes(&ids)?;
    Ok(Some(hashes.iter().flat_map(|hash| *hash.bytes()).collect()))
}
