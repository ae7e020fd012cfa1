-- What payments come to: their facts, the ledger, checkout sessions, subscriptions, retries, notifications.
-- Portable: times are milliseconds since 1970, states are snake_case text, JSON is text, flags are 0 or 1.

-- A payment is the join of what its events told. What happened is never taken back.
alter table payments add column succeeded bigint not null default 0;
alter table payments add column canceled_at bigint;
alter table payments add column refunded_minor bigint not null default 0;
alter table payments add column fully_refunded bigint not null default 0;
-- What the provider called it; `state` is what follows from the facts.
alter table payments add column status text;
-- The provider's customer.
alter table payments add column customer_id text;
alter table payments add column receipt_email text;
-- The latest attempt that failed: the provider's codes and ids, as JSON.
alter table payments add column failure text;
-- Which event told each of the parts, by name, as JSON.
alter table payments add column versions text;
-- The time in the id of the payment's last event: the next one's is later, whatever the clocks say.
alter table payments add column events_at bigint not null default 0;
-- How many ledger entries it has.
alter table payments add column entries bigint not null default 0;

-- Append-only, double entry. The entries of one payment, reason and currency sum to zero.
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

-- Payments that were only stored so far are booked.
insert into ledger_entries (payment_id, number, entry, account, amount_minor, currency, created_at)
select id, 1, 'captured', 'held', received_minor, currency, updated_at
from payments where received_minor > 0;
insert into ledger_entries (payment_id, number, entry, account, amount_minor, currency, created_at)
select id, 2, 'captured', 'provider', -received_minor, currency, updated_at
from payments where received_minor > 0;
insert into ledger_entries (payment_id, number, entry, account, amount_minor, currency, created_at)
select id, 3, 'released', 'held', -received_minor, currency, updated_at
from payments where received_minor > 0 and pact_id is not null;
insert into ledger_entries (payment_id, number, entry, account, amount_minor, currency, created_at)
select id, 4, 'released', 'released:' || pact_id, received_minor, currency, updated_at
from payments where received_minor > 0 and pact_id is not null;
update payments set succeeded = 1, entries = case when pact_id is null then 2 else 4 end
where received_minor > 0;

create table checkout_sessions (
    -- The provider's id.
    id text primary key,
    mode text,
    payment_status text,
    total_minor bigint,
    currency text,
    payment_intent text,
    subscription text,
    invoice text,
    customer_id text,
    client_reference_id text,
    pact_id text,
    email text,
    -- Which event told each of the parts, by name, as JSON.
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

create table subscriptions (
    -- The provider's id.
    id text primary key,
    -- Paid until then; never shortened.
    period_end_at bigint,
    customer_id text,
    pact_id text,
    versions text not null,
    events_at bigint not null,
    created_at bigint not null,
    updated_at bigint not null
);

-- Attempts of ours to collect a payment that failed.
create table payment_retries (
    payment_id text not null,
    -- From 1.
    number bigint not null,
    job_id uuid not null,
    -- scheduled, succeeded, pending, declined, failed, stopped
    state text not null,
    due_at bigint not null,
    -- The provider's code, or ours.
    code text,
    updated_at bigint not null,
    primary key (payment_id, number),
    foreign key (payment_id) references payments (id)
);

-- What customers are told. Whom and what exactly is read when it is sent, and stands nowhere.
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

-- What the payments of its agreement make of an order.
alter table orders add column payment_status text;
-- They pay for all of it.
alter table orders add column payment_covers bigint not null default 0;
-- When the first payment of its agreement was canceled.
alter table orders add column payment_canceled_at bigint;
