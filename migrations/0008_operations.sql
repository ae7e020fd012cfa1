-- What an operator decides about jobs that have ended.
-- Portable: times are milliseconds since 1970.

-- When a dead job was given up for good: it is done then, without its body, and is never run again.
alter table jobs add column discarded_at bigint;
