-- One id for all that follows from a delivery: the `traceparent` that it came with, and those of
-- the jobs and events that it led to. A delivery without one has none here either: its trace is
-- called after its job, so the hot way writes nothing more.

alter table jobs add column traceparent text;
alter table events add column traceparent text;

-- For `waybill jobs list --trace` and `waybill events list --trace`, by the trace's id.
create index jobs_traceparent on jobs (substr(traceparent, 4, 32)) where traceparent is not null;
create index jobs_trace on jobs (trace) where trace is not null;
create index events_traceparent on events (substr(traceparent, 4, 32))
    where traceparent is not null;
