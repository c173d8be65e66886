#!/usr/bin/python3
"""A Fencepost worker in Python: ./worker.py DATABASE_URL TYPE[,TYPE...] MODULE:FUNCTION

The function gets a job's payload and returns its result. When it raises, the attempt has failed; an
error with `permanent = True` is not tried again. See README.md for the protocol.
"""
import importlib, os, signal, socket, sys, threading, time
import psycopg2
from psycopg2.extras import Json

url, types, (module, function) = sys.argv[1], sys.argv[2].split(','), sys.argv[3].split(':')
name, ttl = f'python-{socket.gethostname()}-{os.getpid()}', 30  # ttl: seconds that it may be silent
db, in_hand, stopping = None, {}, []


def ask(statement, *values):
    global db
    if db is None or db.closed:
        db = psycopg2.connect(url, connect_timeout=5, keepalives_idle=5, keepalives_interval=2)
        db.autocommit = True
    with db.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall()


def answered(statement, *values):  # asks again, while the connection is lost, until the server has answered
    while True:
        try:
            return ask(statement, *values)
        except psycopg2.OperationalError as error:
            print(f'{name}: {error}', file=sys.stderr)
            time.sleep(1)


def register():  # whatever an earlier one of this name may still hold goes to others
    answered('select fencepost.register_worker(%s, types => %s, ttl => make_interval(secs => %s))', name, types, ttl)


def work(job_id, token, payload):
    try:
        answered('select fencepost.complete(%s, %s, %s)', job_id, token, Json(handle(payload)))
    except Exception as problem:
        answered('select fencepost.fail(%s, %s, %s, permanent => %s)',
                 job_id, token, repr(problem), getattr(problem, 'permanent', False))


def beat():  # keeps the job in hand ours, and does a share of the engine's housekeeping
    while True:
        time.sleep(ttl / 3)
        try:
            answered('select fencepost.heartbeat(%s, %s, %s)', name, list(in_hand), list(in_hand.values()))
            answered('select fencepost.maintain()')
        except psycopg2.Error as error:  # JE010: it was silent for too long; its next claim registers anew
            print(f'{name}: {error}', file=sys.stderr)


sys.path.insert(0, os.getcwd())
handle = getattr(importlib.import_module(module), function)
for each in signal.SIGTERM, signal.SIGINT:
    signal.signal(each, lambda *_: stopping.append(True))
register()
threading.Thread(target=beat, daemon=True).start()
while not stopping:
    try:
        jobs = ask('select job_id, token, payload from fencepost.claim(%s, %s, 1)', name, types)
    except psycopg2.OperationalError:
        register()  # it may have claimed a job of which we were not told
        continue
    for job_id, token, payload in jobs:
        in_hand = {job_id: token}
        try:
            work(job_id, token, payload)
        except psycopg2.Error as refused:  # JE001: the lease was lost, another attempt has the job: write no more for it
            print(f'{name}: {refused}', file=sys.stderr)
        in_hand = {}
    if not jobs:
        time.sleep(1)
answered('select fencepost.stop_worker(id) from fencepost.workers where name = %s and status = %s', name, 'active')
