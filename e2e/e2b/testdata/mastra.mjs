// Mastra's published sandbox for E2B, unmodified: what a workspace of an agent does with it.
import assert from 'node:assert/strict'
import { E2BSandbox } from '@mastra/e2b'

const step = (name) => console.log('ok', name)

const id = 'agent-' + process.pid
const options = { id, template: 'base', timeout: 300_000, env: { GREETING: 'hello' } }
const box = new E2BSandbox(options)
await box._start()
assert.equal(box.status, 'running')
step('start')

const ran = await box.executeCommand('echo', ["$GREETING it's", 'me'])
assert.equal(ran.exitCode, 0)
assert.equal(ran.stdout, "$GREETING it's me\n")
const shell = await box.executeCommand('sh', ['-c', 'echo $GREETING; pwd; echo bad >&2; exit 3'], { cwd: '/tmp' })
// What a command that fails has written comes twice: as it is written, and once more when
// the adapter catches the SDK's error, which has all of it.
assert.deepEqual([shell.exitCode, shell.stdout, shell.stderr, shell.success], [3, 'hello\n/tmp\n'.repeat(2), 'bad\n'.repeat(2), false])
const seen = []
await box.executeCommand('seq', ['1000'], { onStdout: (data) => seen.push(data) })
assert.equal(seen.join(''), Array.from({ length: 1000 }, (_, i) => `${i + 1}\n`).join(''))
step('commands')

const cat = await box.processes.spawn('cat; exit 4')
await cat.sendStdin('typed\n')
assert((await box.processes.list()).some((p) => p.pid === cat.pid))
for (let i = 0; !cat.stdout.includes('typed') && i < 600; i++) await new Promise((r) => setTimeout(r, 50))
assert.equal(cat.stdout, 'typed\n')
assert.equal(await cat.kill(), true)
assert.equal((await cat.wait()).success, false)
step('processes')

await box.writeFiles([{ path: '/home/user/a.txt', content: 'text' }, { path: '/home/user/dir/b.bin', content: new Uint8Array([0, 255, 1]) }])
assert.equal((await box.executeCommand('sh', ['-c', 'cat a.txt; od -An -tx1 dir/b.bin'])).stdout, 'text 00 ff 01\n')
step('files')

const server = await box.processes.spawn('exec python3 -m http.server 8000')
const url = await box.networking.getPortUrl(8000)
let page
for (let i = 0; !page?.ok && i < 600; i++) {
  page = await fetch(url).catch(() => {})
  await new Promise((r) => setTimeout(r, 50))
}
assert.match(await page.text(), /a\.txt/)
await server.kill()
step('ports')

// Another process finds the sandbox by its name, also a paused one.
await box._stop()
const later = new E2BSandbox(options)
await later._start()
assert.equal((await later.executeCommand('cat', ['a.txt'])).stdout, 'text')
await later._destroy()
assert.equal(later.status, 'destroyed')
step('pause, resume, destroy')
