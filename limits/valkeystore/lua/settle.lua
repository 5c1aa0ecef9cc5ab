-- The verdict of one attempt is settled in its buckets [L7].
--
-- KEYS     the buckets of the closings, then the memories of wrong secrets, then the index of failure buckets, unless no closing counts
-- ARGV[1]  header: I6 now in ms (0: the server's clock), 8 bytes id of the attempt, B closings, B memories, B 1 if a closing is of a
--          failure bucket
--          for each memory: 8 bytes digest of the secret (zeroes: not known), I4 window in ms
--          for each closing: B kind (3 failures, 4 signal), B what to do (0 free, 1 count, 2 clear, 3 neutral shadow, 4 pending
--          shadow), B memory it depends on (from 1; 0 none), I4 limit, I4 window in ms, I4 base and I4 maximum of the lock in ms (0: none)
-- reply    of each closing: 1 done, 2 counted, 4 filled, 8 crossed, added up. If there are at most 12, and no lock was made and no
--          secret a repetition: one number, of which each closing has four bits, the first the lowest. Otherwise an array: for each
--          closing that sum, ms of the lock it made, level of that lock; then for each memory: 1 if the secret was a repetition, else 0
-- holds    nothing changes where the attempt's reservation is not alive; if it is alive nowhere, nothing changes at all;
--          every written key has a TTL

local MAX_REPEATS, MAX_LEVEL, MAX_BITS, NONE = 50, 1073741824, 12, '\0\0\0\0\0\0\0\0'
local SINGLE = 23 -- bytes of a short state with one reservation and nothing else, and of no other state

local at, id, nclosings, nmemories, reserves, pos = sunpack('<I6c8BBB', ARGV[1])
local now, expire, from = at, 'PX', 0
if at == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
  expire, from = 'PXAT', now -- the server would reckon so itself, and rewrite the command
end
local states = redis.call('MGET', unpack(KEYS, 1, nclosings + nmemories))

-- Where the attempt's reservation is alive: its place in each state.
local places, alive = {false, false, false, false}, reserves == 0
for i = 1, nclosings do
  local s = states[i]
  if s and #s == SINGLE then
    local whose, ends = sunpack('<c8I6', s, 10)
    if whose == id and now < ends then
      places[i], alive = 10, true
    else
      rearm(KEYS[i])
    end
  elseif s then
    local kind, _, n = sunpack('<BI4I4', s)
    local place = (kind == 6 or kind == 3) and find_live(s, id, (kind == 6 and 10 or 50) + n * 6)
    if place and now < sunpack('<I6', s, place + 8) then
      places[i], alive = place, true
    elseif place ~= false then
      rearm(KEYS[i])
    end
  end
end
if not alive then
  if nclosings <= MAX_BITS then return 0 end
  local reply = {}
  for i = 1, nclosings * 3 + nmemories do reply[i] = 0 end
  return reply
end

local repeated, locks = nil, nil -- what there is to tell beside bits
if nmemories > 0 then
  -- Memory (little endian): B 5 | 3 * (8 bytes digest, I6 time), latest first | I6 start and I4 count of the freed repetitions.
  local function repetition(key, s, sum, window)
    if sum == NONE then return 0 end
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
    redis.call('SET', key, table.concat(out), expire, from + window)
    return again
  end

  for i = 1, nmemories do
    local sum, window
    sum, window, pos = sunpack('<c8I4', ARGV[1], pos)
    if repetition(KEYS[nclosings + i], states[nclosings + i], sum, window) == 1 then
      repeated = repeated or {}
      repeated[i] = true
    end
  end
end

-- A short bucket without the reservation at a place, after action (0 free, 1 count, 2 clear), how long that must be kept (not at all
-- if that is 0 or less), and its failures; nil if it is not short, or would not be then, or something in its log has ended or lies
-- after now.
local function settle_short(s, place, action, window, limit, locks, now)
  local unpack, sub = struct.unpack, string.sub
  local kind, was, n = unpack('<BI4I4', s)
  if kind ~= 6 or was ~= window or action > 2 then return nil end
  local log_end, ends = 9 + n * 6, 0
  if n > 0 and action < 2 then
    ends = unpack('<I6', s, log_end - 5)
    if ends > now or now - unpack('<I6', s, 10) >= window then return nil end
    ends = ends + window
  end
  if action == 1 then
    n, ends = n + 1, now + window
    if locks and n >= limit then return nil end
  end
  local value
  if action == 0 then
    value = sub(s, 1, place - 1) .. sub(s, place + 14)
  elseif action == 1 then
    value = struct.pack('<BI4I4', 6, window, n) .. sub(s, 10, log_end) .. struct.pack('<I6', now)
      .. sub(s, log_end + 1, place - 1) .. sub(s, place + 14)
  else
    n, value = 0, struct.pack('<BI4I4', 6, window, 0) .. sub(s, log_end + 1, place - 1) .. sub(s, place + 14)
  end
  if #value > 9 + n * 6 then
    local last = unpack('<I6', value, #value - 5)
    if last > ends then ends = last end
  end
  return value, ends - now, n
end

local packed, unit, counted, latest = 0, 1, nil, 0
local gone, ngone = {false, false, false, false}, 0
for i = 1, nclosings do
  local kind, action, memory, limit, window, base, most
  kind, action, memory, limit, window, base, most, pos = sunpack('<BBBI4I4I4I4', ARGV[1], pos)
  if action == 1 and repeated and repeated[memory] then action = 0 end
  local bits = 0

  if kind == 4 then
    if action == 1 then
      local s = states[i]
      local start, count = now, 0
      if s and byte(s, 1) == 4 then
        local _
        _, start, count = sunpack('<BI6I4', s)
        start, count = window_at(start, count, window, now)
      end
      redis.call('SET', KEYS[i], spack('<BI6I4', 4, start, count + 1), expire, from + start + window - now)
      bits = count == limit and 11 or 3
    end

  elseif places[i] and #states[i] == SINGLE and (action == 0 or action == 2) then -- as most are: nothing is left
    bits, ngone = 1, ngone + 1
    gone[ngone] = KEYS[i]

  elseif places[i] then
    local value, ttl, n = settle_short(states[i], places[i], action, window, limit, base > 0, now)
    bits = 1
    if value then
      if action == 1 then bits = n == limit and 7 or 3 end
    else
      local f = load_failures(states[i], window, now)
      local place = find_live(f.live, id, 1)
      f.live = sub(f.live, 1, place - 1) .. sub(f.live, place + 14)
      if action == 1 and now >= f.locked then
        f.log = f.log .. spack('<I6', now)
        if f.level > 0 then f.quiet = now end
        n = #f.log / 6
        bits = n == limit and 7 or 3
        if base > 0 and n >= limit then
          f.level = min(f.level + 1, MAX_LEVEL)
          local span = base
          for _ = 2, f.level do
            if span >= most then break end
            span = span * 2
          end
          span = min(span, most)
          f.locked, f.count, f.quiet, f.log = now + span, n, now + span, ''
          bits = 7
          locks = locks or {}
          locks[i] = {span, f.level}
        end
      elseif action == 2 then
        f.log, f.locked, f.count, f.level, f.quiet = '', 0, 0, 0, 0
      elseif action == 3 then
        f.ns, f.nc = window_at(f.ns, f.nc, window, now)
        f.nc = f.nc + 1
      elseif action == 4 then
        f.ps, f.pc = window_at(f.ps, f.pc, window, now)
        f.pc = f.pc + 1
      end
      value, ttl = save_failures(f, window, now)
    end
    if value and ttl > 0 then
      redis.call('SET', KEYS[i], value, expire, from + ttl)
    else
      ngone = ngone + 1
      gone[ngone] = KEYS[i]
    end
    if bits >= 2 then
      counted = counted or {}
      counted[#counted + 1], counted[#counted + 2] = now + ttl, KEYS[i]
      latest = max(latest, ttl)
    end
  end
  places[i] = bits
  packed, unit = packed + bits * unit, unit * 16
end
if ngone > 0 then redis.call('DEL', unpack(gone, 1, ngone)) end

-- The index: members are keys of failure buckets, scores when they mean nothing any more.
if counted then
  local index = KEYS[#KEYS]
  local old = redis.call('ZRANGE', index, '-inf', now, 'BYSCORE', 'LIMIT', 0, 4 * #counted)
  if #old > 0 then redis.call('ZREM', index, unpack(old)) end
  redis.call('ZADD', index, unpack(counted))
  if redis.call('PEXPIRE', index, latest, 'GT') == 0 and redis.call('PTTL', index) < latest then
    redis.call('PEXPIRE', index, latest)
  end
end

if nclosings <= MAX_BITS and not repeated and not locks then return packed end
local reply = {}
for i = 1, nclosings do
  local lock = locks and locks[i]
  reply[i * 3 - 2], reply[i * 3 - 1], reply[i * 3] = places[i], lock and lock[1] or 0, lock and lock[2] or 0
end
for i = 1, nmemories do reply[#reply + 1] = repeated and repeated[i] and 1 or 0 end
return reply
