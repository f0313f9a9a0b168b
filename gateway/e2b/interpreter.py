"""Runs code for clients: what E2B's code interpreter speaks, on port 49999.

POST /execute {code, context_id, language, env_vars} answers one JSON object a line, as it
comes: stdout, stderr, result (with a key for each MIME type), error, number_of_executions.
GET and POST /contexts {language, cwd}, DELETE /contexts/ID and POST /contexts/ID/restart are
for contexts, which have state that lasts from one execution to the next. Variables that come
with an execution stay in its context. Python is run by IPython's kernel, JavaScript by node
and shell text by bash. A context runs one execution at a time, and a client that goes away
interrupts it.
"""
import json
import os
import queue
import select
import shlex
import signal
import socket
import subprocess
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from jupyter_client import KernelManager

PORT = 49999
MAX_BODY = 16 << 20  # bytes
MAX_CONTEXTS = 20
LOOK = 0.5  # seconds between looks at whether the client is there
MIME = {
    'text/plain': 'text', 'text/html': 'html', 'text/markdown': 'markdown', 'text/latex': 'latex', 'image/svg+xml': 'svg', 'image/png': 'png',
    'image/jpeg': 'jpeg', 'application/pdf': 'pdf', 'application/json': 'json', 'application/javascript': 'javascript',
}

# Programs are given code and answer on two descriptors, with a NUL behind each text. An
# answer is an object to be sent, or {}.
BASH = r'''while IFS= read -r -d '' code <&"$0"; do
  eval "$code"; status=$?
  if [ $status = 0 ]; then printf '{}\0'; else printf '{"type":"error","name":"ExitStatus","value":"%d","traceback":""}\0' $status; fi >&"$1"
done'''
NODE = '''
const [input, output] = process.argv.slice(1).map(Number), fs = require('fs'), util = require('util'), vm = require('vm')
globalThis.require = require
const answer = (a) => fs.writeSync(output, JSON.stringify(a) + '\\0')
let text = ''
fs.createReadStream(null, { fd: input, encoding: 'utf8' }).on('data', async (part) => {
  text += part
  if (!text.endsWith('\\0')) return
  const code = text.slice(0, -1)
  text = ''
  try {
    const value = await vm.runInThisContext(code, { filename: 'code' })
    answer(value === undefined ? {} : { type: 'result', is_main_result: true, text: util.inspect(value) })
  } catch (e) {
    answer({ type: 'error', name: String(e?.name), value: String(e?.message ?? e), traceback: String(e?.stack ?? e) })
  }
})'''


class Python:
    """A kernel of IPython's."""

    def __init__(self, cwd):
        self.manager = KernelManager(kernel_name='python3')
        self.manager.start_kernel(cwd=cwd)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def run(self, code, env, gone):
        if env:
            self.client.execute(f'__import__("os").environ.update({env!r})', silent=True)
        asked = self.client.execute(code)
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=LOOK)
            except queue.Empty:
                if not self.manager.is_alive():
                    yield error('KernelDied', 'the kernel has ended; restart the context')
                    return
                if gone():
                    self.manager.interrupt_kernel()
                continue
            if message['parent_header'].get('msg_id') != asked:
                continue
            kind, content = message['msg_type'], message['content']
            if kind == 'stream':
                yield {'type': content['name'], 'text': content['text']}
            elif kind in ('execute_result', 'display_data'):
                yield {'type': 'result', 'is_main_result': kind == 'execute_result', **{MIME.get(k, k): v for k, v in content['data'].items()}}
            elif kind == 'error':
                yield error(content['ename'], content['evalue'], '\n'.join(content['traceback']))
            elif kind == 'execute_input':
                yield {'type': 'number_of_executions', 'execution_count': content['execution_count']}
            elif kind == 'status' and content['execution_state'] == 'idle':
                return

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


class Program:
    """Bash or node."""

    def __init__(self, args, assign, cwd):
        code, self.code = os.pipe()
        self.answer, answer = os.pipe()
        self.assign, self.count = assign, 0
        self.process = subprocess.Popen(
            [*args, str(code), str(answer)], cwd=cwd, pass_fds=(code, answer), start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        os.close(code)
        os.close(answer)

    def run(self, code, env, gone):
        self.count += 1
        yield {'type': 'number_of_executions', 'execution_count': self.count}
        try:
            with open(self.code, 'wb', closefd=False) as to:
                to.write((self.assign(env) + code).replace('\0', '').encode() + b'\0')
        except BrokenPipeError:
            pass  # it has ended
        streams = {self.process.stdout.fileno(): 'stdout', self.process.stderr.fileno(): 'stderr'}
        answer = None
        while True:
            # Output that was written before the answer is there when the answer is.
            ready, _, _ = select.select([*streams, *([] if answer is not None else [self.answer])], [], [], LOOK if answer is None else 0)
            if not ready:
                if answer is not None:
                    break
                if gone():
                    self.kill()
            for f in ready:
                data = os.read(f, 65536)
                if f == self.answer:
                    answer = (answer or b'') + data
                elif data:
                    yield {'type': streams[f], 'text': data.decode(errors='replace')}
                else:
                    del streams[f]
        while answer and not answer.endswith(b'\0'):
            data = os.read(self.answer, 65536)
            if not data:
                break
            answer += data
        if not answer.endswith(b'\0'):
            yield error('Ended', f'the program ended with {self.process.wait()}; restart the context')
        elif answer != b'{}\0':
            yield json.loads(answer[:-1])

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def close(self):
        self.kill()
        self.process.wait()
        for f in (self.code, self.answer):
            os.close(f)


def bash(cwd):
    return Program(['/bin/bash', '-c', BASH], lambda env: ''.join(f'export {shlex.quote(k)}={shlex.quote(v)}\n' for k, v in env.items()), cwd)


def node(cwd):
    return Program(['node', '-e', NODE, '--'], lambda env: f'Object.assign(process.env, {json.dumps(env)});' if env else '', cwd)


LANGUAGES = {'python': Python, 'javascript': node, 'bash': bash}
NAMES = {'python3': 'python', 'js': 'javascript', 'sh': 'bash'}


def error(name, value, traceback=''):
    return {'type': 'error', 'name': name, 'value': value, 'traceback': traceback}


class Refused(Exception):
    """A request that is answered with a status and a text."""


class Context:
    def __init__(self, language, cwd):
        if language not in LANGUAGES:
            raise Refused(400, f'there is no language {language!r}: there are {", ".join(LANGUAGES)}')
        if not os.path.isdir(cwd):
            raise Refused(400, f'there is no directory {cwd}')
        self.info = {'id': str(uuid.uuid4()), 'language': language, 'cwd': cwd}
        self.turn = threading.Lock()
        self.restart(None)

    def restart(self, old):
        if old:
            old.close()
        self.runner = LANGUAGES[self.info['language']](self.info['cwd'])


contexts = {}
changing = threading.Lock()  # of contexts


def context(language, cwd=None, name=None):
    """Makes one. That of a name is made once."""
    language = NAMES.get((language or 'python').lower(), (language or 'python').lower())
    with changing:
        name = name and 'default-' + language
        if name in contexts:
            return contexts[name]
        if len(contexts) >= MAX_CONTEXTS:
            raise Refused(429, f'there are {MAX_CONTEXTS} contexts, and no more may be')
        made = Context(language, cwd or os.getcwd())
        contexts[name or made.info['id']] = made
        made.info['id'] = name or made.info['id']
        return made


def found(name):
    if name not in contexts:
        raise Refused(404, f'Context {name} not found')
    return contexts[name]


class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *args):
        pass

    def handle_any(self):
        try:
            body = self.rfile.read(min(int(self.headers.get('Content-Length') or 0), MAX_BODY + 1))
            if len(body) > MAX_BODY:
                self.close_connection = True
                raise Refused(413, 'the body is too long')
            asked = json.loads(body or b'{}')
            if not isinstance(asked, dict):
                raise Refused(400, 'the body is no object')
            path = self.path.partition('?')[0].split('/')[1:]
            self.route(self.command, path, asked)
        except Refused as e:
            self.answer(e.args[0], e.args[1])
        except ConnectionError:
            self.close_connection = True
        except (ValueError, OSError, RuntimeError) as e:
            self.answer(400, str(e))

    do_GET = do_POST = do_DELETE = handle_any

    def route(self, method, path, asked):
        if (method, path) == ('GET', ['health']):
            self.answer(200, 'OK')
        elif (method, path) == ('POST', ['execute']):
            name = asked.get('context_id')
            self.execute(found(name) if name else context(asked.get('language'), name='default'), asked)
        elif (method, path) == ('GET', ['contexts']):
            self.answer(200, [c.info for c in list(contexts.values())])
        elif (method, path) == ('POST', ['contexts']):
            self.answer(200, context(asked.get('language'), asked.get('cwd')).info)
        elif method == 'DELETE' and len(path) == 2 and path[0] == 'contexts':
            with changing:
                found(path[1]).runner.close()
                del contexts[path[1]]
            self.answer(204)
        elif method == 'POST' and len(path) == 3 and path[0] == 'contexts' and path[2] == 'restart':
            with changing:
                found(path[1]).restart(found(path[1]).runner)
            self.answer(204)
        else:
            raise Refused(404, 'there is no ' + self.path)

    def answer(self, status, content=None):
        data = b'' if content is None else content.encode() if isinstance(content, str) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header('Content-Type', 'text/plain' if isinstance(content, str) else 'application/json')
        if status != 204:
            self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def gone(self):
        ready, _, _ = select.select([self.connection], [], [], 0)
        try:
            return bool(ready) and not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except OSError:
            return True

    def execute(self, c, asked):
        code, env = asked.get('code'), asked.get('env_vars') or {}
        if not isinstance(code, str) or not isinstance(env, dict):
            raise Refused(400, 'code and env_vars are a text and an object')
        self.send_response(200)
        self.send_header('Content-Type', 'application/x-ndjson')
        self.send_header('Transfer-Encoding', 'chunked')
        self.end_headers()
        with c.turn:
            lost = False
            for event in c.runner.run(code, {str(k): str(v) for k, v in env.items()}, self.gone):
                line = json.dumps(event).encode() + b'\n'
                try:
                    lost or self.wfile.write(b'%x\r\n%s\r\n' % (len(line), line))
                except OSError:  # what it began is interrupted as soon as it is silent
                    lost = self.close_connection = True
            if not lost:
                self.wfile.write(b'0\r\n\r\n')


if __name__ == '__main__':
    context('python', name='default')
    server = ThreadingHTTPServer(('127.0.0.1', PORT), Handler)
    server.daemon_threads = True
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server.serve_forever()
