-- The verdict of one attempt is settled in its buckets [L7].
--
-- KEYS     the buckets of the closings, then the memories of wrong secrets, then the index of failure buckets
-- ARGV[1]  header: I6 now in ms (0: the server's clock), 8 bytes id of the attempt, B closings, B memories
--          for each closing: B kind (3 failures, 4 signal), B what to do (0 free, 1 count, 2 clear, 3 neutral shadow, 4 pending
--          shadow), B memory it depends on (from 1; 0 none), I4 limit, I4 window in ms, I4 base and I4 maximum of the lock in ms (0: none)
--          for each memory: 8 bytes digest of the secret (zeroes: not known), I4 window in ms
-- reply    array: for each closing: bits (1 done, 2 counted, 4 filled, 8 crossed), ms of the lock it made, level of that lock;
--          then for each memory: 1 if the secret was a repetition, else 0
-- holds    nothing changes where the attempt's reservation is not alive; if it is alive nowhere, nothing changes at all;
--          every written key has a TTL

local MAX_REPEATS, MAX_LEVEL, NONE = 50, 1073741824, string.rep('\0', 8)

local at, id, nclosings, nmemories, pos = sunpack('<I6c8BB', ARGV[1])
local now = at
if at == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end

local function put(key, value, ttl)
  if value then redis.call('SET', key, value, 'PX', ttl) else redis.call('DEL', key) end
end

-- Memory (little endian): B 5 | 3 * (8 bytes digest, I6 time), latest first | I6 start and I4 count of the freed repetitions.
local function repetition(key, sum, window)
  if sum == NONE then return 0 end
  local s = redis.call('GET', key)
  local seen, start, count = {}, 0, 0
  if s and byte(s, 1) == 5 then
    local _
    for i = 1, 3 do
      local p = 2 + (i - 1) * 14
      seen[i] = {sub(s, p, p + 7), min(sunpack('<I6', s, p + 8), now)}
    end
    start, count = sunpack('<I6I4', s, 44)
  else
    for i = 1, 3 do seen[i] = {NONE, 0} end
  end
  local place, again = 3, 0
  for i = 1, 3 do
    if seen[i][1] == sum then
      if now - seen[i][2] < window then
        start, count = window_at(start, count, window, now)
        if count >= MAX_REPEATS then
          rearm(key)
          return 0
        end
        count, again = count + 1, 1
      else
        place = i
      end
      break
    end
  end
  if again == 0 then
    for i = place, 2, -1 do seen[i] = seen[i - 1] end
    seen[1] = {sum, now}
  end
  local out = {spack('<B', 5)}
  for i = 1, 3 do out[i + 1] = seen[i][1] .. spack('<I6', seen[i][2]) end
  out[5] = spack('<I6I4', start, count)
  put(key, table.concat(out), window)
  return again
end

local closings, buckets, alive, reserves = {}, {}, false, false
for i = 1, nclosings do
  local c = {}
  c.kind, c.action, c.memory, c.limit, c.window, c.base, c.most, pos = sunpack('<BBBI4I4I4I4', ARGV[1], pos)
  closings[i] = c
  if c.kind == 3 then
    reserves = true
    local s = redis.call('GET', KEYS[i])
    if s then
      local f = load_failures(s, c.window, now)
      c.place = find_live(f, id)
      buckets[i] = f
      if c.place then alive = true else rearm(KEYS[i]) end
    end
  end
end

local reply = {}
if reserves and not alive then
  for i = 1, nclosings * 3 + nmemories do reply[i] = 0 end
  return reply
end

local repeated = {}
for i = 1, nmemories do
  local sum, window
  sum, window, pos = sunpack('<c8I4', ARGV[1], pos)
  repeated[i] = repetition(KEYS[nclosings + i], sum, window)
end

-- The index: members are keys of failure buckets, scores when they mean nothing any more.
local function list(key, ttl)
  local index = KEYS[#KEYS]
  local old = redis.call('ZRANGE', index, '-inf', now, 'BYSCORE', 'LIMIT', 0, 8)
  if #old > 0 then redis.call('ZREM', index, unpack(old)) end
  redis.call('ZADD', index, now + ttl, key)
  if redis.call('PTTL', index) < ttl then redis.call('PEXPIRE', index, ttl) end
end

for i = 1, nclosings do
  local c, f = closings[i], buckets[i]
  local bits, locked, level = 0, 0, 0
  local action = c.action
  if action == 1 and c.memory > 0 and repeated[c.memory] == 1 then action = 0 end

  if c.kind == 4 then
    if action == 1 then
      local s = redis.call('GET', KEYS[i])
      local start, count = now, 0
      if s and byte(s, 1) == 4 then
        local _
        _, start, count = sunpack('<BI6I4', s)
        start, count = window_at(start, count, c.window, now)
      end
      put(KEYS[i], spack('<BI6I4', 4, start, count + 1), start + c.window - now)
      bits = 3
      if count == c.limit then bits = bits + 8 end
    end

  elseif c.place then
    bits = 1
    f.live = sub(f.live, 1, c.place - 1) .. sub(f.live, c.place + 14)
    if action == 1 and now >= f.locked then
      f.log = f.log .. spack('<I6', now)
      if f.level > 0 then f.quiet = now end
      bits = bits + 2
      local n = #f.log / 6
      if c.base > 0 and n >= c.limit then
        f.level = min(f.level + 1, MAX_LEVEL)
        locked = c.base
        for _ = 2, f.level do
          if locked >= c.most then break end
          locked = locked * 2
        end
        locked = min(locked, c.most)
        level = f.level
        f.locked, f.count, f.quiet, f.log = now + locked, n, now + locked, ''
        bits = bits + 4
      elseif n == c.limit then
        bits = bits + 4
      end
    elseif action == 2 then
      f.log, f.locked, f.count, f.level, f.quiet = '', 0, 0, 0, 0
    elseif action == 3 then
      f.ns, f.nc = window_at(f.ns, f.nc, c.window, now)
      f.nc = f.nc + 1
    elseif action == 4 then
      f.ps, f.pc = window_at(f.ps, f.pc, c.window, now)
      f.pc = f.pc + 1
    end
    local value, ttl = save_failures(f, c.window, now)
    put(KEYS[i], value, ttl)
    if bits >= 2 then list(KEYS[i], ttl) end
  end
  local r = #reply
  reply[r + 1], reply[r + 2], reply[r + 3] = bits, locked, level
end
for i = 1, nmemories do reply[#reply + 1] = repeated[i] end
return reply
