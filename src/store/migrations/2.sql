-- How new the endorsements were that this store saw in use. They are the platform's: its tenant is the empty text.
CREATE TABLE marks (
    tenant TEXT NOT NULL,
    fmspc BLOB NOT NULL,
    tcb_info_evaluation BIGINT NOT NULL,
    tcb_info_issued BIGINT NOT NULL,
    qe_identity_evaluation BIGINT NOT NULL,
    qe_identity_issued BIGINT NOT NULL,
    pck_crl BIGINT NOT NULL,
    root_crl BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    log_index BIGINT NOT NULL,
    mac BLOB NOT NULL,
    PRIMARY KEY (tenant, fmspc)
);
