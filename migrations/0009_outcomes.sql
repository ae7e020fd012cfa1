-- One order for each agreement, whatever comes first; agreements that are paid in cycles; what was requested of an
-- order; payments of invoices.
-- Portable: times are milliseconds since 1970, states are snake_case text, JSON is text, flags are 0 or 1.

-- What the payment provider's metadata says: which fulfilment of the agreement is paid, the merchant's own word for
-- the sort of payment, and for the payments that belong together.
alter table payments add column fulfillment_cycle text;
alter table payments add column payment_type text;
alter table payments add column transfer_group text;
-- The invoice that it pays, as far as the provider tells.
alter table payments add column invoice text;

-- What the page made of the price: before it, what it took off, and what tax and shipping it added.
alter table checkout_sessions add column subtotal_minor bigint;
alter table checkout_sessions add column discount_minor bigint;
alter table checkout_sessions add column added_minor bigint;
alter table checkout_sessions add column fulfillment_cycle text;
create index checkout_sessions_subscription on checkout_sessions (subscription) where subscription is not null;
create index checkout_sessions_invoice on checkout_sessions (invoice) where invoice is not null;

-- Of an order that a session made: nothing is requested for it until then, as the storefront's own may come.
alter table orders add column waits_until bigint;
-- The storefront's order that has taken its place.
alter table orders add column successor_shop text;
alter table orders add column successor_id bigint;

-- Units by line id that were ever requested or shipped, as JSON; null: none, or by an older version.
alter table fulfillments add column requested_units text;

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

-- Bodies that leave a status to their topic, which nobody signs: under which topic each was accepted first.
create table order_bodies (
    shop text not null,
    order_id bigint not null,
    -- SHA-256 of what may stay of the body after an erasure, hexadecimal.
    hash text not null,
    topic text not null,
    -- Deliveries of the same body under other topics that say more than it does; they change nothing.
    repeats bigint not null,
    created_at bigint not null,
    primary key (shop, order_id, hash)
);

create index order_bodies_repeated on order_bodies (created_at) where repeats > 0;

create index payments_invoice on payments (invoice) where invoice is not null;
