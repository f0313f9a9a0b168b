// Has the names below the gateway's domain lead to this machine.
const dns = require('dns')
const real = dns.lookup
const domain = '.' + process.env.E2B_DOMAIN.replace(/:\d+$/, '')
dns.lookup = (host, options, done) => {
  if (typeof options === 'function') [options, done] = [{}, options]
  if (!host.endsWith(domain)) return real(host, options, done)
  const address = '127.0.0.1'
  process.nextTick(done, null, options.all ? [{ address, family: 4 }] : address, 4)
}
