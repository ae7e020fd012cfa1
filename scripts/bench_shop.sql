-- Fills a database with two million rows: 200,000 orders, each with three lines, a fulfilment, a QR code, a customer,
-- a done job, the id of its delivery and an event. A tenth of them belongs to one shop.
--
-- Usage: psql -v gone=SHOP -f bench_shop.sql
\set ON_ERROR_STOP on
set synchronous_commit = off;

create temporary table made as
select number::bigint as n,
       case when number <= 20000 then :'gone' else 'shop-' || number % 90 || '.example' end as shop,
       5000000000000 + number as order_id,
       7000000000000 + number as customer_id,
       gen_random_uuid() as job_id,
       (extract(epoch from now()) * 1000)::bigint - 86400000 as at,
       json_build_object('first_name', 'Bob ' || number, 'last_name', 'Example',
                         'address1', number || ' Example Street', 'city', 'Ottawa', 'zip', 'K2P0V6')::text as address
from generate_series(1, 200000) as number;

insert into customers (shop, id, email_key, phone_key, record, created_at, updated_at)
select shop, customer_id, 'bob' || n || '@example.com', '1613' || 5550000 + n,
       json_build_object('schema', 1,
                         'email', json_build_object('at', at, 'value', 'bob' || n || '@example.com'),
                         'phone', json_build_object('at', at, 'value', '+1613' || 5550000 + n),
                         'first_name', json_build_object('at', at, 'value', 'Bob ' || n),
                         'last_name', json_build_object('at', at, 'value', 'Example'))::text, at, at from made;

insert into orders (shop, id, name, customer_id, email, phone, currency, total_minor, subtotal_minor, tax_minor,
                    financial_status, shipping_address, billing_address, ordered_at, was_paid,
                    version_at, created_at, updated_at)
select shop, order_id, '#' || n, customer_id, 'bob' || n || '@example.com', '+1613' || 5550000 + n, 'USD', 40300, 39300,
       1000, 'paid', address, address, at, 1, at, at, at from made;

insert into order_lines (shop, order_id, position, id, variant_id, title, quantity, price, sku)
select shop, order_id, line, n * 10 + line, 39072856 + line, 'Linen apron, natural, one size', line, '89.99', 'APRON-' || line
from made, generate_series(1, 3) as line;

insert into fulfillments (shop, order_id, state, initiated_at, updated_at)
select shop, order_id, 'initiated', at, at from made;

insert into qr_codes (shop, order_id, kind, url, modules, created_at)
select shop, order_id, 'order', 'http://127.0.0.1/orders/' || order_id,
       decode(substr(repeat(md5(n::text), 12), 1, 376), 'hex'), at from made;

insert into jobs (id, queue, kind, source, shop, external_id, object_id, subject, body, state, run_at, notified_at,
                  created_at, finished_at)
select job_id, 'orders', 'orders/create', 'storefront', shop, 'fill-' || n, order_id::text, customer_id::text,
       convert_to(rpad(json_build_object('id', order_id, 'email', 'bob' || n || '@example.com',
                                         'shipping_address', address, 'billing_address', address)::text, 1300), 'UTF8'),
       'done', at, at, at, at from made;

insert into webhook_ids (id, job_id, expires_at)
select cast(substr(encode(sha256(convert_to('storefront:fill-' || n, 'UTF8')), 'hex'), 1, 32) as uuid), job_id,
       at + 172800000 from made;

insert into events (position, id, kind, shop, object_id, body, created_at)
select nextval('event_positions'), gen_random_uuid(), 'order.created', shop, order_id::text,
       json_build_object('shop', shop, 'order_id', order_id::text)::text, at from made order by at;
insert into broker_cursor (id, position) select 1, last_value from event_positions;

analyze;
checkpoint;
