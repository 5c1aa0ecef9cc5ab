-- Records are changed together, if they still hold what they did.
--
-- KEYS     the records, then the lists that some of them are on; no key twice
-- ARGV[1]  I6 now in ms (0: the server's clock), I6 deadline in ms (0: none), I4 conditions, I4 changes
--          then for each condition: I4 its record, by its place among the keys (from 1)
--          then for each change: I4 its record, I4 its list (0: none), I6 how long it is kept in ms
-- ARGV     from 2 on: the text of each condition, empty for none, then that of each change, empty to forget the record
-- reply    1: all changes were made. 0: a condition does not hold, nothing was changed. -1: later than the deadline, nothing was done
-- holds    all changes are made or none; every written key has a TTL, a list one no shorter than any record on it; a record
--          that was found without a TTL gets one [L13]

local at, deadline, nconditions, nchanges, pos = sunpack('<I6I6I4I4', ARGV[1])
local now = at
if at == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
if deadline > 0 and now > deadline then return -1 end

for i = 1, nconditions do
  local record
  record, pos = sunpack('<I4', ARGV[1], pos)
  local text = redis.call('GET', KEYS[record])
  if text then rearm(KEYS[record]) end
  if (text or '') ~= ARGV[1 + i] then return 0 end
end

for i = 1, nchanges do
  local record, list, ttl
  record, list, ttl, pos = sunpack('<I4I4I6', ARGV[1], pos)
  local key, text = KEYS[record], ARGV[1 + nconditions + i]
  if text == '' then
    redis.call('DEL', key)
    if list > 0 then redis.call('ZREM', KEYS[list], key) end
  else
    redis.call('SET', key, text, 'PX', ttl)
    if list > 0 then -- members are the keys of records, scores when these end
      local index = KEYS[list]
      local old = redis.call('ZRANGE', index, '-inf', now, 'BYSCORE', 'LIMIT', 0, 8)
      if #old > 0 then redis.call('ZREM', index, unpack(old)) end
      redis.call('ZADD', index, now + ttl, key)
      if redis.call('PTTL', index) < ttl then redis.call('PEXPIRE', index, ttl) end
    end
  end
end
return 1
