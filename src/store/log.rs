//! The log's tables: ports `Ledger` and `StoredLog`.

use super::sql::{Cells, Db, Value, corrupt};
use super::sqlite::LogCopy;
use super::tx::{LogEnd, Tx};
use crate::audit::ledger::{Head, KeptReply, Ledger, Row, StoredCheckpoint, StoredEntry, StoredLog};
use crate::audit::tree::{NodeId, Tree, edge_ids};
use crate::protocol::receipt::Leaf;
use crate::wire::txn::StoreError;
use crate::wire::{Digest, UnixSeconds};

const ENTRIES: &str = "log_entries";

impl Tx {
    /// Returns the end of the log.
    pub(super) fn log_end(&mut self) -> Result<LogEnd, StoreError> {
        if let Some(end) = self.log_end {
            return Ok(end);
        }
        let size = stated_size(&mut self.db)?;
        let time = match size.checked_sub(1) {
            None => None,
            Some(last) => {
                let sql = "SELECT time FROM log_entries WHERE idx = $1";
                let row = self.db.row(sql, vec![Value::number(last)?])?;
                let row = row.ok_or_else(|| corrupt(format!("the log's last entry {last} is missing")))?;
                Some(Cells::of(ENTRIES, row).time()?)
            }
        };
        let end = LogEnd { size, time };
        self.log_end = Some(end);
        Ok(end)
    }

    /// Returns the size of the log, as rows carry it: the entry about a change stands there or later.
    pub(super) fn log_index(&mut self) -> Result<Value, StoreError> {
        Value::number(self.log_end()?.size)
    }
}

impl Ledger for Tx {
    fn now(&mut self, process: UnixSeconds) -> Result<UnixSeconds, StoreError> {
        self.time(process)
    }

    fn head(&mut self) -> Result<Head, StoreError> {
        let LogEnd { size, time } = self.log_end()?;
        let edge = self.nodes(&edge_ids(size))?;
        let tree = Tree::of(size, edge).ok_or_else(|| corrupt("the log's right edge"))?;
        Ok(Head { tree, time })
    }

    fn put(&mut self, index: u64, entry: &StoredEntry) -> Result<(), StoreError> {
        let end = self.log_end()?;
        if index != end.size {
            return Err(corrupt(format!("expected entry {} next; {index} given", end.size)));
        }
        if let Some(last) = end.time.filter(|last| entry.leaf.time < *last) {
            let what = format!("expected an entry from {last} on; it has {}", entry.leaf.time);
            return Err(StoreError::Clock { what });
        }
        let StoredEntry { leaf, salt, guest_salt, body } = entry;
        let values = vec![
            Value::number(index)?,
            leaf.version.into(),
            leaf.time.into(),
            Value::from(leaf.kind.as_str()),
            (&leaf.body).into(),
            leaf.guest.as_ref().into(),
            salt.into(),
            guest_salt.as_ref().into(),
            Value::from(body.as_slice()),
        ];
        self.db.execute(
            "INSERT INTO log_entries (idx, version, time, kind, digest, guest, salt, guest_salt, body) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            values,
        )?;
        let sizes = vec![Value::number(index + 1)?, Value::number(index)?];
        match self.db.execute("UPDATE log_head SET size = $1 WHERE id = 1 AND size = $2", sizes)? {
            1 => {
                self.log_end = Some(LogEnd { size: index + 1, time: Some(leaf.time) });
                Ok(())
            }
            _ => Err(corrupt("the log's head moved under the transaction")),
        }
    }

    fn entry(&mut self, index: u64) -> Result<Option<StoredEntry>, StoreError> {
        let row = self.db.row(
            "SELECT idx, version, time, kind, digest, guest, salt, guest_salt, body FROM log_entries \
             WHERE idx = $1",
            vec![Value::number(index)?],
        )?;
        row.map(|row| entry_of(row).and_then(|row| row.entry.map_err(corrupt))).transpose()
    }

    fn nodes(&mut self, ids: &[NodeId]) -> Result<Vec<Digest<32>>, StoreError> {
        let mut nodes = Vec::with_capacity(ids.len());
        for id in ids {
            if let Some(hash) = self.nodes_known.get(id) {
                nodes.push(*hash);
                continue;
            }
            let NodeId { level, index } = id;
            let key = vec![Value::Int(i64::from(*level)), Value::number(*index)?];
            let row = self.db.row("SELECT hash FROM log_nodes WHERE level = $1 AND idx = $2", key)?;
            let row = row.ok_or_else(|| corrupt(format!("node {index} of level {level} is missing")))?;
            let hash = Cells::of("log_nodes", row).digest()?;
            self.nodes_known.insert(*id, hash);
            nodes.push(hash);
        }
        Ok(nodes)
    }

    fn put_nodes(&mut self, nodes: &[(NodeId, Digest<32>)]) -> Result<(), StoreError> {
        for (NodeId { level, index }, hash) in nodes {
            let values = vec![Value::Int(i64::from(*level)), Value::number(*index)?, hash.into()];
            self.db.execute("INSERT INTO log_nodes (level, idx, hash) VALUES ($1, $2, $3)", values)?;
        }
        self.nodes_known.extend(nodes.iter().copied());
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<Option<StoredCheckpoint>, StoreError> {
        let sql = "SELECT size, note FROM log_checkpoints ORDER BY size DESC LIMIT 1";
        self.db.row(sql, Vec::new())?.map(checkpoint_of).transpose()
    }

    fn put_checkpoint(&mut self, checkpoint: &StoredCheckpoint) -> Result<(), StoreError> {
        let size = self.log_end()?.size;
        if checkpoint.size != size {
            return Err(corrupt(format!("expected a checkpoint of size {size}; it has {}", checkpoint.size)));
        }
        let values = vec![Value::number(size)?, Value::from(checkpoint.note.as_str())];
        self.db.execute("INSERT INTO log_checkpoints (size, note) VALUES ($1, $2)", values)?;
        Ok(())
    }

    fn reply(&mut self, challenge: &Digest<32>) -> Result<Option<KeptReply>, StoreError> {
        let sql = "SELECT challenge, bundle, bytes, until, mac FROM replies WHERE challenge = $1";
        let Some(mut cells) = self.protected("replies", sql, vec![challenge.into()])? else {
            return Ok(None);
        };
        let _: Digest<32> = cells.digest()?;
        let (bundle, bytes, until) = (cells.digest()?, cells.blob()?, cells.time()?);
        Ok(Some(KeptReply { bundle, bytes, until }))
    }

    fn keep_reply(&mut self, challenge: &Digest<32>, reply: &KeptReply) -> Result<(), StoreError> {
        let KeptReply { bundle, bytes, until } = reply;
        let values = vec![challenge.into(), bundle.into(), Value::from(bytes.as_slice()), (*until).into()];
        self.protect(
            "replies",
            "INSERT INTO replies (challenge, bundle, bytes, until, mac) VALUES ($1, $2, $3, $4, $5)",
            values,
        )
    }
}

macro_rules! stored_log {
    ($($reader:ty)*) => { $(impl StoredLog for $reader {
        fn stated_size(&mut self) -> Result<u64, StoreError> {
            stated_size(&mut self.db)
        }

        fn rows(&mut self, from: u64, count: u64) -> Result<Vec<Row>, StoreError> {
            rows(&mut self.db, from, count)
        }

        fn stored_nodes(
            &mut self,
            level: u8,
            from: u64,
            count: u64,
        ) -> Result<Vec<(u64, Digest<32>)>, StoreError> {
            stored_nodes(&mut self.db, level, from, count)
        }

        fn leaf_index(&mut self, leaf: &Digest<32>) -> Result<Option<u64>, StoreError> {
            leaf_index(&mut self.db, leaf)
        }

        fn checkpoints(&mut self, from: u64, count: u64) -> Result<Vec<StoredCheckpoint>, StoreError> {
            checkpoints(&mut self.db, from, count)
        }
    })* };
}

stored_log!(Tx LogCopy);

fn stated_size(db: &mut Db) -> Result<u64, StoreError> {
    let row = db.row("SELECT size FROM log_head WHERE id = 1", Vec::new())?;
    Cells::of("log_head", row.ok_or_else(|| corrupt("the log has no head"))?).number()
}

fn rows(db: &mut Db, from: u64, count: u64) -> Result<Vec<Row>, StoreError> {
    let found = db.rows(
        "SELECT idx, version, time, kind, digest, guest, salt, guest_salt, body FROM log_entries \
         WHERE idx >= $1 ORDER BY idx LIMIT $2",
        vec![Value::number(from)?, Value::number(count)?],
    )?;
    found.into_iter().map(entry_of).collect()
}

fn stored_nodes(db: &mut Db, level: u8, from: u64, count: u64) -> Result<Vec<(u64, Digest<32>)>, StoreError> {
    let past = from.checked_add(count).ok_or_else(|| corrupt("an index beyond 2^63"))?;
    let found = db.rows(
        "SELECT idx, hash FROM log_nodes WHERE level = $1 AND idx >= $2 AND idx < $3 ORDER BY idx",
        vec![Value::Int(i64::from(level)), Value::number(from)?, Value::number(past)?],
    )?;
    let node = |row| {
        let mut cells = Cells::of("log_nodes", row);
        Some((cells.number().ok()?, cells.digest().ok()?))
    };
    Ok(found.into_iter().filter_map(node).collect())
}

fn leaf_index(db: &mut Db, leaf: &Digest<32>) -> Result<Option<u64>, StoreError> {
    let sql = "SELECT idx FROM log_nodes WHERE level = 0 AND hash = $1 ORDER BY idx LIMIT 1";
    db.row(sql, vec![leaf.into()])?.map(|row| Cells::of("log_nodes", row).number()).transpose()
}

fn checkpoints(db: &mut Db, from: u64, count: u64) -> Result<Vec<StoredCheckpoint>, StoreError> {
    let sql = "SELECT size, note FROM log_checkpoints WHERE size >= $1 ORDER BY size LIMIT $2";
    let found = db.rows(sql, vec![Value::number(from)?, Value::number(count)?])?;
    found.into_iter().map(checkpoint_of).collect()
}

fn checkpoint_of(row: Vec<Value>) -> Result<StoredCheckpoint, StoreError> {
    let mut cells = Cells::of("log_checkpoints", row);
    Ok(StoredCheckpoint { size: cells.number()?, note: cells.text()? })
}

/// Reads an entry, whose index at least must be one.
fn entry_of(row: Vec<Value>) -> Result<Row, StoreError> {
    let mut cells = Cells::of(ENTRIES, row);
    let index = cells.number()?;
    Ok(Row { index, entry: content_of(cells).map_err(|error| error.to_string()) })
}

fn content_of(mut cells: Cells) -> Result<StoredEntry, StoreError> {
    let leaf = Leaf {
        version: cells.number_u32()?,
        time: cells.time()?,
        kind: cells.text()?,
        body: cells.digest()?,
        guest: cells.array_if_any()?.map(Digest::new),
    };
    Ok(StoredEntry { leaf, salt: cells.array()?, guest_salt: cells.array_if_any()?, body: cells.blob()? })
}
