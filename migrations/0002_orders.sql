-- What an order's history comes to: its parts and their versions, parcels, refunds, stock, payments.
-- Portable: times are milliseconds since 1970, states are snake_case text, JSON is text, flags are 0 or 1.

-- A version is (version_at, version_tie): the provider's second, and what decides within it.
alter table orders add column version_tie bigint not null default 0;
-- Versions of the parts that the newest body did not tell, by name, as JSON; null: it told all.
alter table orders add column lags text;
alter table orders add column outstanding_minor bigint;
alter table orders add column cancel_reason text;
-- The agreement by which orders and payments find each other; null: the order's id stands for it.
alter table orders add column pact_id text;
-- What the storefront has refunded: ids, amounts and lines, as JSON.
alter table orders add column refunds text;
-- Facts that any version told; they are never taken back.
alter table orders add column was_paid bigint not null default 0;
alter table orders add column was_refunded bigint not null default 0;
alter table orders add column was_fulfilled bigint not null default 0;
-- The time in the id of the order's last event: the next one's is later, whatever the clocks say.
alter table orders add column events_at bigint not null default 0;
-- That an order was paid is left to its next delivery: what follows from it has not been done.
update orders set was_refunded = 1 where financial_status = 'refunded';
update orders set was_fulfilled = 1 where fulfillment_status = 'fulfilled';
update fulfillments set state = 'fulfilled'
where state = 'initiated' and exists (
    select 1 from orders
    where orders.shop = fulfillments.shop and orders.id = fulfillments.order_id
      and orders.was_fulfilled = 1
);
update fulfillments set state = 'cancelled'
where state = 'initiated' and exists (
    select 1 from orders
    where orders.shop = fulfillments.shop and orders.id = fulfillments.order_id
      and orders.was_refunded = 1
);
create index orders_pact on orders (pact_id) where pact_id is not null;

-- Each of a customer's fields is as new as the newest order that told it.
alter table customers add column email_at bigint not null default 0;
alter table customers add column phone_at bigint not null default 0;
alter table customers add column first_name_at bigint not null default 0;
alter table customers add column last_name_at bigint not null default 0;
update customers set email_at = version_at, phone_at = version_at,
                     first_name_at = version_at, last_name_at = version_at;

alter table fulfillments add column requested_at bigint;
alter table fulfillments add column fulfilled_at bigint;
alter table fulfillments add column cancelled_at bigint;
-- What became of the request at the storefront: pending, created, not_needed; null: none was made.
alter table fulfillments add column provider_state text;
-- The storefront's id of the fulfilment that our request created.
alter table fulfillments add column provider_id text;

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
    qr_png bytea,
    created_at bigint not null,
    primary key (shop, order_id, shipment_id, number),
    foreign key (shop, order_id, shipment_id) references shipments (shop, order_id, id)
);

create index parcels_number on parcels (number);

-- Append-only. The sum over an order's line is what has gone back into stock.
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

create table payments (
    -- The provider's id of the payment intent.
    id text primary key,
    pact_id text,
    currency text not null,
    amount_minor bigint not null,
    -- What was captured.
    received_minor bigint not null,
    state text not null,
    created_at bigint not null,
    updated_at bigint not null
);

create index payments_pact on payments (pact_id) where pact_id is not null;

-- Locked by whoever decides on an order by its payments or the reverse: the second sees the first.
create table pacts (
    id text primary key,
    revision bigint not null
);

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
    created_at bigint not null,
    updated_at bigint not null,
    primary key (shop, order_id, payment_id),
    foreign key (shop, order_id) references orders (shop, id)
);

-- Work that one process does for all: whose turn it is, and until when.
create table leases (
    name text primary key,
    holder uuid not null,
    expires_at bigint not null
);

-- What happened to one order.
create index events_object on events (object_id, id);
