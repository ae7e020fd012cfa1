"""Celery on RabbitMQ: a quorum queue, publisher confirms, late acknowledgements, no result backend."""

import os
import sys
import threading
import time

import psycopg
from celery import Celery
from celery.signals import worker_process_init
from kombu import Exchange, Queue

import peer

NAME = os.environ["PEER_QUEUE"]
MODE = sys.argv[2] if sys.argv[1:2] == ["work"] else ""

app = Celery("peers", broker=os.environ["PEER_AMQP_URL"])
app.conf.update(
    task_queues=[Queue(NAME, Exchange(NAME, type="direct"), routing_key=NAME,
                       queue_arguments={"x-queue-type": "quorum"})],
    task_default_queue=NAME,
    task_default_exchange=NAME,
    task_default_routing_key=NAME,
    task_default_queue_type="quorum",
    broker_transport_options={"confirm_publish": True},
    broker_pool_limit=None,
    broker_connection_retry_on_startup=True,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=16,
    worker_send_task_events=False,
    worker_hijack_root_logger=False,
)
connection = None


@worker_process_init.connect
def connect(**_):
    global connection
    if MODE == "row":
        connection = psycopg.connect(peer.DATABASE_URL, autocommit=True)


@app.task(name="deliver")
def deliver(job, sent_at, order):
    if MODE == "latency":
        peer.tell_latency(sent_at)
        return
    if MODE == "row":
        connection.execute("insert into effects (job) values (%s)", (job,), prepare=True)
    peer.counter.add()


def enqueue(clients, seconds, first):
    """One thread for each client, because the client of RabbitMQ blocks while it waits for the confirm."""
    made, start, until = [0] * clients, threading.Event(), [0.0]

    def produce(client):
        with app.connection_for_write() as own, app.amqp.Producer(own, auto_declare=False) as producer:
            own.ensure_connection()
            opened.release()
            start.wait()
            while time.monotonic() < until[0]:
                deliver.apply_async(kwargs=peer.payload(first + client + clients * made[client]), producer=producer)
                made[client] += 1

    opened = threading.Semaphore(0)
    threads = [threading.Thread(target=produce, args=(client,)) for client in range(clients)]
    for thread in threads:
        thread.start()
    for _ in threads:
        opened.acquire()
    begun = peer.begin()
    until[0] = begun + seconds
    start.set()
    for thread in threads:
        thread.join()
    peer.report(sum(made), begun)


def main():
    command, *rest = sys.argv[1:]
    if command in ("prepare", "discard"):
        with app.connection_for_write() as own:
            queue = app.conf.task_queues[0](own.default_channel)
            queue.declare() if command == "prepare" else queue.delete()
    elif command == "left":
        with app.connection_for_write() as own:
            print(app.conf.task_queues[0](own.default_channel).queue_declare(passive=True).message_count)
    elif command == "work":
        app.worker_main(["worker", "--pool=prefork", "--concurrency=2", "--loglevel=ERROR", "--without-gossip",
                         "--without-mingle", "--queues", NAME, "--hostname", f"worker{os.getpid()}@localhost"])
    elif command == "enqueue":
        enqueue(*(int(number) for number in rest))
    elif command == "fill":
        # Celery has no bulk call.
        with app.producer_pool.acquire(block=True) as producer:
            begun = peer.begin()
            count, first = (int(number) for number in rest)
            for number in range(first, first + count):
                deliver.apply_async(kwargs=peer.payload(number), producer=producer)
            peer.report(count, begun)
    elif command == "trickle":
        for number in range(int(rest[0])):
            deliver.apply_async(kwargs=peer.payload(number))
            time.sleep(0.05)


if __name__ == "__main__":
    main()
