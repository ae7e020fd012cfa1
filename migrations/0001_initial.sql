-- The schema of the first release. It runs on PostgreSQL and SQLite as it stands: times are milliseconds since 1970,
-- amounts are minor units of a currency, states are snake_case text, JSON is text, flags are 0 or 1. Ids and times come
-- from the program, never from a function of the database.

-- Deliveries and jobs

-- A delivery or a piece of internal work. Finished jobs keep their body for replay.
create table jobs (
    id uuid primary key,
    queue text not null,
    kind text not null,
    source text not null,
    -- The version of its API that the provider named with the delivery.
    api_version text,
    shop text,
    external_id text,
    object_id text,
    subject text,
    body bytea,
    state text not null,
    attempts bigint not null default 0,
    unfinished_attempts bigint not null default 0,
    run_at bigint not null,
    notified_at bigint,
    deadline_at bigint,
    last_error text,
    trace text,
    -- The `traceparent` that it came with, or that of the job that led to it. Null for a delivery that came without
    -- one: its trace has the id of the job, so that intake writes nothing more.
    traceparent text,
    created_at bigint not null,
    finished_at bigint,
    -- When an operator gave a dead job up for good: its body is gone, its state is done, and it is never run again.
    discarded_at bigint
);

-- The sweep looks for the few that workers were never notified of, and for the oldest that they were.
create index jobs_ready on jobs (queue, kind, run_at) where state = 'ready';
create index jobs_not_notified on jobs (queue, kind, run_at) where state = 'ready' and notified_at is null;
create index jobs_dead on jobs (queue, finished_at) where state = 'dead';
-- Housekeeping cuts the bodies that have been kept long enough.
create index jobs_kept on jobs (finished_at) where state = 'done' and body is not null;
-- For `waybill jobs list --trace` and `waybill events list --trace`, by the id of the trace.
create index jobs_traceparent on jobs (substr(traceparent, 4, 32)) where traceparent is not null;
create index jobs_trace on jobs (trace) where trace is not null;

-- Webhook ids already accepted. An expired id is taken over by the next delivery with it.
create table webhook_ids (
    source text not null,
    id text not null,
    job_id uuid not null,
    remembered_at bigint not null,
    expires_at bigint not null,
    primary key (source, id)
);

create index webhook_ids_expiry on webhook_ids (expires_at);

-- Work that one process does for all: whose turn it is, and until when.
create table leases (
    name text primary key,
    holder uuid not null,
    expires_at bigint not null
);

-- Orders and what is shipped

-- The customers of a shop. Each of their fields is as new as the newest order that has it.
create table customers (
    shop text not null,
    id bigint not null,
    email text,
    -- The address as it is compared; null: it is filled in before anybody is looked for. Empty: it is no address.
    email_key text,
    phone text,
    -- The number as it is compared, likewise.
    phone_key text,
    first_name text,
    last_name text,
    version_at bigint not null,
    -- From which version each of the fields is.
    email_at bigint not null default 0,
    phone_at bigint not null default 0,
    first_name_at bigint not null default 0,
    last_name_at bigint not null default 0,
    updated_at bigint not null,
    -- When the person was erased.
    redacted_at bigint,
    primary key (shop, id)
);

-- By what a person is found.
create index customers_email on customers (shop, email_key) where email_key is not null;
create index customers_phone on customers (shop, phone_key) where phone_key is not null;
-- Rows whose key is still to be filled in.
create index customers_no_email_key on customers (shop, id) where (email is null) <> (email_key is null);
create index customers_no_phone_key on customers (shop, id) where (phone is null) <> (phone_key is null);

-- The orders of a shop: what all deliveries of each come to.
create table orders (
    shop text not null,
    id bigint not null,
    name text,
    -- The agreement by which orders and payments find each other; null: the order's id stands for it.
    pact_id text,
    customer_id bigint,
    email text,
    -- As in customers, and the next one.
    email_key text,
    phone text,
    phone_key text,
    currency text,
    total_minor bigint,
    subtotal_minor bigint,
    tax_minor bigint,
    outstanding_minor bigint,
    financial_status text,
    fulfillment_status text,
    -- What the storefront has refunded: ids, amounts and lines, as JSON.
    refunds text,
    -- Facts that any version had; they are never taken back.
    was_paid bigint not null default 0,
    was_refunded bigint not null default 0,
    was_fulfilled bigint not null default 0,
    -- What the payments of its agreement make of it.
    payment_status text,
    -- They pay for all of it.
    payment_covers bigint not null default 0,
    -- When the first payment of its agreement was canceled.
    payment_canceled_at bigint,
    -- Of an order that a session made: nothing is requested for it until then, as the storefront's own may come.
    waits_until bigint,
    -- The storefront's order that has taken its place.
    successor_shop text,
    successor_id bigint,
    shipping_address text,
    billing_address text,
    ordered_at bigint,
    cancelled_at bigint,
    cancel_reason text,
    -- A version is (version_at, version_tie): the provider's second, and what decides within it.
    version_at bigint not null,
    version_tie bigint not null default 0,
    -- Versions of the parts that the newest body did not have, by name, as JSON; null: it had all.
    part_versions text,
    -- How many versions have been stored here, this one included.
    revision bigint not null default 1,
    -- The time in the id of the order's last event: the next one's is later, whatever the clocks say.
    events_at bigint not null default 0,
    created_at bigint not null,
    updated_at bigint not null,
    -- When its person was erased.
    redacted_at bigint,
    primary key (shop, id)
);

create index orders_id on orders (id);
create index orders_pact on orders (pact_id) where pact_id is not null;
-- By what a person's orders are found.
create index orders_customer on orders (shop, customer_id) where customer_id is not null;
create index orders_email on orders (shop, email_key) where email_key is not null;
create index orders_phone on orders (shop, phone_key) where phone_key is not null;
-- Rows whose key is still to be filled in.
create index orders_no_email_key on orders (shop, id) where (email is null) <> (email_key is null);
create index orders_no_phone_key on orders (shop, id) where (phone is null) <> (phone_key is null);

-- The lines of an order, as its newest version lists them.
create table order_lines (
    shop text not null,
    order_id bigint not null,
    position bigint not null,
    id bigint not null,
    variant_id bigint,
    title text,
    quantity bigint not null,
    price text,
    sku text,
    fulfillment_status text,
    primary key (shop, order_id, position),
    foreign key (shop, order_id) references orders (shop, id)
);

-- Bodies that leave a status to their topic, which nobody signs: under which topic each was accepted first.
create table order_bodies (
    shop text not null,
    order_id bigint not null,
    -- SHA-256 of what may stay of the body after an erasure, hexadecimal.
    hash text not null,
    topic text not null,
    -- Deliveries of the same body under other topics that say more than it does; they change nothing.
    repeats bigint not null,
    -- How often the storefront's API did not confirm what the topic of this body said and the body did not.
    refuted bigint not null default 0,
    created_at bigint not null,
    primary key (shop, order_id, hash)
);

create index order_bodies_listed on order_bodies (created_at) where repeats > 0 or refuted > 0;

-- How far the fulfilment of an order is: initiated, requested, fulfilled or cancelled.
create table fulfillments (
    shop text not null,
    order_id bigint not null,
    state text not null,
    -- What became of the request at the storefront: pending, created, not_needed; null: none was made.
    provider_state text,
    -- The storefront's id of the fulfilment that our request created.
    provider_id text,
    initiated_at bigint not null,
    requested_at bigint,
    -- Units by line id that were ever requested or shipped, as JSON; null: none.
    requested_units text,
    fulfilled_at bigint,
    cancelled_at bigint,
    updated_at bigint not null,
    primary key (shop, order_id),
    foreign key (shop, order_id) references orders (shop, id)
);

-- The fulfilments of an agreement after the first, which is the order itself.
create table fulfillment_cycles (
    shop text not null,
    order_id bigint not null,
    cycle text not null,
    -- requested, cancelled
    state text not null,
    requested_at bigint not null,
    cancelled_at bigint,
    updated_at bigint not null,
    primary key (shop, order_id, cycle),
    foreign key (shop, order_id) references orders (shop, id)
);

-- The storefront's own fulfilments of an order; each is as new as its own version.
create table shipments (
    shop text not null,
    order_id bigint not null,
    id bigint not null,
    version_at bigint not null,
    version_tie bigint not null,
    status text,
    carrier text,
    -- Units by order line, as JSON.
    lines text not null,
    updated_at bigint not null,
    primary key (shop, order_id, id),
    foreign key (shop, order_id) references orders (shop, id)
);

-- A tracking number of a shipment, with the QR code of its public page.
create table parcels (
    shop text not null,
    order_id bigint not null,
    shipment_id bigint not null,
    position bigint not null,
    number text not null,
    -- The carrier's own page.
    url text,
    -- Null when the number does not fit a QR code.
    qr_url text,
    qr_modules bytea,
    created_at bigint not null,
    primary key (shop, order_id, shipment_id, number),
    foreign key (shop, order_id, shipment_id) references shipments (shop, order_id, id)
);

create index parcels_number on parcels (number);

-- The QR code of an order's public page. A picture is drawn of its modules when somebody asks for it.
create table qr_codes (
    shop text not null,
    order_id bigint not null,
    kind text not null,
    url text not null,
    modules bytea not null,
    created_at bigint not null,
    primary key (shop, order_id, kind),
    foreign key (shop, order_id) references orders (shop, id)
);

-- What has gone back into stock, append-only: the sum over an order's line is how many units have.
create table inventory_movements (
    id uuid primary key,
    shop text not null,
    order_id bigint not null,
    line_id bigint not null,
    variant_id bigint,
    sku text,
    quantity bigint not null,
    reason text not null,
    created_at bigint not null
);

create index inventory_movements_order on inventory_movements (shop, order_id);

-- One row for each payment that a cancelled order gives back; payment_id '' when none is linked.
create table refunds (
    shop text not null,
    order_id bigint not null,
    payment_id text not null,
    -- recorded: the storefront's own affair; requested: to be issued; issued; already_refunded; failed
    state text not null,
    amount_minor bigint,
    currency text,
    -- The payment provider's id of the refund.
    provider_id text,
    -- When the provider was asked last, written before it is asked; null: never.
    tried_at bigint,
    -- Which idempotency key the call has: the job's id, and from 2 on with this number behind it.
    key_number bigint,
    created_at bigint not null,
    updated_at bigint not null,
    primary key (shop, order_id, payment_id),
    foreign key (shop, order_id) references orders (shop, id)
);

-- Payments

-- The payments of the payment provider: what all events of each come to. What happened is never taken back.
create table payments (
    -- The provider's id of the payment intent.
    id text primary key,
    pact_id text,
    -- The invoice that it pays, as far as the provider says.
    invoice text,
    -- What the payment provider's metadata says: which fulfilment of the agreement is paid, the merchant's own word for
    -- the sort of payment, and for the payments that belong together.
    fulfillment_cycle text,
    payment_type text,
    transfer_group text,
    -- The provider's customer.
    customer_id text,
    receipt_email text,
    -- As in customers.
    email_key text,
    currency text not null,
    amount_minor bigint not null,
    -- What was captured.
    received_minor bigint not null,
    refunded_minor bigint not null default 0,
    fully_refunded bigint not null default 0,
    state text not null,
    succeeded bigint not null default 0,
    -- What the provider called it; `state` is what follows from the facts.
    status text,
    canceled_at bigint,
    -- The latest attempt that failed: the provider's codes and ids, as JSON.
    failure text,
    -- Which event each of the parts is from, by name, as JSON.
    versions text,
    -- The time in the id of the payment's last event: the next one's is later, whatever the clocks say.
    events_at bigint not null default 0,
    -- How many ledger entries it has.
    entries bigint not null default 0,
    created_at bigint not null,
    updated_at bigint not null
);

create index payments_pact on payments (pact_id) where pact_id is not null;
create index payments_invoice on payments (invoice) where invoice is not null;
-- By what a person's payments are found.
create index payments_email on payments (email_key) where email_key is not null;
-- Rows whose key is still to be filled in.
create index payments_no_email_key on payments (id) where (receipt_email is null) <> (email_key is null);
-- The payment provider's own customers lead to their payments.
create index payments_customer on payments (customer_id) where customer_id is not null;

-- Agreements. A row is locked by whoever decides on an order by its payments or the reverse: the second sees the first.
create table pacts (
    id text primary key,
    revision bigint not null
);

-- The ledger: append-only, double entry. The entries of one payment, reason and currency sum to zero.
create table ledger_entries (
    payment_id text not null,
    number bigint not null,
    -- captured, released, refunded
    entry text not null,
    -- provider, held, released:<agreement>, credited:<customer>, credited
    account text not null,
    -- What the account gains, or loses below zero.
    amount_minor bigint not null,
    currency text not null,
    created_at bigint not null,
    primary key (payment_id, number),
    foreign key (payment_id) references payments (id)
);

create index ledger_entries_account on ledger_entries (account, currency);

-- The checkout sessions of the payment provider: what all events of each come to.
create table checkout_sessions (
    -- The provider's id.
    id text primary key,
    mode text,
    payment_status text,
    total_minor bigint,
    -- What the page made of the price: before it, what it took off, and what tax and shipping it added.
    subtotal_minor bigint,
    discount_minor bigint,
    added_minor bigint,
    currency text,
    payment_intent text,
    subscription text,
    invoice text,
    customer_id text,
    client_reference_id text,
    pact_id text,
    fulfillment_cycle text,
    email text,
    -- As in customers.
    email_key text,
    -- As in payments.
    versions text not null,
    -- The order that it is of; null: it sells nothing.
    shop text,
    order_id bigint,
    events_at bigint not null,
    created_at bigint not null,
    updated_at bigint not null
);

create index checkout_sessions_intent on checkout_sessions (payment_intent) where payment_intent is not null;
create index checkout_sessions_order on checkout_sessions (order_id) where order_id is not null;
create index checkout_sessions_pact on checkout_sessions (pact_id) where pact_id is not null;
create index checkout_sessions_subscription on checkout_sessions (subscription) where subscription is not null;
create index checkout_sessions_invoice on checkout_sessions (invoice) where invoice is not null;
-- By what a person's checkout sessions are found.
create index checkout_sessions_email on checkout_sessions (email_key) where email_key is not null;
-- Rows whose key is still to be filled in.
create index checkout_sessions_no_email_key on checkout_sessions (id) where (email is null) <> (email_key is null);
create index checkout_sessions_customer on checkout_sessions (customer_id) where customer_id is not null;

-- Which payment and which subscription a paid invoice is of.
create table invoices (
    -- The provider's id.
    id text primary key,
    subscription text,
    payment_id text,
    -- The first of its subscription.
    is_first bigint not null,
    created_at bigint not null
);

create index invoices_payment on invoices (payment_id) where payment_id is not null;
create index invoices_subscription on invoices (subscription) where subscription is not null;

-- The subscriptions of the payment provider: what all events of each come to.
create table subscriptions (
    -- The provider's id.
    id text primary key,
    -- Paid until then; never shortened.
    period_end_at bigint,
    customer_id text,
    pact_id text,
    -- As in payments.
    versions text not null,
    events_at bigint not null,
    created_at bigint not null,
    updated_at bigint not null
);

create index subscriptions_customer on subscriptions (customer_id) where customer_id is not null;

-- Attempts of ours to collect a payment that failed.
create table payment_retries (
    payment_id text not null,
    -- From 1.
    number bigint not null,
    job_id uuid not null,
    -- scheduled, succeeded, pending, declined, failed, stopped
    state text not null,
    due_at bigint not null,
    -- As in refunds, and the next one.
    tried_at bigint,
    key_number bigint,
    -- The provider's code, or ours.
    code text,
    updated_at bigint not null,
    primary key (payment_id, number),
    foreign key (payment_id) references payments (id)
);

-- Mails to customers. Whom and what exactly is read when one is sent, and stands nowhere.
create table notifications (
    id uuid primary key,
    kind text not null,
    payment_id text not null,
    -- kept: no mail is set up; pending; sent; no_address; not_needed; refused; failed
    state text not null,
    error text,
    created_at bigint not null,
    updated_at bigint not null,
    foreign key (payment_id) references payments (id)
);

create index notifications_payment on notifications (payment_id);
-- Retention cuts what was sent long ago.
create index notifications_updated on notifications (updated_at);

-- The commerce API

-- The keys of the commerce API. The key itself is not stored, only its hash.
create table api_keys (
    id uuid primary key,
    name text not null,
    hash bytea not null unique,
    -- Names separated by spaces; null: all.
    scopes text,
    -- Shop domains separated by spaces; null: all.
    shops text,
    created_at bigint not null,
    -- To the minute.
    last_used_at bigint,
    expires_at bigint,
    revoked_at bigint
);

-- A call of POST /api/commerce/checkout and its answer, kept for as long as it may be repeated.
create table checkouts (
    -- Also the payment provider's idempotency key.
    id uuid primary key,
    api_key_id uuid not null,
    -- Keyed hash of the Idempotency-Key; null: none was sent.
    idempotency_key uuid,
    -- Keyed hash of what was asked for.
    request_key uuid not null,
    -- The agreement, by which the order and its payments find each other.
    pact_id text not null,
    order_id bigint not null,
    -- What is bought, at the prices of the moment, as JSON.
    items text not null,
    -- pending, open, refused
    state text not null,
    -- Why it is refused: amount, currency, provider.
    refusal text,
    -- The provider's session and its page.
    session_id text,
    url text,
    expires_at bigint,
    created_at bigint not null,
    updated_at bigint not null
);

create unique index checkouts_idempotency on checkouts (api_key_id, idempotency_key)
where idempotency_key is not null;
create index checkouts_created on checkouts (created_at);

-- Events

-- Events for the merchant's own systems. Ids and amounts, no personal data.
create table events (
    id uuid primary key,
    kind text not null,
    shop text,
    object_id text not null,
    body text not null,
    -- The trace of the job that led to it.
    traceparent text,
    created_at bigint not null,
    published_at bigint
);

create index events_unpublished on events (id) where published_at is null;
-- What happened to one order.
create index events_object on events (object_id, id);
create index events_published on events (published_at) where published_at is not null;
create index events_traceparent on events (substr(traceparent, 4, 32))
    where traceparent is not null;

-- Users, organizations, licences, device logins

-- A person: an account of the identity provider, or, while provider_id is null, an invitation by login.
create table users (
    id uuid primary key,
    -- The provider's own number of the account. It stays when the login changes.
    provider_id bigint unique,
    -- An account of a provider that was replaced by another: which, and its number there. Its provider_id is null then.
    former_provider text,
    former_id bigint,
    -- As last seen, or as the operator gave it.
    login text not null,
    -- The login in lower case; null once another account has been seen with it.
    login_key text unique,
    -- An invitation may be claimed until then.
    claimable_until bigint,
    created_at bigint not null,
    seen_at bigint
);

-- One row: the identity provider whose numbers users.provider_id are. The first process that starts with one sets it.
create table identity_provider (
    id bigint primary key,
    -- Its address in lower case, or `stand-in` for any of this machine.
    name text not null,
    recorded_at bigint not null
);

-- Organizations, which share licences among their members.
create table orgs (
    id uuid primary key,
    name text not null,
    -- The name in lower case.
    name_key text not null unique,
    -- Whose organizations count together against a tier's limit.
    owner_id uuid references users (id),
    created_at bigint not null
);

create index orgs_owner on orgs (owner_id) where owner_id is not null;

-- Who belongs to which organization.
create table org_members (
    org_id uuid not null references orgs (id),
    user_id uuid not null references users (id),
    added_at bigint not null,
    primary key (org_id, user_id)
);

create index org_members_user on org_members (user_id);

-- Licences. One is of a person or of an organization, never of both. A revoked one is kept to be shown.
create table licenses (
    id uuid primary key,
    tier text not null,
    user_id uuid references users (id),
    org_id uuid references orgs (id),
    -- active, suspended
    status text not null,
    -- Null: never.
    expires_at bigint,
    -- The payment provider's subscription whose paid invoices extend it.
    subscription_id text,
    granted_at bigint not null,
    updated_at bigint not null,
    revoked_at bigint,
    check ((user_id is null) <> (org_id is null))
);

create index licenses_user on licenses (user_id) where user_id is not null;
create index licenses_org on licenses (org_id) where org_id is not null;
create index licenses_subscription on licenses (subscription_id) where subscription_id is not null;

-- One row, locked by whoever grants a licence or adds a member: seats are counted by one at a time.
create table license_changes (
    id bigint primary key,
    revision bigint not null
);

-- Device logins under way. The code itself is nowhere: it is the key to the token.
create table device_codes (
    -- SHA-256 of the device code.
    hash bytea primary key,
    -- pending; doubted: the provider said once that it does not know it; authorized; denied
    state text not null,
    interval_seconds bigint not null,
    expires_at bigint not null,
    -- An earlier poll is not passed on.
    next_poll_at bigint not null,
    -- What the provider answered, encrypted under a key made of the device code. It is given
    -- out for a minute, until token_until, and cleared within another.
    token bytea,
    token_until bigint,
    created_at bigint not null
);

create index device_codes_expiry on device_codes (expires_at);
create index device_codes_token on device_codes (token_until) where token_until is not null;

-- When a client last asked for device codes.
create table device_code_requests (
    -- SHA-256 of the client's network.
    client bytea primary key,
    -- The times within the limit's period, in order, as JSON.
    times text not null,
    newest_at bigint not null
);

create index device_code_requests_newest on device_code_requests (newest_at);

-- Privacy and the audit

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
    -- Whom else the request may mean, and what operators said of it: ids and counts, as JSON.
    held text,
    decided text,
    received_at bigint not null,
    due_at bigint not null,
    -- The erasure of a shop starts then, unless it is cancelled before.
    held_until bigint,
    -- An operator said that a repeated erasure of a shop is meant; null and held_until null too: it waits for that.
    confirmed_at bigint,
    finished_at bigint,
    -- When it was logged that seven days, two days, and no time were left.
    warned_at bigint,
    alarmed_at bigint,
    overdue_at bigint,
    -- How far it has come and what was counted so far, as JSON.
    progress text,
    export_sha256 text,
    -- The store that the export was written to.
    export_store uuid,
    export_bytes bigint,
    export_expires_at bigint,
    export_removed_at bigint,
    -- Why the export could not be removed.
    export_problem text,
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
create table tombstones (
    shop text not null,
    key uuid not null,
    redacted_at bigint not null,
    primary key (shop, key)
);

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

-- Links to exports that were given out and have not ended long ago.
create table export_links (
    request_id uuid not null,
    -- Seconds since 1970, as the link has it.
    expires bigint not null,
    primary key (request_id, expires)
);

-- The key of hashes and signatures when PRIVACY_KEY is not set, and what either is recognized by.
create table privacy_keys (
    id bigint primary key,
    secret bytea,
    fingerprint bytea not null,
    created_at bigint not null
);

-- The audit. Append-only; each entry's hash, under our key, covers the one before it.
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

-- Up to where the audit went when an entry was last added, under our key: a chain that does not get there was cut.
create table audit_seal (
    id bigint primary key,
    number bigint not null,
    hash bytea not null,
    code bytea not null
);
