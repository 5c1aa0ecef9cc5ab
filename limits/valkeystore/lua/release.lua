-- Failure buckets are forgotten, with lock, level and reservations: verdicts of attempts in flight change nothing any more [A2].
--
-- KEYS     the buckets, then as many marks of when each was released, then the index of failure buckets
-- ARGV[1]  I6 now in ms (0: the server's clock), I4 how long the marks are kept in ms
-- reply    how many of the buckets meant something
-- holds    the marks have a TTL

local at, keep = sunpack('<I6I4', ARGV[1])
local now = at
if at == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local n, found = (#KEYS - 1) / 2, 0
for i = 1, n do
  local s = redis.call('GET', KEYS[i])
  local kind = s and byte(s, 1)
  if kind == 3 or kind == 6 then
    local _, window = sunpack('<BI4', s)
    local f = load_failures(s, window, now)
    if #f.log > 0 or now < f.locked or f.level > 0 then found = found + 1 end
    redis.call('DEL', KEYS[i])
  end
  redis.call('ZREM', KEYS[#KEYS], KEYS[i])
  redis.call('SET', KEYS[n + i], now, 'PX', keep)
end
return found
