// Is root in sandboxes, as programs are that know nothing of Corral: with the published SDK.
import assert from 'node:assert/strict'
import { Sandbox, Template } from 'e2b'

const step = (name) => console.log('ok', name)
const says = async (box, text, options) => (await box.commands.run(text, options)).stdout

// What a template has outside of the home directory, with its owners and modes.
const template = Template()
  .fromBaseImage()
  .runCmd('mkdir -p /opt/tool && echo tool >/opt/tool/f && chown 33:34 /opt/tool/f && chmod 4751 /opt/tool/f && ln -s tool /opt/link', { user: 'root' })
  .setUser('root')
  .setWorkdir('/app')
  .runCmd('sudo sh -c "pwd >where"; echo $HOME >>where; mkfifo pipe; useradd -m worker; sudo -u worker sh -c "id -un >~/name"')
await Template.build(template, 'rooted')
const stat = 'stat -c "%u %g %a" /opt/tool/f; cat /opt/link/f; cat /app/where; test -p /app/pipe; sudo -u worker cat /home/worker/name'
const kept = '33 34 4751\ntool\n/app\n/root\nworker\n'
const box = await Sandbox.create('rooted')
assert.equal(await says(box, stat), kept)
assert.equal(await says(box, 'pwd; whoami; echo $USER $HOME'), '/app\nroot\nroot /root\n')
step('template')

// Two users by name, and a home directory for each.
const other = await Sandbox.create()
assert.equal(await says(other, 'pwd; echo $USER $HOME'), '/home/user\nuser /home/user\n')
assert.equal(await says(other, 'pwd; echo $USER $HOME', { user: 'root' }), '/root\nroot /root\n')
await other.files.write('a', 'of root', { user: 'root' })
await other.files.write('a', 'of the user')
await other.files.write('/etc/deep/er/file', 'outside')
assert.equal(await says(other, 'cat /root/a ~/a /etc/deep/er/file'), 'of rootof the useroutside')
assert.equal((await other.files.getInfo('/root/a')).owner, 'root')
assert.equal((await other.files.getInfo('a')).owner, 'user')
await other.kill()
step('users')

// What was changed is kept by snapshots, forks, and pauses without memory.
await box.commands.run('echo more >>/opt/tool/f; touch /new; rm /etc/debian_version; apt-get --version >/usr/local/apt')
const check = async (one) => {
  assert.equal(await says(one, 'cat /opt/tool/f; ls /new; head -c3 /usr/local/apt'), 'tool\nmore\n/new\napt')
  assert.equal(await says(one, 'cat /opt/tool/f', { user: 'user' }), 'tool\nmore\n')
}
const snapshot = await box.createSnapshot({ name: 'rooted-snapshot' })
const made = await Sandbox.create(snapshot.snapshotId)
await check(made)
const [fork] = await made.fork({ count: 1 })
await check(fork)
step('snapshot, fork')
await fork.pause({ keepMemory: false })
await check(await Sandbox.connect(fork.sandboxId))
await fork.pause({ keepMemory: false })
await fork.connect()
await check(fork)
await fork.pause()
await check(await fork.connect())
step('pause')
await fork.pause({ keepMemory: false })
await Promise.all([box.kill(), made.kill(), fork.kill()])
assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), true)
