"""The handler of the conformance tests in Python; handler.mjs says what it does."""
import os
import time

directory = os.environ['CONFORMANCE_DIR']
ledger = os.path.join(directory, 'ledger')


class Permanent(Exception):
    permanent = True


def handle(payload):
    if not isinstance(payload, dict) or 'do' not in payload:
        return {'echo': payload}
    what, key = payload['do'], payload.get('key')
    note('begin', key)
    try:
        if what == 'permanent':
            raise Permanent(payload['message'])
        if what == 'fail' and runs_of(key) <= payload['times']:
            raise RuntimeError(payload['message'])
        if what == 'hold':
            hold(key)
        return {'echo': payload.get('value')}
    finally:
        note('end', key)


def note(what, key):
    with open(ledger, 'a') as file:
        file.write(f'{what} {key}\n')


def runs_of(key):
    with open(ledger) as file:
        return file.readlines().count(f'begin {key}\n')


def hold(key):
    while not os.path.exists(os.path.join(directory, f'go-{key}')):
        if not os.path.exists(directory):
            os._exit(1)  # the test is over
        time.sleep(0.02)
