-- What an instance recorded alone during an outage is brought in [S5].
--
-- KEYS     the failure bucket, the mark of when it was released, the index of failure buckets
-- ARGV[1]  I6 now in ms (0: the server's clock), I4 limit, I4 window in ms, I4 base and I4 maximum of the lock in ms (0: none),
--          I4 ms that the instance's lock still lasts (0: none), I4 ms since it was made, I4 failures that made it, I4 its level,
--          I4 failures n, n * I4 age of a failure in ms, oldest first
-- reply    1 if something was brought in, else 0
-- holds    what is older than a release of the bucket is left out; the later end and the higher level win; failures and live
--          reservations stay within the limit; every written key has a TTL

local at, limit, window, base, most, locked_for, lock_age, lock_count, level, n, pos = sunpack('<I6I4I4I4I4I4I4I4I4I4', ARGV[1])
local now = at
if at == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local released = tonumber(redis.call('GET', KEYS[2]) or '0')
local f = load_failures(redis.call('GET', KEYS[1]), window, now)
local brought = 0

if level > 0 and now - lock_age > released then
  brought = 1
  f.log = '' -- the lock has taken up the failures that both sides knew
  f.level = max(f.level, level)
  f.quiet = max(f.quiet, now - lock_age, now + locked_for)
  if locked_for > 0 and now + locked_for > f.locked then
    f.locked, f.count = now + locked_for, lock_count
  end
end

local times = {}
for i = 1, #f.log / 6 do times[i] = sunpack('<I6', f.log, i * 6 - 5) end
for _ = 1, n do
  local age
  age, pos = sunpack('<I4', ARGV[1], pos)
  if age < window and now - age > released and now >= f.locked then
    times[#times + 1] = now - age
    brought = 1
  end
end
table.sort(times)

if base > 0 and #times >= limit then -- together they lock, from the failure that was the last straw
  f.level = f.level + 1
  local last = base
  for _ = 2, f.level do
    if last >= most then break end
    last = last * 2
  end
  local ends = times[#times] + min(last, most)
  f.quiet = max(f.quiet, ends)
  if ends > now then f.locked, f.count = ends, limit end
  times = {}
end
local room = max(0, limit - #f.live / 14)
local packed = {}
for i = max(1, #times - room + 1), #times do packed[#packed + 1] = spack('<I6', times[i]) end
f.log = table.concat(packed)

if brought == 0 then return 0 end
local value, ttl = save_failures(f, window, now)
if value then
  redis.call('SET', KEYS[1], value, 'PX', ttl)
  redis.call('ZADD', KEYS[3], now + ttl, KEYS[1])
  if redis.call('PTTL', KEYS[3]) < ttl then redis.call('PEXPIRE', KEYS[3], ttl) end
end
return brought
