-- Privacy requests and their deadlines, tombstones, the audit, and the key of hashes and signatures.
-- Portable: times are milliseconds since 1970, states are snake_case text, JSON is text.

-- A request that the storefront passed on. It holds ids, keyed hashes and counts, and is kept as evidence.
create table privacy_requests (
    -- The job's id.
    id uuid primary key,
    -- customers/data_request, customers/redact, shop/redact
    topic text not null,
    shop text not null,
    -- The provider's number of the customer; null: it names none, or it is about a whole shop.
    customer_id bigint,
    -- Keyed hashes of what it names the customer by.
    email_key uuid,
    phone_key uuid,
    -- Keyed hash of the body.
    body_key uuid not null,
    -- The earlier request with the same body.
    repeats uuid,
    -- received, held, done, cancelled, failed
    state text not null,
    received_at bigint not null,
    due_at bigint not null,
    -- The erasure of a shop starts then, unless it is cancelled before.
    held_until bigint,
    finished_at bigint,
    -- When it was told that seven days, two days, and no time were left.
    warned_at bigint,
    alarmed_at bigint,
    overdue_at bigint,
    -- How far it has come and what was counted so far, as JSON.
    progress text,
    export_sha256 text,
    export_bytes bigint,
    export_expires_at bigint,
    export_removed_at bigint,
    -- What was done, signed, as JSON.
    receipt text
);

create index privacy_requests_due on privacy_requests (due_at) where finished_at is null;
create index privacy_requests_shop on privacy_requests (shop, customer_id);
create index privacy_requests_body on privacy_requests (body_key);
create index privacy_requests_export on privacy_requests (export_expires_at)
where export_expires_at is not null and export_removed_at is null;

-- Tombstones: whoever or whatever has such a key (a keyed hash of a customer's id, address, .. in a shop) is
-- stored without personal data. Shop '' is for payments, which are of no shop.
create table subjects (
    shop text not null,
    key uuid not null,
    redacted_at bigint not null,
    primary key (shop, key)
);

-- Append-only. Each entry's hash, under our key, covers the one before it.
create table audit (
    number bigint primary key,
    at bigint not null,
    -- storefront, worker, operator, key:<name of an API key>
    actor text not null,
    action text not null,
    -- The request, job, .. it was done to.
    object_id text not null,
    shop text,
    -- Counts and ids, as JSON; no personal data.
    details text not null,
    hash bytea not null
);

create index audit_object on audit (object_id, number);

-- One row, locked by whoever adds an entry: the last one's number and hash.
create table audit_head (
    id bigint primary key,
    number bigint not null,
    hash bytea not null
);

-- The key of hashes and signatures when PRIVACY_KEY is not set, and what either is recognized by.
create table privacy_keys (
    id bigint primary key,
    secret bytea,
    fingerprint bytea not null,
    created_at bigint not null
);

alter table customers add column redacted_at bigint;
alter table orders add column redacted_at bigint;

-- By what a person's orders and payments are found: addresses in lower case, digits of telephone numbers.
create index orders_customer on orders (shop, customer_id) where customer_id is not null;
create index orders_email on orders (shop, (lower(email))) where email is not null;
create index orders_phone on orders
(shop, (replace(replace(replace(replace(replace(replace(phone, '+', ''), ' ', ''), '-', ''), '(', ''), ')', ''), '.', '')))
where phone is not null;
create index customers_email on customers (shop, (lower(email))) where email is not null;
create index customers_phone on customers
(shop, (replace(replace(replace(replace(replace(replace(phone, '+', ''), ' ', ''), '-', ''), '(', ''), ')', ''), '.', '')))
where phone is not null;
create index payments_receipt_email on payments ((lower(receipt_email))) where receipt_email is not null;
create index checkout_sessions_email on checkout_sessions ((lower(email))) where email is not null;
-- Retention cuts what was sent long ago.
create index notifications_updated on notifications (updated_at);
create index events_published on events (published_at) where published_at is not null;
