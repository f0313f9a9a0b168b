// Twenty clients whose gateway is killed while their commands run. The test says when: it
// writes a line when the gateway is back.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Sandbox } from 'e2b'

// Longer than a busy machine takes for all of it.
const box = await Sandbox.create({ timeoutMs: 600_000 })
const frozen = await Sandbox.create({ timeoutMs: 600_000 })
const late = await Sandbox.create({ timeoutMs: 2_000 })
await frozen.commands.run('i=0; while :; do i=$((i+1)); echo $i >n; sleep 0.05; done', { background: true, timeoutMs: 0 })
await frozen.pause()
const handles = await Promise.all(
  Array.from({ length: 20 }, (_, n) => box.commands.run(`for i in $(seq 150); do echo ${n} $i; sleep 0.02; done; exit ${n}`, { background: true, timeoutMs: 0 }))
)
const cut = handles.map((h) => h.wait().then((r) => r, (e) => e))
console.log('started')
await once(process.stdin, 'data')
process.stdin.pause()
await Promise.all(cut) // each of them has seen that the gateway is gone

const ends = await Promise.all(
  handles.map(async (h) => (await box.commands.connect(h.pid, { timeoutMs: 0 })).wait().then((r) => r, (e) => e))
)
ends.forEach((end, n) => {
  assert.equal(end.exitCode, n, `command ${n}: ${end}`)
  assert.equal(end.stdout, Array.from({ length: 150 }, (_, i) => `${n} ${i + 1}\n`).join(''))
})
console.log('ok every byte and every exit')
assert.equal(await late.isRunning(), false)
console.log('ok time-out')
assert.equal((await Sandbox.getInfo(frozen.sandboxId)).state, 'paused')
const thawed = await Sandbox.connect(frozen.sandboxId)
const one = Number(await thawed.files.read('n')) // 0 while it is being written
for (let i = 0; Number(await thawed.files.read('n')) <= one; i++) {
  assert(i < 300, 'what was paused does not go on')
  await new Promise((r) => setTimeout(r, 100))
}
console.log('ok paused')
await Promise.all([box.kill(), frozen.kill()])
