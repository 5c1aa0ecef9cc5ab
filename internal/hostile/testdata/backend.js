// A login server as people write them with Node: several ways to route and to read a name, all of them at once. It listens on
// a free port, prints that first, and then a line of JSON for each request; the answer is the same line.
const http = require('http'), crypto = require('crypto'), querystring = require('querystring'), legacy = require('url')
const login = /^\/(login|login\.php|hosted|in\/[a-z]+)\/?$/i

const routers = [
  (t) => login.test(legacy.parse(t).pathname),
  (t) => login.test(new URL(t, 'http://base').pathname),
  (t) => login.test(decodeURIComponent(new URL(t, 'http://base').pathname)),
  (t) => login.test(decodeURIComponent(t.split('?')[0])),
  (t) => login.test(require('path').posix.normalize(decodeURIComponent(t.split(/[?#]/)[0]))),
]
const last = (v) => [].concat(v).pop()
const readers = {
  'json': (r, b) => JSON.parse(b.toString('utf8')).username,
  'json without mark': (r, b) => Object.assign({}, JSON.parse(b.toString('utf8').replace(/^\ufeff/, ''))).username,
  'json trimmed': (r, b) => JSON.parse(b.toString('utf8').trim()).username,
  'json utf16': (r, b) => JSON.parse(b.toString('utf16le').replace(/^\ufeff/, '')).username,
  'json latin1': (r, b) => JSON.parse(b.toString('latin1')).username,
  'querystring': (r, b) => last(querystring.parse(b.toString('utf8')).username),
  'querystring first': (r, b) => [].concat(querystring.parse(b.toString('latin1')).username)[0],
  'URLSearchParams': (r, b) => new URLSearchParams(b.toString('utf8')).get('username'),
  'query': (r) => new URL(r.url, 'http://base').searchParams.get('username'),
  'form data': async (r, b) => last((await new Response(b, { headers: { 'content-type': r.headers['content-type'] } }).formData()).getAll('username')),
  'inflated json': (r, b) => JSON.parse(inflate(r, b)).username,
  'inflated form': (r, b) => new URLSearchParams(inflate(r, b).toString()).get('username'),
  'header': (r) => r.headers['x-user'],
  'header first': (r) => r.headersDistinct['x-user'][0],
  'cookie': (r) => cookies(r.headers.cookie).who,
  'path': (r) => decodeURIComponent(/^\/user\/([^/]+)\/?$/i.exec(new URL(r.url, 'http://base').pathname)[1]),
  'path split': (r) => r.url.split('/')[1].toLowerCase() === 'user' ? decodeURIComponent(r.url.split('?')[0].split('/')[2]) : undefined,
  'basic': (r) => Buffer.from((/^basic +(.*)$/i.exec(r.headers.authorization))[1], 'base64').toString().split(':')[0],
}
function cookies(text) { // as the package cookie does
  const found = {}
  for (const pair of text.split(';')) {
    const at = pair.indexOf('=')
    if (at < 0) continue
    const name = pair.slice(0, at).trim()
    if (!(name in found)) found[name] = attempt(() => decodeURIComponent(pair.slice(at + 1).trim().replace(/^"(.*)"$/, '$1')))
  }
  return found
}
function inflate(r, b) {
  const zlib = require('zlib'), coding = (r.headers['content-encoding'] || '').trim().toLowerCase()
  const most = { maxOutputLength: 1 << 20 }
  if (coding === 'gzip' || coding === 'x-gzip') return zlib.gunzipSync(b, most)
  if (coding === 'br') return zlib.brotliDecompressSync(b, most)
  if (coding === 'deflate') try { return zlib.inflateSync(b, most) } catch { return zlib.inflateRawSync(b, most) }
  throw new Error('no coding')
}
const attempt = (f) => { try { return f() } catch { return undefined } }

function methodOf(r, b) { // as the package method-override does
  const named = r.headers['x-http-method-override'] || r.headers['x-http-method'] || r.headers['x-method-override'] ||
    attempt(() => new URL(r.url, 'http://base').searchParams.get('_method')) || attempt(() => querystring.parse(b.toString())._method)
  return String(named || r.method).split(',')[0].trim().toUpperCase()
}

const server = http.createServer({ maxHeaderSize: 128 << 10 }, (r, w) => {
  const pieces = []
  r.on('data', (d) => pieces.push(d)).on('end', async () => {
    const body = Buffer.concat(pieces), names = {}
    for (const name in readers) {
      try {
        const v = await readers[name](r, body)
        if (v !== '' && ['string', 'number', 'boolean'].includes(typeof v)) names[name] = String(v)
      } catch { /* it reads nothing */ }
    }
    const hosted = (r.headers.host || '').split(':')[0].toLowerCase().replace(/\.$/, '') === 'auth.test'
    const line = JSON.stringify({
      id: r.headers['x-request-id'] || '', login: routers.some((f) => attempt(() => f(r.url))) && (!/hosted/i.test(r.url) || hosted), method: methodOf(r, body),
      target: r.url, length: body.length, sum: crypto.createHash('sha256').update(body).digest('hex'), names,
    })
    console.log(line)
    w.writeHead(200, { 'Content-Type': 'application/json', 'X-Seen': r.headers['x-request-id'] || 'nobody', 'Content-Length': Buffer.byteLength(line) })
    w.end(line)
  })
})
server.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ port: server.address().port })))
process.stdin.resume().on('end', () => process.exit())
