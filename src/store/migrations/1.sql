-- Plain SQL for both dialects: TEXT, BLOB (BYTEA in Postgres), BIGINT. Times are seconds since 1970.

CREATE TABLE meta (
    id BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    store BLOB NOT NULL,
    mode TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    security_epoch BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    log_index BIGINT NOT NULL,
    mac BLOB NOT NULL
);

CREATE TABLE probe (
    id BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    at BIGINT NOT NULL
);
INSERT INTO probe (id, at) VALUES (1, 0);

CREATE TABLE log_head (
    id BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    size BIGINT NOT NULL CHECK (size >= 0)
);
INSERT INTO log_head (id, size) VALUES (1, 0);

CREATE TABLE log_entries (
    idx BIGINT NOT NULL PRIMARY KEY CHECK (idx >= 0),
    version BIGINT NOT NULL,
    time BIGINT NOT NULL,
    kind TEXT NOT NULL,
    digest BLOB NOT NULL,
    guest BLOB,
    salt BLOB NOT NULL,
    guest_salt BLOB,
    body BLOB NOT NULL
);

CREATE TABLE log_nodes (
    level BIGINT NOT NULL,
    idx BIGINT NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (level, idx)
);

CREATE TABLE log_checkpoints (
    size BIGINT NOT NULL PRIMARY KEY CHECK (size >= 0),
    note TEXT NOT NULL
);

CREATE TABLE challenges (
    id BLOB NOT NULL PRIMARY KEY,
    bundle BLOB NOT NULL,
    until BIGINT NOT NULL,
    mac BLOB NOT NULL
);
CREATE INDEX challenges_until ON challenges (until);

CREATE TABLE replies (
    challenge BLOB NOT NULL PRIMARY KEY,
    bundle BLOB NOT NULL,
    bytes BLOB NOT NULL,
    until BIGINT NOT NULL,
    mac BLOB NOT NULL
);
CREATE INDEX replies_until ON replies (until);

CREATE TABLE leases (
    id BLOB NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL,
    instance_key BLOB NOT NULL,
    report_id BLOB,
    pdis BLOB NOT NULL,
    state TEXT NOT NULL,
    until BIGINT NOT NULL,
    policy BLOB NOT NULL,
    supersede BIGINT NOT NULL,
    keyed BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    log_index BIGINT NOT NULL,
    mac BLOB NOT NULL
);
CREATE INDEX leases_instance ON leases (tenant, instance_key);
CREATE INDEX leases_report ON leases (tenant, report_id);
CREATE INDEX leases_until ON leases (state, until);

-- One row for each device of a lease that is not over: this key is what keeps a device to one lease.
CREATE TABLE lease_devices (
    pdi BLOB NOT NULL PRIMARY KEY,
    lease BLOB NOT NULL REFERENCES leases (id)
);
CREATE INDEX lease_devices_lease ON lease_devices (lease);

CREATE TABLE keys (
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    version BIGINT NOT NULL,
    selector TEXT NOT NULL,
    genesis BLOB,
    state TEXT NOT NULL,
    custodian TEXT NOT NULL,
    wrapped BLOB NOT NULL,
    created_at BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    log_index BIGINT NOT NULL,
    mac BLOB NOT NULL,
    PRIMARY KEY (tenant, key, version)
);

CREATE TABLE policies (
    tenant TEXT NOT NULL,
    digest BLOB NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    document BLOB NOT NULL,
    activation BIGINT,
    approvals BLOB NOT NULL,
    created_at BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    log_index BIGINT NOT NULL,
    mac BLOB NOT NULL,
    PRIMARY KEY (tenant, digest)
);

CREATE TABLE approvers (
    tenant TEXT NOT NULL PRIMARY KEY,
    document BLOB NOT NULL,
    created_at BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    log_index BIGINT NOT NULL,
    mac BLOB NOT NULL
);

-- The tenant of the platform's own freezes is the empty text.
CREATE TABLE freezes (
    tenant TEXT NOT NULL,
    scope TEXT NOT NULL,
    subject TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    log_index BIGINT NOT NULL,
    mac BLOB NOT NULL,
    PRIMARY KEY (tenant, scope, subject)
);

-- For each tenant the digest over its approvers, freezes, keys and policies, so that a deleted or older row is noticed.
CREATE TABLE standings (
    tenant TEXT NOT NULL PRIMARY KEY,
    digest BLOB NOT NULL,
    sequence BIGINT NOT NULL,
    log_index BIGINT NOT NULL,
    mac BLOB NOT NULL
);

CREATE TABLE quotas (
    account TEXT NOT NULL,
    starts_at BIGINT NOT NULL,
    spent BIGINT NOT NULL,
    PRIMARY KEY (account, starts_at)
);
