-- By what people are found: addresses and telephone numbers as they are compared, written with them.
-- Portable: times are milliseconds since 1970, JSON is text.

-- Null: the row has none, or a version before this one wrote it; then it is filled in before anybody is looked for.
-- Empty: what stands there is no address, or no number.
alter table customers add column email_key text;
alter table customers add column phone_key text;
alter table orders add column email_key text;
alter table orders add column phone_key text;
alter table payments add column email_key text;
alter table checkout_sessions add column email_key text;

drop index orders_email;
drop index orders_phone;
drop index customers_email;
drop index customers_phone;
drop index payments_receipt_email;
drop index checkout_sessions_email;
create index customers_email on customers (shop, email_key) where email_key is not null;
create index customers_phone on customers (shop, phone_key) where phone_key is not null;
create index orders_email on orders (shop, email_key) where email_key is not null;
create index orders_phone on orders (shop, phone_key) where phone_key is not null;
create index payments_email on payments (email_key) where email_key is not null;
create index checkout_sessions_email on checkout_sessions (email_key) where email_key is not null;

-- Rows that a version before this one wrote.
create index customers_no_email_key on customers (shop, id) where (email is null) <> (email_key is null);
create index customers_no_phone_key on customers (shop, id) where (phone is null) <> (phone_key is null);
create index orders_no_email_key on orders (shop, id) where (email is null) <> (email_key is null);
create index orders_no_phone_key on orders (shop, id) where (phone is null) <> (phone_key is null);
create index payments_no_email_key on payments (id) where (receipt_email is null) <> (email_key is null);
create index checkout_sessions_no_email_key on checkout_sessions (id) where (email is null) <> (email_key is null);

-- The payment provider's own customers lead to their payments.
create index payments_customer on payments (customer_id) where customer_id is not null;
create index checkout_sessions_customer on checkout_sessions (customer_id) where customer_id is not null;
create index subscriptions_customer on subscriptions (customer_id) where customer_id is not null;

-- Whom else a request may mean, and what operators said of it: ids and counts, as JSON.
alter table privacy_requests add column held text;
alter table privacy_requests add column decided text;
