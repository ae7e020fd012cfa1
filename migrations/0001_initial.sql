-- The schema of the first release. It runs on PostgreSQL and SQLite as it stands: times are milliseconds since 1970,
-- amounts are minor units of a currency, states are snake_case text, JSON is text, flags are 0 or 1. Ids and times come
-- from the program, never from a function of the database.
--
-- Behind each text and each bytea stands what it may hold: something that is about nobody (thing; json, if it is JSON; own, if
-- it only serves Waybill's own work), a hash, a ciphertext or a key (sealed), who has an account of the identity provider, or a
-- name that an operator gave (account), what may identify a person of a shop (person), or a record, whose members say it of
-- themselves. A number or an id that says nothing is a thing. Exports, erasures and the planner's statistics follow from this.

-- Deliveries and jobs

-- What came from a provider, and the work that Waybill gives itself (source internal). There is a job for each, with the
-- same id. A row is written once. Only its body is ever changed: replaced when a person in it is erased, and deleted when
-- it was kept long enough after its job was done. Until then the job can be requeued.
create table deliveries (
    id uuid primary key,
    -- storefront, payment, internal
    source text not null, -- thing
    kind text not null, -- thing
    shop text, -- thing
    external_id text, -- thing
    object_id text, -- thing
    subject text, -- thing
    -- The version of the provider's API that the delivery names.
    api_version text, -- thing
    -- The connection by which it came, or that the work is for. Null for the one that the settings make.
    connection text, -- thing
    trace text, -- thing
    -- The `traceparent` of the request that brought the job, or of the job that led to it. Null
    -- for a delivery that came without one: its trace has the id of the job, so intake has to
    -- write nothing more.
    traceparent bytea, -- thing
    body bytea, -- person
    created_at bigint not null
);

-- Exports and erasures look through the bodies of a shop's deliveries, and of those without a shop, which are all of
-- the payment provider's.
create index deliveries_bodies on deliveries (coalesce(shop, ''), id) where body is not null and source <> 'internal';
-- Housekeeping deletes bodies that have been kept long enough.
create index deliveries_kept on deliveries (id) where body is not null;
-- For `waybill jobs list --trace` and `waybill events list --trace`, which search by the id of
-- the trace.
create index deliveries_traceparent on deliveries (substr(traceparent, 1, 16)) where traceparent is not null;
create index deliveries_trace on deliveries (trace) where trace is not null;
create index deliveries_connection on deliveries (connection, id) where connection is not null;
-- For the jobs of one order, payment, ..
create index deliveries_object on deliveries (object_id, id) where object_id is not null;

-- How far the work of each delivery is. A row is small, because each of its changes writes it anew.
create table jobs (
    id uuid primary key,
    queue text not null, -- thing
    kind text not null, -- thing
    shop text, -- thing
    state text not null, -- thing
    attempts bigint not null default 0,
    unfinished_attempts bigint not null default 0,
    -- How often a worker claimed the job for a call to a provider: the fencing token of the last claim. Null
    -- for a job that never was.
    claims bigint,
    run_at bigint not null,
    notified_at bigint,
    deadline_at bigint,
    last_error text, -- thing
    created_at bigint not null,
    finished_at bigint,
    -- When an operator discarded a dead job. Then its body is deleted, its state is done, and it
    -- is never run again.
    discarded_at bigint
);

-- The sweep looks for the ready jobs of which workers are to be notified, by their kinds, by turns of
-- their shops and by their age, and for those of which they were notified long ago. A ready job is in the
-- first two indexes or in the third. The last condition of the first two is always true. PostgreSQL takes
-- either for a statement that has it, and no other. Otherwise, when its statistics are older than a
-- backlog, it would take the wrong one, and read and sort all that waits.
create index jobs_waiting on jobs (queue, kind, run_at)
where state = 'ready' and notified_at is null and run_at >= 0;
create index jobs_waiting_of_shop on jobs (queue, kind, coalesce(shop, ''), run_at, id)
where state = 'ready' and notified_at is null and attempts >= 0;
create index jobs_notified on jobs (queue, notified_at) where state = 'ready' and notified_at is not null;
create index jobs_dead on jobs (queue, finished_at) where state = 'dead';
-- Deliveries of which nothing was made: a job that is done and was not discarded has no error otherwise.
create index jobs_noted on jobs (finished_at) where state = 'done' and last_error is not null and discarded_at is null;

-- The runs of a job that did not end well: those that failed, and calls that the provider told to
-- come later. A job that succeeds at once has none.
create table job_attempts (
    job_id uuid not null,
    -- Counted from 1, also over the times that an operator requeued the job.
    number bigint not null,
    started_at bigint not null,
    duration_ms bigint not null,
    -- retried, dead, deferred, failed
    outcome text not null, -- thing
    -- The error, without personal data, as in jobs.last_error.
    error text not null, -- thing
    -- The HTTP status of the provider's answer. Null when there was no answer, or no call.
    status bigint,
    primary key (job_id, number)
);

-- Housekeeping deletes the old attempts of jobs that are done.
create index job_attempts_started on job_attempts (started_at);

-- How many deliveries were refused, by hour and reason. Their signatures were not verified, so the primary key has only words
-- of Waybill's own, and a stranger who posts very many only adds to a count. The other columns show the headers of one of the
-- latest of them.
create table refused_deliveries (
    hour_at bigint not null,
    source text not null, -- thing
    -- At whose address it came, or whose shop it named; empty for the one that the settings make.
    connection text not null, -- thing
    -- The profile of the connection.
    profile text not null, -- thing
    reason text not null, -- thing
    -- What is wrong with the signature; empty if the delivery was refused for another reason.
    signature text not null, -- thing
    -- The header in which another profile has its signature; empty if no such header came.
    header text not null, -- thing
    -- The setting with which such deliveries would be accepted; empty if there is none.
    advice text not null, -- thing
    -- The status of the answer.
    status bigint not null,
    deliveries bigint not null,
    first_at bigint not null,
    last_at bigint not null,
    headers text not null, -- thing
    topic text, -- thing
    shop text, -- thing
    age_seconds bigint,
    -- The keyed hash of the body, by which two deliveries of one body are recognized.
    body_key uuid, -- sealed
    primary key (hour_at, source, connection, profile, reason, signature, header, advice)
);

-- How far each connection was compared with its provider, by shop.
create table reconciliations (
    -- storefront, payment
    source text not null, -- thing
    connection text not null, -- thing
    -- Empty for a payment provider.
    shop text not null, -- thing
    -- When it was compared for the first time. What is older was not expected to come.
    connected_at bigint not null,
    -- What changed before this time is not compared: its first run began then, or an operator asked from then on.
    since bigint not null,
    -- What changed at the provider before this time was compared.
    confirmed_until bigint not null,
    -- The end of what the run under way compares, and the page that it asks for next. Null between runs, and for the
    -- first page.
    run_until bigint,
    page text, -- thing
    -- When it is next asked.
    next_at bigint not null,
    begun_at bigint,
    ended_at bigint,
    -- Since when the provider cannot be asked, and why not.
    failing_since bigint,
    last_error text, -- thing
    -- How much the run under way, or else the last one, has compared, and how much of it never came.
    compared bigint not null default 0,
    found bigint not null default 0,
    -- When the provider's subscriptions were looked at last, when any of them was ours, and what is wrong with them.
    subscriptions_checked_at bigint,
    subscriptions_seen_at bigint,
    subscriptions_error text, -- thing
    -- Counts the changes, so that of two processes that ask for the same page one stores it.
    revision bigint not null default 0,
    primary key (source, connection, shop)
);

create index reconciliations_next on reconciliations (source, next_at);

-- The jobs of deliveries that never came, and that reconciliation found at the provider.
create table reconciled_deliveries (
    job_id uuid primary key,
    source text not null, -- thing
    connection text not null, -- thing
    shop text not null, -- thing
    kind text not null, -- thing
    -- When it changed at the provider.
    changed_at bigint not null,
    found_at bigint not null,
    -- The likely cause: refused, outage, not_sent
    cause text not null -- thing
);

create index reconciled_deliveries_found on reconciled_deliveries (found_at);
create index reconciled_deliveries_shop on reconciled_deliveries (shop);

-- Which members of bodies decide an outcome, as the deliveries of a shop or an account have them, by topic or type; and what
-- has changed.
create table shapes (
    source text not null, -- thing
    -- The shop, or the account of the payment provider; empty when a delivery names none.
    shop text not null, -- thing
    kind text not null, -- thing
    -- Its path, such as line_items[].quantity. No value is kept.
    member text not null, -- thing
    -- always, sometimes; or what has changed: missing, unread, unknown
    state text not null, -- thing
    -- The version of the provider's API that the latest changed delivery names.
    api_version text, -- thing
    -- How many deliveries had the change; 0 for always and sometimes.
    deliveries bigint not null,
    first_at bigint not null,
    last_at bigint not null,
    primary key (source, shop, kind, member, state)
);

create index shapes_changed on shapes (last_at) where deliveries > 0;

-- What each process counted, for the charts of the console: of a minute, or of ten minutes once that is two hours ago.
create table measures (
    -- 60 or 600.
    seconds bigint not null,
    begun_at bigint not null,
    -- A word of ours. What begins with queue_ is the same for all processes, and all else is added up over them.
    name text not null, -- thing
    -- The run of a process; none of ten minutes.
    process_id uuid not null,
    value bigint not null,
    primary key (seconds, begun_at, name, process_id)
);

-- The connections with providers, beside the one of a storefront and the one of a payment provider that the settings make.
create table connections (
    -- It stands in addresses and in ids of the payment provider, and is never changed.
    name text primary key, -- thing
    -- storefront, payment
    source text not null, -- thing
    -- The profile.
    provider text not null, -- thing
    -- The names of the headers, of the profile headers alone.
    headers text, -- thing
    -- Whose events it brings, of a payment provider that names the account.
    account text, -- thing
    -- Of a storefront: the connection whose payments pay for its orders. Null: the one that the settings make.
    payments text, -- thing
    -- How many deliveries a second are taken; 0: no limit. Null: as many as the profile says.
    rate bigint,
    -- Who writes to the buyers of its shops. Null: the sender that the settings name.
    sender text, -- thing
    -- How its shops present themselves to their buyers, as JSON.
    branding text not null, -- thing
    api_url text, -- thing
    -- The signing secrets, newest first, and the token of the API, as JSON, encrypted with SECRETS_KEY. Null once it is removed.
    secrets bytea, -- sealed
    -- By which operators distinguish the secrets and the key that they are encrypted with.
    fingerprints text not null, -- sealed
    key_fingerprint text not null, -- sealed
    -- Until when the second secret is accepted. Null when there is none.
    former_until bigint,
    -- Counts the changes. The sum of all rows changes with each of them, by which processes notice it.
    revision bigint not null,
    created_at bigint not null,
    changed_at bigint not null,
    removed_at bigint
);

-- The shops of each connection with a storefront. A shop is in two only while it moves from one to the other.
create table connection_shops (
    shop text not null, -- thing
    connection text not null, -- thing
    added_at bigint not null,
    primary key (shop, connection)
);

create index connection_shops_connection on connection_shops (connection);

-- With which signing secret of a provider a delivery was verified last, so that operators see when a former secret can
-- be removed.
create table signing_secrets (
    -- storefront, payment
    source text not null, -- thing
    -- The beginning of a keyed hash, by which operators distinguish secrets. The secret is not stored.
    fingerprint text not null, -- sealed
    verified_at bigint not null,
    primary key (source, fingerprint)
);

-- What an operator has all dead jobs of a filter go through. It goes on without whoever confirmed it.
create table bulk_operations (
    id uuid primary key,
    -- requeue, discard
    action text not null, -- thing
    -- Which jobs. An empty text means any.
    queue text not null, -- thing
    kind text not null, -- thing
    shop text not null, -- thing
    connection text not null, -- thing
    -- A part of the last error.
    error text not null, -- thing
    -- Only jobs that died at this time or before.
    died_until bigint not null,
    -- At most so many jobs a second.
    rate bigint not null,
    -- Who confirmed it, as the audit has it.
    actor text not null, -- thing
    -- waiting, running, stopped, undone, done
    state text not null, -- thing
    -- How many jobs there were when it was confirmed. Null until they are counted.
    found bigint,
    done bigint not null,
    passed_over bigint not null,
    refused bigint not null,
    -- The last job that it has seen. Null: nothing was done yet.
    cursor_queue text, -- thing
    cursor_died_at bigint,
    cursor_job uuid,
    created_at bigint not null,
    -- Until then it can be undone.
    begins_at bigint not null,
    finished_at bigint,
    -- Why the last batch was not done.
    last_error text -- thing
);

create index bulk_operations_open on bulk_operations (begins_at) where state in ('waiting', 'running');
create index bulk_operations_created on bulk_operations (created_at);

-- What operators have paused: a queue, the calls to a provider, a shop, a connection, or the notification of a condition that
-- needs a person. One of the five is set.
create table pauses (
    id uuid primary key,
    queue text, -- thing
    provider text, -- thing
    shop text, -- thing
    connection text, -- thing
    condition text, -- thing
    -- The jobs that it concerns are deferred to this time.
    until_at bigint not null,
    -- Who began it, as the audit has it.
    actor text not null, -- thing
    begun_at bigint not null,
    -- When an operator ended it earlier. Workers make its jobs due then.
    ended_at bigint
);

-- The conditions that need a person: those that hold now, and those of which a mail is still to say that they are over.
create table attention (
    condition text not null, -- thing
    -- Which queue, source, endpoint, .. it is about; empty when it is about no one thing.
    about text not null, -- thing
    -- seen, begun, over
    state text not null, -- thing
    since_at bigint not null,
    seen_at bigint not null,
    -- Whether a mail has said that it has begun.
    notified bigint not null,
    -- Who knows of it, as the audit has it.
    acknowledged_by text, -- thing
    primary key (condition, about)
);

-- The ids of accepted deliveries, each as the first 16 bytes of the SHA-256 hash of its source, a colon, and the id.
-- An expired id is taken over by the next delivery that has it.
create table webhook_ids (
    id uuid primary key,
    job_id uuid not null,
    -- A part of the hash of the first body, by which another body with the same id is known. Null where the provider
    -- signs the id.
    body_hash bigint,
    expires_at bigint not null
);

create index webhook_ids_expiry on webhook_ids (expires_at);

-- Work that one process does for all: which process does it, and until when.
create table leases (
    name text primary key, -- thing
    holder uuid not null,
    expires_at bigint not null
);

-- When `waybill backup` last made one.
create table backups (
    -- database
    name text primary key, -- thing
    made_at bigint not null
);

-- Orders and what is shipped

-- The customers of a shop.
create table customers (
    shop text not null, -- thing
    id bigint not null,
    -- The address in the form in which addresses are compared. The two databases do not agree on lower case, so it is made in
    -- Rust. Empty when what orders say is no address.
    email_key text, -- person
    -- The number in the form in which numbers are compared; empty when what orders say is no number.
    phone_key text, -- person
    -- When the person was erased.
    redacted_at bigint,
    -- What all orders say of the customer, as JSON. The two keys are made from it.
    record text not null, -- record
    created_at bigint not null,
    updated_at bigint not null,
    primary key (shop, id)
);

-- A person is found by these.
create index customers_email on customers (shop, email_key) where email_key is not null;
create index customers_phone on customers (shop, phone_key) where phone_key is not null;

-- The orders of a shop. Each row is what all deliveries of the order come to.
create table orders (
    shop text not null, -- thing
    id bigint not null,
    name text, -- thing
    -- The agreement by which the order and its payments find each other. Null when the order's id
    -- stands for it.
    pact_id text, -- thing
    customer_id bigint,
    -- As in customers, and so is phone_key.
    email_key text, -- person
    phone_key text, -- person
    -- Its place in lists: when it was ordered, or, while nobody has said that, when it became known.
    listed_at bigint not null,
    -- How far the fulfilment is: initiated, requested, fulfilled or cancelled.
    state text not null, -- thing
    -- As the storefront or the payments say, whichever is further on, and what the payments of the order's
    -- agreement come to.
    financial_status text, -- thing
    payment_status text, -- thing
    fulfillment_status text, -- thing
    -- Whether the storefront and the payments say that all of it is paid for.
    is_paid bigint not null,
    -- When the storefront cancelled it.
    cancelled_at bigint,
    currency text, -- thing
    total_minor bigint,
    -- Why an operator has to decide about it, and about how much.
    held text, -- thing
    held_minor bigint,
    -- When the newest body came that left a status to its topic, which did not count: the body had come under
    -- another topic before, or the storefront did not confirm it.
    disputed_at bigint,
    -- When the order's person was erased.
    redacted_at bigint,
    -- Everything that is known of the order, as JSON. The columns above are made from it.
    record text not null, -- record
    created_at bigint not null,
    updated_at bigint not null,
    -- The id comes first, so that an order whose shop nobody has named is found by this too.
    primary key (id, shop)
);

-- No index has updated_at or another column that changes with nearly every delivery, so PostgreSQL writes none
-- of them when it does.

-- For the list of orders, of all shops and of one.
create index orders_listed on orders (listed_at, shop, id);
create index orders_of_shop on orders (shop, listed_at, id);
create index orders_name on orders (name, shop, id) where name is not null;
-- The index has all columns that identify an order, so the other orders of an agreement are found without reading rows.
create index orders_agreement on orders (pact_id, shop, id) where pact_id is not null;
-- Orders whose agreement is named, while no payment of it is linked to them.
create index orders_unlinked on orders (pact_id, shop, id)
    where pact_id is not null and payment_status is null and cancelled_at is null;
-- Orders that an operator has to decide about.
create index orders_held on orders (held, listed_at, id) where held is not null;
-- A person's orders are found by these.
create index orders_customer on orders (shop, customer_id, id) where customer_id is not null;
create index orders_email on orders (shop, email_key) where email_key is not null;
create index orders_phone on orders (shop, phone_key) where phone_key is not null;
create index orders_disputed on orders (disputed_at) where disputed_at is not null;

-- Which orders have a parcel with a tracking number, for the public page of the number.
create table tracking_numbers (
    number text not null, -- thing
    shop text not null, -- thing
    order_id bigint not null,
    primary key (number, shop, order_id)
);

create index tracking_numbers_order on tracking_numbers (shop, order_id);

-- Units that went back into stock, append-only. The sum over an order's line is how many units
-- have gone back.
create table inventory_movements (
    id uuid primary key,
    shop text not null, -- thing
    order_id bigint not null,
    line_id bigint not null,
    variant_id bigint,
    sku text, -- thing
    quantity bigint not null,
    reason text not null, -- thing
    created_at bigint not null
);

create index inventory_movements_order on inventory_movements (shop, order_id);

-- One row for each payment that is refunded for a cancelled order. payment_id is '' when no
-- payment is linked.
create table refunds (
    shop text not null, -- thing
    order_id bigint not null,
    payment_id text not null, -- thing
    -- recorded: the storefront or an operator refunds it; requested: a job will issue it; issued;
    -- already_refunded; failed
    state text not null, -- thing
    amount_minor bigint,
    currency text, -- thing
    -- The payment provider's id of the refund.
    provider_id text, -- thing
    -- When the provider was last asked. It is written before the provider is asked. Null when it
    -- never was.
    tried_at bigint, -- own
    -- The number of the call's idempotency key. The key is the job's id, followed by this number
    -- from 2 on.
    key_number bigint, -- own
    created_at bigint not null,
    updated_at bigint not null,
    primary key (shop, order_id, payment_id),
    foreign key (order_id, shop) references orders (id, shop)
);

-- Refunds that an operator has to decide about.
create index refunds_owed on refunds (state, updated_at, order_id) where state in ('recorded', 'failed');

-- Payments

-- The payments of the payment provider. Each row is what all events of the payment come to. What
-- happened is never taken back.
create table payments (
    -- The provider's id: that of the payment intent, or of a charge that was made without one.
    id text primary key, -- thing
    pact_id text, -- thing
    -- The invoice that the payment pays, if the provider names it.
    invoice text, -- thing
    -- From the payment provider's metadata: the name of the agreement's cycle that is paid, the
    -- merchant's own word for the sort of payment, and the merchant's name for payments that
    -- belong together.
    fulfillment_cycle text, -- thing
    payment_type text, -- thing
    transfer_group text, -- thing
    -- The provider's id of the customer.
    customer_id text, -- thing
    -- As in customers.
    email_key text, -- person
    currency text not null, -- thing
    amount_minor bigint not null,
    -- The amount that was captured, and the part of it that is a tip.
    received_minor bigint not null,
    tip_minor bigint not null,
    refunded_minor bigint not null,
    -- What the customer's bank has taken back for good.
    lost_minor bigint not null,
    state text not null, -- thing
    canceled_at bigint,
    -- Everything that is known of the payment, as JSON. The columns above are made from it.
    record text not null, -- record
    -- How many ledger entries the payment has.
    entries bigint not null,
    created_at bigint not null,
    updated_at bigint not null
);

-- For the list of payments.
create index payments_updated on payments (updated_at, id);
create index payments_agreement on payments (pact_id) where pact_id is not null;
create index payments_invoice on payments (invoice) where invoice is not null;
-- A person's payments are found by this.
create index payments_email on payments (email_key) where email_key is not null;
-- A customer of the payment provider leads to the customer's payments.
create index payments_customer on payments (customer_id) where customer_id is not null;

-- Agreements. A transaction locks the row when it decides about an order by its payments, or the
-- reverse, so that the second of two such transactions sees what the first wrote.
create table agreements (
    id text primary key, -- sealed
    revision bigint not null
);

-- The ledger: double entry, append-only. The rows of one payment, entry and currency sum to zero.
create table ledger_entries (
    payment_id text not null, -- thing
    number bigint not null,
    -- captured, released, refunded
    entry text not null, -- thing
    -- provider, held, released:<agreement>, credited:<customer>, credited
    account text not null, -- thing
    -- The amount that the account gains, or loses when it is below zero.
    amount_minor bigint not null,
    currency text not null, -- thing
    created_at bigint not null,
    primary key (payment_id, number),
    foreign key (payment_id) references payments (id)
);

create index ledger_entries_account on ledger_entries (account, currency);

-- The checkout sessions of the payment provider. Each row is what all events of the session come
-- to.
create table checkout_sessions (
    -- The provider's id of the session.
    id text primary key, -- thing
    mode text, -- thing
    payment_intent text, -- thing
    subscription text, -- thing
    invoice text, -- thing
    customer_id text, -- thing
    pact_id text, -- thing
    -- As in customers.
    email_key text, -- person
    -- The order that the session belongs to. Null when the session sells nothing.
    shop text, -- thing
    order_id bigint,
    -- Everything that is known of the session, as JSON. The columns above the order are made from it.
    record text not null, -- record
    created_at bigint not null,
    updated_at bigint not null
);

create index checkout_sessions_intent on checkout_sessions (payment_intent) where payment_intent is not null;
create index checkout_sessions_order on checkout_sessions (order_id) where order_id is not null;
create index checkout_sessions_agreement on checkout_sessions (pact_id) where pact_id is not null;
create index checkout_sessions_subscription on checkout_sessions (subscription) where subscription is not null;
create index checkout_sessions_invoice on checkout_sessions (invoice) where invoice is not null;
-- A person's checkout sessions are found by this.
create index checkout_sessions_email on checkout_sessions (email_key) where email_key is not null;
create index checkout_sessions_customer on checkout_sessions (customer_id) where customer_id is not null;

-- Which payment and which subscription a paid invoice belongs to.
create table invoices (
    -- The provider's id of the invoice.
    id text primary key, -- thing
    subscription text, -- thing
    payment_id text, -- thing
    -- 1 for the first invoice of its subscription.
    is_first bigint not null,
    created_at bigint not null
);

create index invoices_payment on invoices (payment_id) where payment_id is not null;
create index invoices_subscription on invoices (subscription) where subscription is not null;

-- The subscriptions of the payment provider. Each row is what all events of the subscription come
-- to.
create table subscriptions (
    -- The provider's id of the subscription.
    id text primary key, -- thing
    -- Until when the subscription is paid. It is never shortened.
    period_end_at bigint,
    customer_id text, -- thing
    pact_id text, -- thing
    -- Everything that is known of the subscription, as JSON. The columns above are made from it.
    record text not null, -- record
    created_at bigint not null,
    updated_at bigint not null
);

-- For the list of subscriptions.
create index subscriptions_updated on subscriptions (updated_at);
create index subscriptions_customer on subscriptions (customer_id) where customer_id is not null;
create index subscriptions_agreement on subscriptions (pact_id) where pact_id is not null;

-- Our own attempts to collect a payment that failed.
create table payment_retries (
    payment_id text not null, -- thing
    -- Counted from 1.
    number bigint not null,
    job_id uuid not null,
    -- scheduled, succeeded, pending, declined, failed, stopped
    state text not null, -- thing
    due_at bigint not null,
    -- As in refunds, and so is key_number.
    tried_at bigint, -- own
    key_number bigint, -- own
    -- The provider's code, or our own.
    code text, -- thing
    updated_at bigint not null,
    primary key (payment_id, number),
    foreign key (payment_id) references payments (id)
);

-- Mails to customers. The address and the text are not stored; they are made when a mail is sent.
create table notifications (
    id uuid primary key,
    kind text not null, -- thing
    payment_id text not null, -- thing
    -- kept: no mail is configured; pending; sent; no_address; not_needed; too_late; refused;
    -- failed
    state text not null, -- thing
    error text, -- thing
    created_at bigint not null,
    updated_at bigint not null,
    foreign key (payment_id) references payments (id)
);

create index notifications_payment on notifications (payment_id);
-- Housekeeping deletes what was sent long ago.
create index notifications_updated on notifications (updated_at);

-- The commerce API

-- The keys of the commerce API. Only the hash of a key is stored, not the key itself.
create table api_keys (
    id uuid primary key,
    name text not null, -- account
    hash bytea not null unique, -- sealed
    -- The names of the scopes, separated by spaces. Null means all scopes.
    scopes text, -- thing
    -- The domains of the shops, separated by spaces. Null means all shops.
    shops text, -- thing
    -- The number of the identity provider's account whose holder may sign in to the console with the rights of this key.
    account bigint, -- account
    created_at bigint not null,
    -- Precise to the minute.
    last_used_at bigint,
    expires_at bigint,
    revoked_at bigint
);

-- Who is signed in to the console, with a key. A session ends with its key.
create table console_sessions (
    -- Keyed hash of the cookie. The cookie itself is not stored.
    hash bytea primary key, -- sealed
    api_key_id uuid not null references api_keys (id) on delete cascade,
    created_at bigint not null,
    -- It moves with each use, up to a longest time.
    expires_at bigint not null
);

create index console_sessions_expiry on console_sessions (expires_at);
create index console_sessions_key on console_sessions (api_key_id);

-- A call of POST /api/commerce/checkout and its answer. It is kept for as long as the call may be
-- repeated.
create table checkouts (
    -- This is also the payment provider's idempotency key.
    id uuid primary key,
    api_key_id uuid not null,
    -- Keyed hash of the Idempotency-Key. Null when none was sent.
    idempotency_key uuid, -- sealed
    -- Keyed hash of the requested items.
    request_key uuid not null, -- sealed
    -- The agreement, by which the order and its payments find each other.
    pact_id text not null, -- thing
    order_id bigint not null,
    -- The items that are bought, at their prices at that moment, as JSON.
    items text not null, -- thing
    -- pending, open, refused
    state text not null, -- thing
    -- Why the checkout is refused: amount, currency, provider.
    refusal text, -- thing
    -- The provider's session, and its page.
    session_id text, -- thing
    url text, -- thing
    expires_at bigint,
    created_at bigint not null,
    updated_at bigint not null
);

create unique index checkouts_idempotency on checkouts (api_key_id, idempotency_key)
where idempotency_key is not null;
create index checkouts_created on checkouts (created_at);

-- Events

-- Events for the merchant's own systems. They have ids and amounts, and no personal data. The id of an event is made of
-- created_at, position and object_id.
create table events (
    -- Its place in the sequence in which readers see events.
    position bigint primary key,
    kind text not null, -- thing
    shop text, -- thing
    object_id text not null, -- thing
    body text not null, -- json
    -- The trace of the job that led to the event.
    traceparent bytea, -- own
    created_at bigint not null
);

-- For the events of one order.
create index events_object on events (object_id, position);
create index events_traceparent on events (substr(traceparent, 1, 16))
    where traceparent is not null;

-- The positions of events on a server.
create sequence event_positions;

-- The same in a SQLite file, in one row: the last position that was given.
create table event_head (
    id bigint primary key,
    position bigint not null
);

-- Endpoints of the merchant's own systems, to which events are sent as webhooks, and RabbitMQ, if it is there.
create table endpoints (
    id uuid primary key,
    url text not null, -- thing
    -- The patterns of types whose events it gets, separated by spaces.
    kinds text not null, -- thing
    -- active, paused, failing, gone
    state text not null, -- thing
    -- Encrypted, as the former secrets are, a list as JSON: until when each signs too, and the secret in hex. The last
    -- one of them signs until former_until. RabbitMQ has none.
    secret bytea, -- sealed
    former_secrets text, -- sealed
    former_until bigint,
    -- All events up to this position were accepted, do not fit, or wait in outgoing_webhooks.
    position bigint not null,
    -- When the first attempt failed since it last accepted a webhook, and how many have failed since.
    failing_since bigint,
    failures bigint not null,
    last_error text, -- thing
    -- To the minute.
    delivered_at bigint,
    created_at bigint not null,
    updated_at bigint not null
);

-- Events that an endpoint did not accept at once, and later events of the same objects.
create table outgoing_webhooks (
    endpoint_id uuid not null,
    -- The position of the event.
    position bigint not null,
    -- Empty when the event belongs to no shop.
    shop text not null, -- thing
    object_id text not null, -- thing
    -- The job that sends the event.
    job_id uuid not null,
    primary key (endpoint_id, position)
);

create index outgoing_webhooks_object on outgoing_webhooks (endpoint_id, shop, object_id, position);

-- Users, organizations, licences, device logins

-- A person: an account of the identity provider, or, while provider_id is null, an invitation by
-- login.
create table users (
    id uuid primary key,
    -- The provider's own number of the account. It stays when the login changes.
    provider_id bigint unique, -- account
    -- For an account of a provider that was replaced by another one: the former provider, and the
    -- account's number there. Then provider_id is null.
    former_provider text, -- thing
    former_id bigint, -- account
    -- The login when the account was last seen, or as the operator gave it.
    login text not null, -- account
    -- The login in lower case. Null after another account was seen with it.
    login_key text unique, -- account
    -- Until when an invitation can be claimed.
    claimable_until bigint,
    created_at bigint not null,
    seen_at bigint
);

create index users_unseen on users (coalesce(seen_at, created_at));

-- One row: the identity provider to which the numbers in users.provider_id belong. The first
-- process that starts with a provider writes it.
create table identity_provider (
    id bigint primary key,
    -- The provider's address in lower case, or `stand-in` for any provider on this machine.
    name text not null, -- thing
    recorded_at bigint not null
);

-- Organizations, which share licences among their members.
create table orgs (
    id uuid primary key,
    name text not null, -- account
    -- The name in lower case.
    name_key text not null unique, -- account
    -- The owner, whose organizations count together against a tier's limit.
    owner_id uuid references users (id),
    created_at bigint not null
);

create index orgs_owner on orgs (owner_id) where owner_id is not null;

-- Which users are members of which organizations.
create table org_members (
    org_id uuid not null references orgs (id),
    user_id uuid not null references users (id),
    added_at bigint not null,
    primary key (org_id, user_id)
);

create index org_members_user on org_members (user_id);

-- Licences. A licence belongs to a person or to an organization, never to both. A revoked licence
-- is kept to be shown.
create table licenses (
    id uuid primary key,
    tier text not null, -- thing
    user_id uuid references users (id),
    org_id uuid references orgs (id),
    -- active, suspended
    status text not null, -- thing
    -- Null for a licence that never ends.
    expires_at bigint,
    -- The payment provider's subscription whose paid invoices extend it.
    subscription_id text, -- thing
    -- The price, product or item of it that carries the tier. Null: the whole of it.
    subscription_item text, -- thing
    granted_at bigint not null,
    updated_at bigint not null,
    revoked_at bigint,
    check ((user_id is null) <> (org_id is null))
);

create index licenses_user on licenses (user_id) where user_id is not null;
create index licenses_org on licenses (org_id) where org_id is not null;
create index licenses_subscription on licenses (subscription_id) where subscription_id is not null;

-- One row. It is locked by each transaction that grants a licence or adds a member, so that only
-- one at a time counts seats.
create table license_changes (
    id bigint primary key,
    revision bigint not null
);

-- Device logins that are under way. The device code itself is not stored, because it is the key
-- to the token.
create table device_codes (
    -- SHA-256 of the device code.
    hash bytea primary key, -- sealed
    -- pending; doubted: the provider said once that it does not know the code; authorized; denied
    state text not null, -- thing
    interval_seconds bigint not null,
    expires_at bigint not null,
    -- The provider is not asked before this time.
    next_poll_at bigint not null,
    -- The provider's answer, encrypted with a key that is made from the device code. It is handed
    -- out for a minute, until token_until, and deleted within another minute.
    token bytea, -- sealed
    token_until bigint,
    created_at bigint not null
);

create index device_codes_expiry on device_codes (expires_at);
create index device_codes_token on device_codes (token_until) where token_until is not null;

-- Access tokens that the identity provider confirmed lately. The token itself is not stored.
create table confirmed_tokens (
    -- SHA-256 of the application's id and the token.
    hash bytea primary key, -- sealed
    confirmed_at bigint not null,
    -- When the token ends by itself. Null for one that does not.
    expires_at bigint
);

create index confirmed_tokens_confirmed on confirmed_tokens (confirmed_at);

-- When each client last asked for device codes.
create table device_code_requests (
    -- Keyed hash of the client's network.
    client bytea primary key, -- sealed
    -- The times within the limit's period, sorted, as JSON.
    times text not null, -- thing
    newest_at bigint not null
);

create index device_code_requests_newest on device_code_requests (newest_at);

-- Privacy and the audit

-- A request that the storefront passed on. It has ids, keyed hashes and counts, and is kept as
-- evidence.
create table privacy_requests (
    -- The id of the request's job.
    id uuid primary key,
    -- customers/data_request, customers/redact, shop/redact
    topic text not null, -- thing
    shop text not null, -- thing
    -- The storefront's id of the customer. Null when the request names none, or when it is about
    -- a whole shop.
    customer_id bigint,
    -- Keyed hashes of the address and the telephone number by which the request names the
    -- customer.
    email_key uuid, -- sealed
    phone_key uuid, -- sealed
    -- Keyed hash of the body.
    body_key uuid not null, -- sealed
    -- The earlier request with the same body.
    repeats uuid,
    -- received, held, done, cancelled, failed
    state text not null, -- thing
    -- Whom else the request may mean, and what operators decided about that: ids and counts, as
    -- JSON.
    held text, -- own
    decided text, -- own
    received_at bigint not null,
    due_at bigint not null,
    -- When the erasure of a shop starts, unless it is cancelled before.
    held_until bigint,
    -- When signed orders of the shop were found that came shortly before the request or after it. Then its erasure
    -- waits for an operator, and starts at held_until if nobody decides.
    living_at bigint,
    -- When an operator confirmed a repeated erasure, or that of a shop that is in use. A held erasure waits for that
    -- while this and held_until are null.
    confirmed_at bigint, -- own
    -- When it was reported that an erasure is held.
    hold_reported_at bigint, -- own
    finished_at bigint,
    -- When it was reported that seven days, two days and no time were left.
    warned_at bigint,
    alarmed_at bigint,
    overdue_at bigint,
    -- How far the request has come and what was counted so far, as JSON.
    progress text, -- json
    export_sha256 text, -- thing
    -- How many runs began to write an export, each under a number of its own, and the one whose export counts.
    export_runs bigint not null default 0, -- own
    export_run bigint, -- own
    -- The store to which the export was written.
    export_store uuid, -- own
    export_bytes bigint,
    export_expires_at bigint,
    export_removed_at bigint,
    -- Why the export could not be removed.
    export_problem text, -- own
    -- What was done, with a signature, as JSON.
    receipt text -- json
);

create index privacy_requests_due on privacy_requests (due_at) where finished_at is null;
create index privacy_requests_listed on privacy_requests (due_at, id);
create index privacy_requests_shop on privacy_requests (shop, customer_id);
create index privacy_requests_body on privacy_requests (body_key);
create index privacy_requests_export on privacy_requests (export_expires_at)
where export_expires_at is not null and export_removed_at is null;

-- Tombstones. Data about a subject with such a key (a keyed hash of a customer's id, address, ..
-- in a shop) is stored without its person. Shop '' is for payments, which belong to no shop.
create table tombstones (
    shop text not null, -- thing
    key uuid not null, -- sealed
    redacted_at bigint not null,
    primary key (shop, key)
);

-- The entries of the journal of erasures that this database knows. The journal itself is in the
-- store of exports. An entry has keyed hashes and ids of orders.
create table erasures (
    number bigint primary key,
    -- The job of the erasure.
    job_id uuid not null,
    -- Keyed hash of the entry, which the next entry has.
    hash bytea not null, -- sealed
    -- The entry as it is in the store.
    object bytea not null, -- sealed
    -- Since when it is known to be in the store.
    kept_at bigint
);

create index erasures_job on erasures (job_id);
create index erasures_not_kept on erasures (number) where kept_at is null;

-- The tombstones that the runs of an erasure have written so far, until its end is recorded. A run that
-- goes on does not find again what the one before it has erased.
create table erasure_subjects (
    job_id uuid not null,
    shop text not null, -- thing
    key uuid not null, -- sealed
    primary key (job_id, shop, key)
);

-- The people whose data an export has, as keyed hashes, by which an erasure finds the export.
create table export_subjects (
    request_id uuid not null,
    key uuid not null, -- sealed
    primary key (request_id, key)
);

create index export_subjects_key on export_subjects (key);

-- The stores to which exports were written. Each store has its id in an object of its own, so
-- that an empty store, or another one at the same address, is recognized.
create table export_stores (
    -- The address, without a credential.
    place text primary key, -- thing
    id uuid not null,
    created_at bigint not null
);

-- Links to exports that were given out and that have not expired long ago.
create table export_links (
    request_id uuid not null,
    -- Seconds since 1970, as in the link.
    expires bigint not null,
    primary key (request_id, expires)
);

-- The fingerprint of the key for hashes and signatures, and the key itself if a SQLite database
-- made its own because PRIVACY_KEY is not set.
create table privacy_keys (
    id bigint primary key,
    secret bytea, -- sealed
    fingerprint bytea not null, -- sealed
    created_at bigint not null
);

-- The audit, append-only. Each entry is a leaf of a Merkle tree, and has its hash as such.
create table audit (
    number bigint primary key,
    at bigint not null,
    -- storefront, worker, operator, link, key:<name of an API key>
    actor text not null, -- thing
    action text not null, -- thing
    -- The id of the request, job, .. to which it was done.
    object_id text not null, -- thing
    shop text, -- thing
    -- Counts and ids, as JSON; no personal data.
    details text not null, -- thing
    hash bytea not null -- sealed
);

create index audit_object on audit (object_id, number);

-- One row: the number of the last entry and the roots of the whole subtrees of all entries, with a code over both that
-- is made with our key. It is locked by each transaction that adds an entry.
create table audit_head (
    id bigint primary key,
    number bigint not null,
    roots bytea not null, -- sealed
    code bytea not null -- sealed
);
