-- Calls that move money look at what was done before: when each was made, and under which key.
-- Portable: times are milliseconds since 1970.

-- When the provider was asked last, written before it is; null: never.
alter table payment_retries add column tried_at bigint;
-- Which idempotency key the call has: the job's id, and from 2 on with this number behind it.
alter table payment_retries add column key_number bigint;

alter table refunds add column tried_at bigint;
alter table refunds add column key_number bigint;
