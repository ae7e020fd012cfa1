-- What is left of a person after an erasure, and what proves that nothing is.
-- Portable: times are milliseconds since 1970.

-- Whom and what an export holds data of, as keyed hashes: by these an erasure finds it.
create table export_subjects (
    request_id uuid not null,
    key uuid not null,
    primary key (request_id, key)
);

create index export_subjects_key on export_subjects (key);

-- The stores that exports were written to: each has its id in an object of its own, so that an empty or another
-- store under the same address is known as such.
create table export_stores (
    -- The address, without a credential.
    place text primary key,
    id uuid not null,
    created_at bigint not null
);

-- The store of the export, null: written by an older version; why it could not be removed.
alter table privacy_requests add column export_store uuid;
alter table privacy_requests add column export_problem text;
-- An operator said that a repeated erasure of a shop is meant; null and held_until null too: it waits for that.
alter table privacy_requests add column confirmed_at bigint;

-- Links to exports that were given out and have not ended long ago.
create table export_links (
    request_id uuid not null,
    -- Seconds since 1970, as the link has it.
    expires bigint not null,
    primary key (request_id, expires)
);

-- Up to where the audit went when an entry was last added, under our key: a chain that does not get there was cut.
create table audit_seal (
    id bigint primary key,
    number bigint not null,
    hash bytea not null,
    code bytea not null
);
