// Uses a sandbox as a program does that knows nothing of Corral: with the published SDK.
// It prints a line for each step, and fails at the first one that is not as it should be.
import assert from 'node:assert/strict'
import { Sandbox } from 'e2b'
import WebSocket from 'ws'

const step = (name) => console.log('ok', name)
const until = async (what, true_) => {
  for (let i = 0; i < 100; i++) {
    if (await true_()) return
    await new Promise((r) => setTimeout(r, 100))
  }
  assert.fail('waited in vain for ' + what)
}

const box = await Sandbox.create({ metadata: { purpose: 'script' }, envs: { GLOBAL: 'g' }, timeoutMs: 120_000 })
try {
  step('create')
  const ran = await box.commands.run('echo out; echo err >&2; echo $GLOBAL $OWN', { envs: { OWN: 'o' } })
  assert.deepEqual([ran.stdout, ran.stderr, ran.exitCode], ['out\ng o\n', 'err\n', 0])
  await assert.rejects(box.commands.run('exit 3'), { exitCode: 3 })
  step('run')

  const cat = await box.commands.run('cat', { background: true, stdin: true })
  await box.commands.sendStdin(cat.pid, 'hello\n')
  await until('the echo', () => cat.stdout === 'hello\n')
  assert((await box.commands.list()).some((p) => p.pid === cat.pid))
  await cat.disconnect()
  const again = await box.commands.connect(cat.pid)
  await box.commands.sendStdin(cat.pid, 'again\n')
  await until('the second echo', () => again.stdout === 'again\n')
  await box.commands.closeStdin(cat.pid)
  assert.equal((await again.wait()).exitCode, 0)
  step('background, standard input, connect')

  let shown = ''
  const pty = await box.pty.create({ cols: 70, rows: 20, onData: (d) => (shown += new TextDecoder().decode(d)) })
  await box.pty.resize(pty.pid, { cols: 77, rows: 20 })
  await box.pty.sendInput(pty.pid, new TextEncoder().encode('stty size; exit\n'))
  await pty.wait()
  assert.match(shown, /20 77/)
  step('terminal')

  const seen = []
  await box.files.makeDir('watched')
  const watch = await box.files.watchDir('watched', (e) => seen.push(e.type + ' ' + e.name))
  await box.files.write('watched/a.txt', 'one')
  await until('the event', () => seen.includes('create a.txt'))
  await watch.stop()
  assert.equal(await box.files.read('watched/a.txt'), 'one')
  await box.files.rename('watched/a.txt', 'watched/b.txt')
  assert.deepEqual((await box.files.list('watched')).map((f) => f.path), ['/home/user/watched/b.txt'])
  const large = new Uint8Array(8 << 20).map((_, i) => i * 7)
  await box.files.write('large', large.buffer)
  assert.deepEqual(await box.files.read('large', { format: 'bytes' }), large)
  await box.files.write('plot.csv', '1,2', { metadata: { Kind: 'data', 'made.by': 'a script' } })
  await box.files.rename('plot.csv', 'watched/plot.csv')
  assert.deepEqual((await box.files.getInfo('watched/plot.csv')).metadata, { kind: 'data', 'made.by': 'a script' })
  assert.equal((await box.commands.run('python3 -c "import os; print(os.getxattr(\'watched/plot.csv\', \'user.e2b.kind\').decode())"')).stdout, 'data\n')
  await box.files.remove('watched')
  assert.equal(await box.files.exists('watched'), false)
  step('files, watch')

  await box.files.write('signed.txt', 'by a link')
  const link = await box.downloadUrl('signed.txt', { useSignatureExpiration: 60 })
  assert.equal(await (await fetch(link)).text(), 'by a link')
  assert.equal((await fetch(link.replace(/signature=v1_./, 'signature=v1_~'))).status, 401)
  const form = new FormData()
  form.append('file', new Blob(['uploaded']), 'x')
  assert.equal((await fetch(await box.uploadUrl('up.txt'), { method: 'POST', body: form })).status, 200)
  assert.equal(await box.files.read('up.txt'), 'uploaded')
  step('signed links')

  await box.files.write('server.py', `
import base64, hashlib, http.server
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        key = self.headers.get('Sec-WebSocket-Key')
        if not key:
            body = self.headers['Host'].encode()
            self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers(); self.wfile.write(body)
            return
        accept = base64.b64encode(hashlib.sha1((key + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').encode()).digest()).decode()
        self.send_response(101); self.send_header('Upgrade', 'websocket'); self.send_header('Connection', 'Upgrade')
        self.send_header('Sec-WebSocket-Accept', accept); self.end_headers()
        head = self.rfile.read(2); n = head[1] & 127; mask = self.rfile.read(4)
        data = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(n)))
        self.wfile.write(bytes([0x81, len(data)]) + data); self.close_connection = True
http.server.ThreadingHTTPServer(('127.0.0.1', 8000), H).serve_forever()
`)
  await box.commands.run('python3 server.py', { background: true })
  const host = box.getHost(8000)
  await until('the server', async () => (await fetch('https://' + host)).status === 200)
  assert.equal(await (await fetch('https://' + host)).text(), host)
  const closed = await fetch('https://' + box.getHost(8001))
  assert.deepEqual([closed.status, (await closed.json()).message], [502, 'The sandbox is running but port is not open'])
  const socket = new WebSocket('wss://' + host)
  const echoed = await new Promise((done, failed) => {
    socket.on('open', () => socket.send('ping'))
    socket.on('message', (m) => done(String(m)))
    socket.on('error', failed)
  })
  socket.close()
  assert.equal(echoed, 'ping')
  step('ports, WebSocket')

  const counter = await box.commands.run('i=0; while :; do i=$((i+1)); echo $i >n; sleep 0.05; done', { background: true })
  await box.pause()
  assert.equal(await box.isRunning(), false)
  const info = await Sandbox.getInfo(box.sandboxId)
  assert.equal(info.state, 'paused')
  const resumed = await Sandbox.connect(box.sandboxId)
  assert.equal(await resumed.isRunning(), true)
  assert((await resumed.commands.list()).some((p) => p.pid === counter.pid))
  await resumed.commands.kill(counter.pid)
  const asleep = await resumed.commands.run('echo kept >kept; exec sleep 1000', { background: true })
  await resumed.pause({ keepMemory: false })
  await resumed.connect()
  assert.equal(await resumed.files.read('kept'), 'kept\n')
  assert(!(await resumed.commands.list()).some((p) => p.pid === asleep.pid))
  assert.equal((await resumed.commands.run('echo awake')).stdout, 'awake\n')
  step('pause, resume')

  await box.files.write('kept.txt', 'as it was', { metadata: { kind: 'old' } })
  const snapshot = await box.createSnapshot({ name: 'script' })
  await box.files.write('kept.txt', 'as it is')
  const [fork] = await box.fork({ count: 1 })
  const copy = await Sandbox.create(snapshot.snapshotId)
  assert.equal(await fork.files.read('kept.txt'), 'as it is')
  assert.deepEqual((await copy.files.getInfo('kept.txt')).metadata, { kind: 'old' })
  assert.equal(await copy.files.read('kept.txt'), 'as it was')
  assert.equal((await copy.commands.run('cat kept.txt; echo >>kept.txt')).stdout, 'as it was')
  await Promise.all([fork.kill(), copy.kill()])
  const snapshots = await Sandbox.listSnapshots({ name: 'script' }).nextItems()
  assert.deepEqual(snapshots.map((s) => s.snapshotId), [snapshot.snapshotId])
  assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), true)
  step('snapshot, fork')

  const found = []
  const pages = Sandbox.list({ query: { metadata: { purpose: 'script' } } })
  while (pages.hasNext) found.push(...(await pages.nextItems()))
  assert(found.some((s) => s.sandboxId === box.sandboxId))
  step('list')
} finally {
  assert.equal(await box.kill(), true)
}
assert.equal(await Sandbox.kill(box.sandboxId), false)
step('kill')
