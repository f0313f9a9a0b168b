// Volumes: their files with and without a sandbox. The test kills the gateway when it is
// told to.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Sandbox, Volume, VolumePathNotFoundError } from 'e2b'

const step = (name) => console.log('ok', name)

const volume = await Volume.create('data')
assert.deepEqual((await Volume.list()).map((v) => v.name), ['data'])
await assert.rejects(Volume.create('data'), /already exists/)
await assert.rejects(Volume.create('a b'), /cannot name/)
assert.equal((await Volume.getInfo(volume.volumeId)).name, 'data')
await assert.rejects(Volume.getInfo('v0'), /not found/)
step('create, list')

const written = await volume.writeFile('/first.txt', 'from outside')
assert.deepEqual([written.name, written.type, written.path, written.size, written.mode], ['first.txt', 'file', '/first.txt', 12, 0o644])
await volume.makeDir('/deep/er', { force: true, mode: 0o700 })
await volume.writeFile('/deep/er/bin', new Uint8Array([0, 255, 10]).buffer)
assert.deepEqual([...(await volume.readFile('/deep/er/bin', { format: 'bytes' }))], [0, 255, 10])
assert.deepEqual((await volume.list('/', { depth: 3 })).map((e) => e.path), ['/deep', '/deep/er', '/deep/er/bin', '/first.txt'])
assert.equal(await volume.exists('/none'), false)
await assert.rejects(volume.readFile('/none'), VolumePathNotFoundError)
await assert.rejects(volume.writeFile('/none/x', ''), VolumePathNotFoundError)
assert.equal((await volume.updateMetadata('/first.txt', { mode: 0o600 })).mode, 0o600)
step('files')

// Bytes that are not written as one piece.
const chunk = new Uint8Array(1 << 20).fill(7)
await volume.writeFile('/large', new ReadableStream({
  start(c) {
    for (let i = 0; i < 20; i++) c.enqueue(chunk)
    c.close()
  },
}))
let size = 0
for await (const part of await volume.readFile('/large', { format: 'stream' })) size += part.length
assert.equal(size, 20 << 20)
await volume.remove('/large')
step('streams')

await assert.rejects(Sandbox.create({ volumeMounts: { '/mnt/data': 'none' } }), /not found/)
for (const path of ['/home/user/data', '/', '/proc/x', '/run/secrets']) {
  await assert.rejects(Sandbox.create({ volumeMounts: { [path]: volume } }), /reserved container path/)
}
const [a, b] = await Promise.all([Sandbox.create({ volumeMounts: { '/mnt/data': volume } }), Sandbox.create({ volumeMounts: { '/srv/d': 'data' } })])
assert.deepEqual((await Sandbox.getInfo(a.sandboxId)).volumeMounts, [{ name: 'data', path: '/mnt/data' }])
assert.equal((await a.commands.run('cat /mnt/data/first.txt; stat -c %U /mnt/data /mnt/data/first.txt /mnt/data/deep/er')).stdout, 'from outsideuser\nuser\nuser\n')
await a.commands.run('echo from a >/mnt/data/a; chmod 600 /mnt/data/a; mkdir /mnt/data/own; echo one >/mnt/data/own/one')
assert.equal((await b.commands.run('cat /srv/d/a; echo more >>/srv/d/a; touch /srv/d/deep/er/new')).stdout, 'from a\n')
assert.equal(await a.files.read('/mnt/data/a'), 'from a\nmore\n')
await a.files.write('/mnt/data/by-files', 'text')
assert.equal(await volume.readFile('/by-files'), 'text')
assert.equal(await volume.readFile('/a'), 'from a\nmore\n')
await volume.writeFile('/a', 'from outside')
assert.equal((await b.commands.run('cat /srv/d/a')).stdout, 'from outside')
step('two sandboxes')

console.log('kill the gateway')
await once(process.stdin, 'data')
process.stdin.pause()
assert.equal((await b.commands.run('cat /srv/d/a')).stdout, 'from outside')
assert.equal(await volume.readFile('/by-files'), 'text') // by the same token
step('a gateway that was killed')

await b.pause()
const [fork] = await a.fork()
const resumed = await Sandbox.connect(b.sandboxId)
for (const [box, dir] of [[fork.sandbox ?? fork, '/mnt/data'], [resumed, '/srv/d']]) {
  assert.equal((await box.commands.run(`cat ${dir}/own/one`)).stdout, 'one\n')
}
await (fork.sandbox ?? fork).kill()
step('pause, fork')

await assert.rejects(Volume.destroy(volume.volumeId), /mounted in sandbox/)
await Promise.all([a.kill(), b.kill()])
const later = await Sandbox.create({ volumeMounts: { '/mnt/data': (await Volume.connect(volume.volumeId)).name } })
assert.equal((await later.commands.run('cat /mnt/data/own/one; ls /mnt/data')).stdout, 'one\na\nby-files\ndeep\nfirst.txt\nown\n')
await later.kill()
assert.equal(await Volume.destroy(volume.volumeId), true)
assert.equal(await Volume.destroy(volume.volumeId), false)
assert.deepEqual(await Volume.list(), [])
step('destroy')
