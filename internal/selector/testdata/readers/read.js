// What Node reads; input and output as in read.py. Needs the packages qs and busboy.
const readline = require('readline'), querystring = require('querystring')
const qs = require('qs'), busboy = require('busboy')

function parts(type, body) {
  return new Promise((resolve) => {
    let value
    try {
      const b = busboy({ headers: { 'content-type': type } })
      b.on('field', (name, v) => { if (name === 'username') value = v })
      b.on('close', () => resolve(value)).on('error', () => resolve(value))
      b.end(body)
    } catch { resolve(undefined) }
  })
}
const assigned = (text) => Object.assign({}, JSON.parse(text)).username
const readers = {
  'node json': (c, b) => JSON.parse(b.toString('utf8')).username,
  'node json without mark': (c, b) => assigned(b.toString('utf8').replace(/^\ufeff/, '')),
  'node json utf16': (c, b) => JSON.parse(b.toString('utf16le').replace(/^\ufeff/, '')).username,
  'node querystring': (c, b) => [].concat(querystring.parse(b.toString('utf8')).username).pop(),
  'node querystring latin1': (c, b) => [].concat(querystring.parse(b.toString('latin1')).username)[0],
  'node URLSearchParams': (c, b) => new URLSearchParams(b.toString('utf8')).get('username'),
  'node qs': (c, b) => qs.parse(b.toString('utf8')).username,
  'node qs dots': (c, b) => qs.parse(b.toString('utf8'), { allowDots: true }).username,
  'node by hand': (c, b) => Object.fromEntries(b.toString('utf8').split('&').map((p) => (p.includes('=') ? [p.split('=')[0], p.slice(p.indexOf('=') + 1)] : [p, '']).map(decodeURIComponent))).username,
  'node query': (c) => new URLSearchParams(c.query).get('username'),
  'node busboy': (c, b) => parts(c.type, b),
}
;(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const c = JSON.parse(line), body = Buffer.from(c.body, 'latin1'), out = {}
    for (const name in readers) {
      try {
        const v = await readers[name](c, body)
        if (v !== '' && ['string', 'number', 'boolean'].includes(typeof v)) out[name] = String(v)
      } catch { /* it reads nothing */ }
    }
    console.log(JSON.stringify(out))
  }
})()
